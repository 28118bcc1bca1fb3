<?php

/**
 * Logs a person in and prints the value of the session cookie.
 *
 *   session.php <root of phorge> <phid>
 */

list(, $root, $phid) = $argv;
require_once $root.'/scripts/__init_script__.php';

$_SERVER['REMOTE_ADDR'] = '127.0.0.1';
echo id(new PhabricatorAuthSessionEngine())->establishSession(
  PhabricatorAuthSession::TYPE_WEB,
  $phid,
  $partial = false);
