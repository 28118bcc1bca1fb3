<?php

/**
 * The keys under which calls are signed, from `gantry.key-file` or
 * `gantry.keys`. A stack trace shows the beginning of arguments that are
 * strings, so secrets travel in envelopes.
 */
final class GantryKeyring extends Phobject {

  const MINIMUM_SECRET_BYTES = 32;
  const MAXIMUM_KEYS = 2;

  private $keys = array();

  private function __construct() {}

  /**
   * @return bool Whether this host is meant to accept calls.
   */
  public static function isConfigured() {
    return PhabricatorEnv::getEnvConfig('gantry.key-file') !== null
        || PhabricatorEnv::getEnvConfig('gantry.keys') !== null;
  }

  /**
   * Throws @{class:GantrySetupException} when there are no usable keys.
   */
  public static function newFromConfig() {
    $path = PhabricatorEnv::getEnvConfig('gantry.key-file');
    $keys = PhabricatorEnv::getEnvConfig('gantry.keys');

    if ($path !== null && $keys !== null) {
      throw new GantrySetupException(
        pht(
          'Both "gantry.key-file" and "gantry.keys" are set. Delete one of '.
          'them, so that it is clear which keys are live.'),
        array('./bin/config delete gantry.keys'));
    }

    if ($path !== null) {
      return self::newFromFile($path);
    }

    if ($keys !== null) {
      return self::newFromMap(
        $keys,
        pht('The value of "gantry.keys"'),
        array('./bin/config set --stdin gantry.keys < keys.json'));
    }

    throw new GantrySetupException(
      pht('There are no keys: "gantry.key-file" is not set.'),
      array(
        'gantry keys new --conduit-key-file /etc/gantry/keys.json',
        './bin/config set gantry.key-file /etc/gantry/keys.json',
      ));
  }

  public static function newFromFile($path) {
    if (!is_string($path) || strncmp($path, '/', 1)) {
      throw new GantrySetupException(
        pht('The path in "gantry.key-file" is not absolute.'),
        array('./bin/config set gantry.key-file /etc/gantry/keys.json'));
    }

    $make = csprintf('gantry keys new --conduit-key-file %s', $path);
    if (!@is_file($path)) {
      throw new GantrySetupException(
        pht(
          'The key file "%s" does not exist, or user "%s" may not enter its '.
          'directory.',
          $path,
          self::getUser()),
        array((string)$make));
    }

    if (fileperms($path) & 0006) {
      throw new GantrySetupException(
        pht(
          'The key file "%s" is open to every user of this host. Close it, '.
          'and then replace the keys, because they may be known.',
          $path),
        array(
          (string)csprintf('chmod o= %s', $path),
          (string)$make,
        ));
    }

    $text = @file_get_contents($path);
    if ($text === false) {
      throw new GantrySetupException(
        pht(
          'The key file "%s" can not be read by user "%s".',
          $path,
          self::getUser()),
        array(
          (string)csprintf('chgrp "$(id -gn %s)" %s', self::getUser(), $path),
          (string)csprintf('chmod 0640 %s', $path),
        ));
    }

    // The JSON parser of libphutil throws, with the text as an argument.
    return self::newFromMap(
      json_decode($text, true),
      pht('The content of the key file "%s"', $path),
      array(
        (string)csprintf('rm %s', $path),
        (string)$make,
      ));
  }

  /**
   * @param mixed $map What was found where keys should be.
   * @param string $what What to call it in errors.
   * @param list<string> $commands What to run when it is wrong.
   */
  private static function newFromMap($map, $what, array $commands) {
    $problem = self::getProblem($map);
    if ($problem !== null) {
      throw new GantrySetupException(
        pht('%s %s', $what, $problem),
        $commands);
    }

    $keyring = new self();
    foreach ($map as $key_id => $secret) {
      $keyring->keys[(string)$key_id] = new PhutilOpaqueEnvelope($secret);
    }
    return $keyring;
  }

  private static function getProblem($map) {
    if (!is_array($map) || !$map || phutil_is_natural_list($map)) {
      return pht(
        'is not a JSON object that maps key IDs to secrets, like '.
        '{"2026-11": "..."}.');
    }

    if (count($map) > self::MAXIMUM_KEYS) {
      return pht(
        'holds %d keys, but at most %d can be live.',
        count($map),
        self::MAXIMUM_KEYS);
    }

    foreach ($map as $key_id => $secret) {
      if (!GantrySignedRequest::isKeyID((string)$key_id)) {
        return pht(
          'has a key ID that is not 1 to 64 letters, digits, dots, dashes '.
          'and underscores.');
      }
      if (!is_string($secret) ||
          strlen($secret) < self::MINIMUM_SECRET_BYTES) {
        return pht(
          'has a secret for key "%s" that is not a string of at least %d '.
          'characters.',
          $key_id,
          self::MINIMUM_SECRET_BYTES);
      }
    }

    return null;
  }

  private static function getUser() {
    if (!function_exists('posix_geteuid')) {
      return get_current_user();
    }
    $user = posix_getpwuid(posix_geteuid());
    return $user ? $user['name'] : posix_geteuid();
  }

  public function getKeyIDs() {
    return array_map('strval', array_keys($this->keys));
  }

  /**
   * @return PhutilOpaqueEnvelope|null
   */
  public function getKey($key_id) {
    return idx($this->keys, $key_id);
  }

}
