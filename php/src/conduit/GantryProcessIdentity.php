<?php

/**
 * Names a process so that a later one on the same host can say whether it is
 * gone: by where it runs, its number, and when it was started, because numbers
 * are used again.
 */
final class GantryProcessIdentity extends Phobject {

  /**
   * @return string Name of this process, at most 40 characters. Empty where
   *   there is no procfs.
   */
  public static function getName() {
    $pid = getmypid();
    $place = self::getPlace();
    $start = self::getStart($pid);
    return $place === null || $start === null
      ? ''
      : $place.'.'.$pid.'.'.$start;
  }

  /**
   * @return bool The process is known to be gone. What runs elsewhere is not
   *   known here.
   */
  public static function isGone($name) {
    $parts = explode('.', $name);
    return count($parts) === 3
        && $parts[0] === self::getPlace()
        && $parts[2] !== self::getStart((int)$parts[1]);
  }

  /**
   * One boot of one host, one namespace of process numbers and one user, whose
   * processes can see one another.
   */
  private static function getPlace() {
    $boot = @file_get_contents('/proc/sys/kernel/random/boot_id');
    $namespace = @readlink('/proc/self/ns/pid');
    $user = @fileowner('/proc/self');
    return $boot === false || $namespace === false || $user === false
      ? null
      : substr(hash('sha256', "{$boot} {$namespace} {$user}"), 0, 12);
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
