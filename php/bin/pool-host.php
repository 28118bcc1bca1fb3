<?php

// Runs tasks of Phorge's queue for the process that started it, which speaks to
// it on descriptors 3 and 4. See GantryPoolHost.
//
// Exits with 2 when a person must mend something, after saying what; with 1
// when the databases can not be reached.

$refuse = function($message, $code = 2) {
  fprintf(STDERR, "%s\n", $message);
  exit($code);
};

$options = getopt('', array('phorge:'));
$phorge = isset($options['phorge']) ? rtrim($options['phorge'], '/') : '';
if (!is_file($phorge.'/scripts/init/init-script-with-signals.php')) {
  $refuse(
    "There is no Phorge in \"{$phorge}\". Name its directory: ".
    'gantry run --phorge DIR');
}

try {
  require_once $phorge.'/scripts/init/init-script-with-signals.php';

  $libraries = PhutilBootloader::getInstance()->getAllLibraries();
  if (!in_array('gantry', $libraries)) {
    phutil_load_library(dirname(__DIR__).'/src');
  }
} catch (Throwable $ex) {
  $is_database = class_exists('AphrontQueryException', false)
    && ($ex instanceof AphrontQueryException
      || $ex instanceof PhabricatorClusterStrandedException);
  $refuse(
    'Phorge does not start: '.preg_replace('/\s+/', ' ', $ex->getMessage()),
    $is_database ? 1 : 2);
}

// They are logged, which shows them once.
ini_set('display_errors', '0');

$user = PhabricatorEnv::getEnvConfig('phd.user');
$passwd = posix_getpwuid(posix_geteuid());
if (phutil_nonempty_string($user) && $user !== idx($passwd, 'name')) {
  $refuse(
    pht(
      'Phorge wants its tasks run by the user "%s" (option "%s"), and this is '.
      '"%s". Start it as that user: sudo -u %s gantry run ...',
      $user,
      'phd.user',
      idx($passwd, 'name', posix_geteuid()),
      $user));
}

$channel = GantryPoolChannel::newFromDescriptors(3, 4);
if (!$channel) {
  $refuse(
    pht(
      'This program has nobody to run tasks for. It is started by: %s',
      "gantry run --phorge {$phorge}"));
}

id(new GantryPoolHost($channel))->run();
