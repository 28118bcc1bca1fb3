<?php

final class GantryTaskRemainsTest extends GantryTestCase {

  public function testACleanTaskLeavesNoDoubt() {
    $this->assertFalse(GantryTaskRemains::clear(ob_get_level()));
    $this->assertSame('', $this->getLog());
  }

  public function testALeakedTransactionIsRolledBackOnce() {
    $task = new PhabricatorWorkerActiveTask();
    $task->openTransaction();
    $task->openTransaction();
    $connection = $task->establishConnection('w');

    $this->assertTrue(GantryTaskRemains::clear(ob_get_level()));
    $this->assertFalse($connection->isInsideTransaction());
    $this->assertStringContainsString('rolled back', $this->getLog());

    $this->assertFalse(GantryTaskRemains::clear(ob_get_level()));
    $this->assertNotSame($connection, $task->establishConnection('w'));
  }

  /**
   * The server has rolled it back, and a savepoint of it is no more.
   */
  public function testATransactionOfALostConnectionDoesNotHideAnother() {
    LiskDAO::closeAllConnections();
    $task = new PhabricatorWorkerActiveTask();
    $lost = $task->establishConnection('r');
    $lost->openTransaction();
    $lost->openTransaction();
    $open = $task->establishConnection('w');
    $open->openTransaction();
    $this->assertNotSame($lost, $open);
    $this->lose($lost);

    $this->assertTrue(GantryTaskRemains::clear(ob_get_level()));
    $this->assertFalse($lost->isInsideTransaction());
    $this->assertFalse($open->isInsideTransaction());
    $this->assertStringContainsString('rolled back', $this->getLog());
    $this->assertNotSame($open, $task->establishConnection('w'));
  }

  private function lose(AphrontDatabaseConnection $connection) {
    if (method_exists($connection, 'lose')) {
      return $connection->lose();
    }

    $id = head(queryfx_one($connection, 'SELECT CONNECTION_ID()'));
    $other = id(new PhabricatorWorkerActiveTask())
      ->establishConnection('w', $force_new = true);
    queryfx($other, 'KILL %d', $id);
  }

  public function testALockThatStaysDoesNotHideATransaction() {
    GantryStuckLock::leave();
    $connection = id(new PhabricatorWorkerActiveTask())
      ->establishConnection('w')
      ->openTransaction();

    try {
      GantryTaskRemains::clear(ob_get_level());
      $this->fail('Nobody is told of the lock.');
    } catch (Exception $ex) {
      $this->assertSame('The lock is stuck.', $ex->getMessage());
    }
    $this->assertFalse($connection->isInsideTransaction());
    $this->assertFalse(GantryTaskRemains::clear(ob_get_level()));
  }

  public function testALeakedRowLockIsReleased() {
    $connection = id(new PhabricatorWorkerActiveTask())
      ->establishConnection('w');
    $connection->beginReadLocking();
    $connection->beginWriteLocking();

    $this->assertTrue(GantryTaskRemains::clear(ob_get_level()));
    $this->assertFalse($connection->isReadLocking());
    $this->assertFalse($connection->isWriteLocking());
  }

  public function testALeakedLockIsReleased() {
    $lock = PhutilFileLock::newForPath(getenv('GANTRY_TEST_CONF').'/lock');
    $lock->lock();

    $this->assertFalse(GantryTaskRemains::clear(ob_get_level()));
    $lock->lock();
    $lock->unlock();
  }

  public function testTheNextTaskDoesNotRunItsFollowUpsItself() {
    PhabricatorWorker::setRunAllTasksInProcess(true);
    GantryTaskRemains::clear(ob_get_level());

    $read = function() {
      return self::$runAllTasksInProcess;
    };
    $read = Closure::bind($read, null, PhabricatorWorker::class);
    $this->assertFalse($read());
  }

  public function testOutputLeftInABufferIsPrinted() {
    $this->expectOutputString('left behind');
    $level = ob_get_level();
    ob_start();
    ob_start();
    echo 'left behind';

    GantryTaskRemains::clear($level);
    $this->assertSame($level, ob_get_level());
  }

}
