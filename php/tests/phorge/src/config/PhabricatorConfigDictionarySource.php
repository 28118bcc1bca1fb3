<?php

final class PhabricatorConfigDictionarySource extends PhabricatorConfigSource {

  private $values;

  public function __construct(array $values) {
    $this->values = $values;
  }

  public function setKeys(array $values) {
    $this->values = $values + $this->values;
  }

  public function getAllKeys() {
    return $this->values;
  }

}
