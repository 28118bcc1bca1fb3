<?php

final class PhabricatorTimeGuard extends Phobject {

  private $key;

  public function __construct($key) {
    $this->key = $key;
  }

  public function __destruct() {
    PhabricatorTime::popTime($this->key);
  }

}
