<?php

/**
 * Outside of the command line, Phorge gives up on a query after 30 seconds.
 * That is for pages; a task may ask for more. There is no option, and a limit
 * comes with every new connection, so it is lifted when a query begins.
 */
final class GantryQueryTimeouts extends Phobject {

  public static function lift() {
    PhutilServiceProfiler::getInstance()->addListener(
      function($event, $id, array $data) {
        if ($event === 'begin' && idx($data, 'type') === 'query') {
          self::liftFromConnections();
        }
      });
  }

  /**
   * Nothing public tells which connections there are.
   */
  private static function liftFromConnections() {
    $lift = function() {
      foreach (self::$connections as $connection) {
        $connection->setQueryTimeout(0);
      }
    };
    call_user_func(Closure::bind($lift, null, LiskDAO::class));
  }

}
