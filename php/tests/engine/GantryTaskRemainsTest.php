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
