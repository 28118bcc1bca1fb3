<?php

/**
 * A connection of its own to the master of the worker database, where the
 * tables of Gantry are, too. It is not among the connections of Lisk: a task
 * that leaves a transaction open, or closes all connections, does not touch it.
 */
final class GantryDatabase extends Phobject {

  // Seconds: enough for a server to be restarted.
  const MAXIMUM_TRYING = 60;

  // Seconds after which a process counts as dead of which nobody knows.
  const MAXIMUM_DOUBT = 600;

  // Stands for the server in the name of a lock that is to be taken: no other
  // server knows that lock.
  const THIS_SERVER = '{server}';
  const SERVER_NAME =
    "LEFT(SHA1(CONCAT_WS(' ', @@hostname, @@port, @@server_id)), 8)";

  // Errors of a server that shuts down (1053), is read-only for a while (1290,
  // 1836), or was told to end a query (1317, 1969).
  private static $passingErrors = array(1053, 1290, 1317, 1836, 1969);

  private $connection;
  private $processLock;
  private $requestFile;

  public function getConnection() {
    if (!$this->connection) {
      $ref = PhabricatorDatabaseRef::getMasterDatabaseRefForApplication(
        'worker');
      if (!$ref) {
        throw new GantrySetupException(
          pht('No master is configured for the worker database.'));
      }

      // A persistent connection would keep the lock of a dead request.
      $this->connection = $ref
        ->newApplicationConnection(self::getDatabaseName('worker'))
        ->setPersistent(false)
        ->setQueryTimeout(0);
    }
    return $this->connection;
  }

  public static function getTable($name) {
    return new AphrontDatabaseTableRef(self::getDatabaseName('gantry'), $name);
  }

  public static function getDatabaseName($application) {
    return PhabricatorLiskDAO::getDefaultStorageNamespace().'_'.$application;
  }

  /**
   * Take a lock that the server frees when this process dies: as long as it is
   * held, what this process began is still running. A call takes it once, when
   * it is let in.
   *
   * @param list<PhutilQueryString> $queries Sent in the same trip.
   * @return list<wild> As @{method:queryInOneTrip}, of these queries.
   */
  public function takeProcessLock(array $queries) {
    $this->requestFile = GantryRequestFile::newLocked();
    return $this->takeLock(
      implode(
        ':',
        array(
          'gantry',
          $this->requestFile->getName(),
          self::THIS_SERVER,
          bin2hex(random_bytes(5)),
        )),
      $queries);
  }

  /**
   * @return string Name of the lock that was taken, at most 64 characters, as
   *   servers and the column of receipts allow.
   */
  public function getProcessLock() {
    return $this->processLock;
  }

  private function takeLock($lock, array $queries = array()) {
    $conn = $this->getConnection();

    // The connection is idle for as long as a task runs.
    $queries[] = qsprintf($conn, 'SET SESSION wait_timeout = %d', 2147483);
    $queries[] = qsprintf(
      $conn,
      'SELECT GET_LOCK(REPLACE(%s, %s, '.self::SERVER_NAME.'), 0) held, '.
        self::SERVER_NAME.' server',
      $lock,
      self::THIS_SERVER);
    $results = $this->queryInOneTrip($queries);

    $taken = array_pop($results);
    foreach (array($taken, array_pop($results)) as $result) {
      if ($result instanceof Exception) {
        throw $result;
      }
    }
    list($row) = $taken;
    $lock = str_replace(self::THIS_SERVER, $row['server'], $lock);
    if (!$row['held']) {
      // The server may not have noticed yet that the connection before ended.
      throw new AphrontLockTimeoutQueryException(
        pht('The lock "%s" can not be taken.', $lock));
    }

    // Phorge does not repeat a query behind the back of a held lock.
    $conn->rememberLock($lock);
    $this->processLock = $lock;
    return $results;
  }

  /**
   * @param string $lock Lock of a process.
   * @param int $epoch When the process held it.
   * @return bool The process is done with the request in which it took the
   *   lock. On its own host that is known, also when it was cut off from the
   *   database. Elsewhere the lock tells, and a process that was cut off
   *   counts as dead. A server that was started later, or another one after a
   *   failover, knows nothing of the lock. Then the process counts as dead
   *   after some time, so that nothing waits for it for ever.
   */
  public function isProcessDead($lock, $epoch) {
    $conn = $this->getConnection();

    $uptime = queryfx_one($conn, 'SHOW GLOBAL STATUS LIKE %s', 'Uptime');
    $row = queryfx_one(
      $conn,
      'SELECT IS_FREE_LOCK(%s) isFree, UNIX_TIMESTAMP() now, '.
        self::SERVER_NAME.' server',
      $lock);

    if (!$row['isFree']) {
      return false;
    }

    list(, $request, $server) = array_pad(explode(':', $lock), 3, '');
    $is_over = GantryRequestFile::isOver($request);
    if ($is_over !== null) {
      return $is_over;
    }

    $started = $row['now'] - $uptime['Value'];
    if ($server === $row['server'] && $epoch > $started) {
      return true;
    }
    return $row['now'] - max($epoch, $started) > self::MAXIMUM_DOUBT;
  }

  /**
   * Send queries together, and wait for the server once.
   *
   * @param map<wild, PhutilQueryString> $queries
   * @return map<wild, wild> For each query its rows, or the number of rows that
   *   it changed, or why it failed. One that fails does not keep those behind
   *   it from being sent.
   */
  public function queryInOneTrip(array $queries) {
    $conn = $this->getConnection();

    $raw = array();
    foreach ($queries as $key => $query) {
      $raw[$key] = $query->getUnmaskedString();
    }
    $results = $this->executeRawQueries($conn, $raw);

    foreach ($results as $result) {
      if ($result instanceof AphrontConnectionLostQueryException) {
        // Phorge does this for queries that are sent alone.
        $conn->forgetAllLocks();
        $conn->close();
        throw $result;
      }
    }
    return $results;
  }

  /**
   * A connection that is lost after the first results leaves the client waiting
   * for more, which Phorge takes for a mistake in the queries.
   */
  private function executeRawQueries($conn, array $raw) {
    try {
      return $conn->executeRawQueries($raw);
    } catch (AphrontQueryException $ex) {
      throw $ex;
    } catch (Exception $ex) {
      return array(
        new AphrontConnectionLostQueryException($ex->getMessage()),
      );
    }
  }

  /**
   * Send queries together, as one transaction. What fails does not keep the
   * others from being committed, unless the server ended the transaction.
   *
   * @param map<string, PhutilQueryString> $queries
   * @return map<string, wild> As @{method:queryInOneTrip}.
   */
  public function saveInOneTrip(array $queries) {
    $conn = $this->getConnection();

    $results = $this->queryInOneTrip(
      array('start' => qsprintf($conn, 'START TRANSACTION')) +
      $queries +
      array('commit' => qsprintf($conn, 'COMMIT')));
    foreach (array('start', 'commit') as $key) {
      if ($results[$key] instanceof Exception) {
        throw $results[$key];
      }
    }
    return $results;
  }

  /**
   * Run queries, and run them again when the server has ended them or is gone.
   * Work that is done is worth waiting for its receipt.
   */
  public function tryAgain($callback) {
    $start = microtime(true);

    for ($try = 1; ; $try++) {
      try {
        if ($try > 1) {
          $this->recoverLock();
        }
        return call_user_func($callback, $this->getConnection());
      } catch (Throwable $ex) {
        $took = microtime(true) - $start;
        if (!self::isPassing($ex) || $took > self::MAXIMUM_TRYING) {
          throw $ex;
        }
        usleep(1000 * mt_rand(5, 10 << min($try, 6)));
      }
    }
  }

  private static function isPassing($ex) {
    return $ex instanceof AphrontRecoverableQueryException
        || $ex instanceof AphrontConnectionQueryException
        || ($ex instanceof AphrontQueryException
            && in_array($ex->getCode(), self::$passingErrors));
  }

  /**
   * With its connection, a process has lost its lock.
   */
  private function recoverLock() {
    if ($this->processLock !== null) {
      if (!$this->getConnection()->isHoldingAnyLock()) {
        $this->takeLock($this->processLock);
      }
    }
  }

}
