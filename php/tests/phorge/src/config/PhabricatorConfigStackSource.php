<?php

final class PhabricatorConfigStackSource extends PhabricatorConfigSource {

  private $stack = array();

  public function pushSource(PhabricatorConfigSource $source) {
    array_unshift($this->stack, $source);
  }

  public function popSource() {
    return array_shift($this->stack);
  }

  public function getStack() {
    return $this->stack;
  }

  public function getAllKeys() {
    $values = array();
    foreach ($this->stack as $source) {
      $values += $source->getAllKeys();
    }
    return $values;
  }

}
