<?php

/**
 * What a task left behind in a process that outlives it. Phorge's workers
 * clear up for themselves after an exception, and most of them do not after an
 * error.
 */
final class GantryTaskRemains extends Phobject {

  /**
   * @param int $output_level Buffers of output that are not the task's.
   * @return bool Whether something was left that casts doubt on the process.
   */
  public static function clear($output_level = 0) {
    try {
      // A class that does not load leaves libphutil with most errors turned
      // off.
      error_reporting(E_ALL);
      PhabricatorWorker::setRunAllTasksInProcess(false);
      self::flushOutput($output_level);
      PhutilLock::unlockAll();
      return self::closeTransactions();
    } catch (Throwable $ex) {
      phlog($ex);
      return true;
    }
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
      while ($connection->isInsideTransaction()) {
        $is_clean = false;
        $connection->killTransaction();
      }
      while ($connection->isReadLocking()) {
        $is_clean = false;
        $connection->endReadLocking();
      }
      while ($connection->isWriteLocking()) {
        $is_clean = false;
        $connection->endWriteLocking();
      }
    }

    if (!$is_clean) {
      LiskDAO::closeAllConnections();
      phlog(
        pht(
          'The task left a transaction or a row lock open. It was rolled back.'));
    }

    return !$is_clean;
  }

}
