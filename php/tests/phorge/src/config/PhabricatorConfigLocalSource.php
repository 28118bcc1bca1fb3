<?php

final class PhabricatorConfigLocalSource extends PhabricatorConfigSource {

  private $values;

  public function __construct() {
    $path = getenv('GANTRY_TEST_CONF').'/local.json';
    $this->values = is_file($path)
      ? phutil_json_decode(file_get_contents($path))
      : array();
  }

  public function getAllKeys() {
    return $this->values;
  }

}
