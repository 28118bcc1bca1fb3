<?php

/**
 * A JSON file in the place of a table.
 */
final class PhabricatorConfigDatabaseSource extends PhabricatorConfigSource {

  private $values;

  public function __construct($namespace) {
    $path = getenv('GANTRY_TEST_CONF').'/database.json';
    $this->values = is_file($path)
      ? phutil_json_decode(file_get_contents($path))
      : array();
  }

  public function getAllKeys() {
    return $this->values;
  }

}
