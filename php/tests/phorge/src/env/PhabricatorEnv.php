<?php

/**
 * Configuration is a JSON file, as in Phorge, and what a test overrides.
 */
final class PhabricatorEnv extends Phobject {

  private static $sourceStack;
  private static $isReadOnly = false;

  public static function initializeScriptEnvironment() {
    self::$sourceStack = new PhabricatorConfigStackSource();
    self::$sourceStack->pushSource(
      new PhabricatorConfigDictionarySource(
        array(
          'phd.user' => null,
        )));
    self::$sourceStack->pushSource(new PhabricatorConfigLocalSource());
    self::$sourceStack->pushSource(
      new PhabricatorConfigDatabaseSource('default'));
  }

  public static function getConfigSourceStack() {
    return self::$sourceStack;
  }

  public static function getSelectedEnvironmentName() {
    return getenv('PHABRICATOR_ENV') ?: null;
  }

  public static function getEnvConfig($key) {
    $values = self::$sourceStack->getAllKeys();
    if (!array_key_exists($key, $values)) {
      throw new Exception('No such option.');
    }
    return $values[$key];
  }

  public static function getEnvConfigIfExists($key, $default = null) {
    return idx(self::$sourceStack->getAllKeys(), $key, $default);
  }

  public static function beginScopedEnv() {
    $source = new PhabricatorConfigDictionarySource(array());
    self::$sourceStack->pushSource($source);
    return new PhabricatorScopedEnv($source);
  }

  public static function popTestEnvironment() {
    self::$sourceStack->popSource();
  }

  public static function isReadOnly() {
    return self::$isReadOnly;
  }

  public static function setReadOnly($is_read_only, $reason) {
    self::$isReadOnly = $is_read_only;
  }

}
