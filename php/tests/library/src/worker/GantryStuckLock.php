<?php

/**
 * A lock that is not released at the first try.
 */
final class GantryStuckLock extends PhutilLock {

  private $tries = 0;

  public static function leave() {
    $lock = new self('gantry-stuck-'.bin2hex(random_bytes(8)));
    self::registerLock($lock);
    return $lock->lock();
  }

  protected function doLock($wait) {}

  protected function doUnlock() {
    if (!$this->tries++) {
      throw new Exception('The lock is stuck.');
    }
  }

}
