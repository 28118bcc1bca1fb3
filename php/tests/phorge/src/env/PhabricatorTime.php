<?php

final class PhabricatorTime extends Phobject {

  private static $stack = array();

  public static function pushTime($epoch, $timezone) {
    self::$stack[] = $epoch;
    return new PhabricatorTimeGuard(last_key(self::$stack));
  }

  public static function popTime($key) {
    array_pop(self::$stack);
  }

  public static function getNow() {
    return self::$stack ? last(self::$stack) : time();
  }

}
