<?php

final class PhabricatorConfigOption extends Phobject {

  private $key;
  private $isHidden = false;

  public function __construct($key) {
    $this->key = $key;
  }

  public function getKey() {
    return $this->key;
  }

  public function setHidden($is_hidden) {
    $this->isHidden = $is_hidden;
    return $this;
  }

  public function getHidden() {
    return $this->isHidden;
  }

}
