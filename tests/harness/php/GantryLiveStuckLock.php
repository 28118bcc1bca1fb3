<?php

/**
 * A lock that is not released at the first try.
 */
final class GantryLiveStuckLock extends PhutilLock {

  private $tries = 0;

  public static function leave() {
    $lock = new self('gantry-live-stuck');
    self::registerLock($lock);
    $lock->lock();
  }

  protected function doLock($wait) {}

  protected function doUnlock() {
    if (!$this->tries++) {
      throw new Exception(pht('The lock is stuck.'));
    }
  }

}
