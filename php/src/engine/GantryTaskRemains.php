<?php

/**
 * What a task left behind in a process that outlives it. Phorge's workers
 * clear up for themselves after an exception, and most of them do not after an
 * error.
 */
final class GantryTaskRemains extends Phobject {

  /**
   * Each step is taken whatever becomes of the others.
   *
   * @param int $output_level Buffers of output that are not the task's.
   * @return bool Whether something was left that casts doubt on the process.
   * @throws Throwable Something is still there: a lock, perhaps. No transaction
   *   is, but the next task does not belong into this process.
   */
  public static function clear($output_level = 0) {
    // A class that does not load leaves libphutil with most errors turned off.
    error_reporting(E_ALL);
    PhabricatorWorker::setRunAllTasksInProcess(false);
    try {
      self::flushOutput($output_level);
    } finally {
      try {
        PhutilLock::unlockAll();
      } finally {
        $is_clean = self::closeTransactions();
      }
    }
    return !$is_clean;
  }

  private static function flushOutput($output_level) {
    while (ob_get_level() > $output_level) {
      ob_end_flush();
    }
  }

  /**
   * What is still open must not be committed, or rolled back, by the next task
   * that uses the connection. Nothing public tells which connections there are.
   */
  private static function closeTransactions() {
    $read = function() {
      return self::$connections;
    };
    $connections = call_user_func(Closure::bind($read, null, LiskDAO::class));

    $is_clean = true;
    foreach ($connections as $connection) {
      $is_clean = self::closeTransaction($connection) && $is_clean;
    }

    if (!$is_clean) {
      LiskDAO::closeAllConnections();
      phlog(
        pht(
          'The task left a transaction or a row lock open. It was rolled back.'));
    }

    return $is_clean;
  }

  private static function closeTransaction(
    AphrontDatabaseConnection $connection) {

    $is_clean = true;
    while ($connection->isInsideTransaction()) {
      $is_clean = false;
      try {
        $connection->killTransaction();
      } catch (Throwable $ex) {
        // A lost connection can not go back to a savepoint. The server has
        // rolled back what it held.
        phlog($ex);
      }
    }
    while ($connection->isReadLocking()) {
      $is_clean = false;
      $connection->endReadLocking();
    }
    while ($connection->isWriteLocking()) {
      $is_clean = false;
      $connection->endWriteLocking();
    }
    return $is_clean;
  }

}
