<?php

abstract class LiskDAO extends Phobject {

  private static $connections = array();

  protected $id;
  protected $dateCreated;
  protected $dateModified;

  public function loadFromArray(array $row) {
    foreach ($row as $column => $value) {
      if (property_exists($this, $column)) {
        $this->$column = $value;
      }
    }
    return $this;
  }

  public function __call($method, $arguments) {
    $property = lcfirst(substr($method, 3));
    if ($property === 'iD') {
      $property = 'id';
    }

    if (!strncmp($method, 'set', 3)) {
      $this->$property = head($arguments);
      return $this;
    }
    return $this->$property;
  }

  public function establishConnection($mode) {
    $key = $mode.':'.get_class($this);
    if (empty(self::$connections[$key])) {
      self::$connections[$key] = new AphrontDatabaseConnection();
    }

    return self::$connections[$key];
  }

  public function openTransaction() {
    $this->establishConnection('w')->openTransaction();
    return $this;
  }

  public function beginReadLocking() {
    $this->establishConnection('w')->beginReadLocking();
    return $this;
  }

  public static function closeInactiveConnections($window) {
    foreach (self::$connections as $key => $connection) {
      $idle = PhabricatorTime::getNow() - $connection->getLastActiveEpoch();
      if ($idle > $window && !$connection->isInsideTransaction()) {
        unset(self::$connections[$key]);
      }
    }
  }

  public static function closeAllConnections() {
    self::$connections = array();
  }

}
