<?php

abstract class PhabricatorApplicationConfigOptions extends Phobject {

  /**
   * A secret in each of the shapes that Phorge has, and one option that is
   * hidden and holds none.
   */
  final public static function loadAllOptions() {
    $options = array();
    $keys = array('mysql.host', 'mysql.pass', 'cluster.mailers', 'gantry.keys');
    foreach ($keys as $key) {
      $options[$key] = id(new PhabricatorConfigOption($key))->setHidden(true);
    }
    $options['phd.user'] = new PhabricatorConfigOption('phd.user');
    return $options;
  }

}
