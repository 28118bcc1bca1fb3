<?php

/**
 * Names a process so that a later one on the same host can say whether it is
 * gone: by the host, the boot, its number, and when it was started, because
 * numbers are used again.
 */
final class GantryProcessIdentity extends Phobject {

  /**
   * @return string Name of this process, at most 37 characters. Empty where
   *   there is no procfs.
   */
  public static function getName() {
    $pid = getmypid();
    $parts = array(
      self::getPlace(),
      self::getBoot(),
      $pid,
      self::getStart($pid),
    );
    return in_array(null, $parts, $strict = true) ? '' : implode('.', $parts);
  }

  /**
   * @return bool The process is known to be gone. What runs elsewhere is not
   *   known here.
   */
  public static function isGone($name) {
    $parts = explode('.', $name);
    if (count($parts) !== 4 || $parts[0] !== self::getPlace()) {
      return false;
    }
    return $parts[1] !== self::getBoot()
        || $parts[3] !== self::getStart((int)$parts[2]);
  }

  /**
   * One host, one namespace of process numbers and one user, whose processes
   * can see one another. The name of the host tells apart the copies of one
   * machine, and where a machine has no id, each boot counts as another one.
   */
  private static function getPlace() {
    $namespace = @readlink('/proc/self/ns/pid');
    $user = @fileowner('/proc/self');
    if ($namespace === false || $user === false) {
      return null;
    }

    $machine = trim((string)@file_get_contents('/etc/machine-id'));
    if (!strlen($machine)) {
      $machine = self::getBoot();
    }
    return self::getDigest(
      array($machine, php_uname('n'), $namespace, $user));
  }

  private static function getBoot() {
    $boot = @file_get_contents('/proc/sys/kernel/random/boot_id');
    return $boot === false ? null : self::getDigest(array($boot));
  }

  private static function getDigest(array $parts) {
    return substr(hash('sha256', implode(' ', $parts)), 0, 8);
  }

  private static function getStart($pid) {
    $stat = @file_get_contents('/proc/'.$pid.'/stat');
    if ($stat === false) {
      return null;
    }

    // The second field is a name in parentheses and can hold anything.
    $fields = explode(' ', substr($stat, strrpos($stat, ')') + 2));
    return idx($fields, 22 - 3);
  }

}
