<?php

abstract class PhabricatorLiskDAO extends LiskDAO {

  public static function getStorageNamespace() {
    return 'standin';
  }

  public static function getDefaultStorageNamespace() {
    return 'standin';
  }

}
