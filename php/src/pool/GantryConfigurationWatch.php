<?php

/**
 * Sees that the configuration is no longer the one this process has read. The
 * overseer of phd counts edits in the web interface, which misses everything
 * that `bin/config set` does; here, the values themselves are compared.
 */
final class GantryConfigurationWatch extends Phobject {

  private $inUse = array();
  private $files;

  public function __construct() {
    foreach (PhabricatorEnv::getConfigSourceStack()->getStack() as $source) {
      $this->inUse[get_class($source)] = $source->getAllKeys();
    }
    $this->files = self::hashFiles();
  }

  /**
   * @return bool False, too, when that can not be known now: a database may be
   *   away, or a file half written.
   */
  public function hasChanged() {
    try {
      return self::hashFiles() !== $this->files
        || $this->differs(new PhabricatorConfigLocalSource())
        || $this->differs(new PhabricatorConfigDatabaseSource('default'));
    } catch (Exception $ex) {
      phlog($ex);
      return false;
    }
  }

  private function differs(PhabricatorConfigSource $source) {
    return $source->getAllKeys() !== idx($this->inUse, get_class($source));
  }

  /**
   * The other way to configure Phorge is a PHP file that the environment names.
   * Reading such a file twice could define its functions twice.
   */
  private static function hashFiles() {
    $conf = dirname(phutil_get_library_root('phabricator')).'/conf';
    $name = PhabricatorEnv::getSelectedEnvironmentName();
    $name = preg_replace('/\.conf\.php$/', '', (string)$name);

    $hashes = array();
    foreach (array('local/ENVIRONMENT', $name.'.conf.php') as $file) {
      if (is_file($conf.'/'.$file)) {
        $hashes[$file] = sha1_file($conf.'/'.$file);
      }
    }
    return $hashes;
  }

}
