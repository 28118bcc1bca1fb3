<?php

/**
 * Knows how deep it is in a transaction, and reaches no server.
 */
final class AphrontDatabaseConnection extends Phobject {

  private $depth = 0;
  private $readLocks = 0;
  private $writeLocks = 0;
  private $lastActiveEpoch;
  private $isLost = false;

  public function __destruct() {
    if ($this->depth || $this->readLocks || $this->writeLocks) {
      throw new Exception('Process exited with an open transaction!');
    }
  }

  public function setLastActiveEpoch($epoch) {
    $this->lastActiveEpoch = $epoch;
    return $this;
  }

  public function getLastActiveEpoch() {
    return $this->lastActiveEpoch;
  }

  public function openTransaction() {
    $this->depth++;
    return $this;
  }

  public function lose() {
    $this->isLost = true;
  }

  public function killTransaction() {
    $this->depth--;
    if ($this->isLost && $this->depth) {
      throw new Exception('MySQL has gone away.');
    }
    return $this;
  }

  public function isInsideTransaction() {
    return $this->depth > 0;
  }

  public function beginReadLocking() {
    $this->readLocks++;
    return $this;
  }

  public function endReadLocking() {
    $this->readLocks--;
    return $this;
  }

  public function isReadLocking() {
    return $this->readLocks > 0;
  }

  public function beginWriteLocking() {
    $this->writeLocks++;
    return $this;
  }

  public function endWriteLocking() {
    $this->writeLocks--;
    return $this;
  }

  public function isWriteLocking() {
    return $this->writeLocks > 0;
  }

}
