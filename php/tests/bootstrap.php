<?php

// The real libphutil, a Phorge, this library and the workers of its tests. The
// Phorge is a stand-in: the few classes the library touches, which do what
// Phorge's do as far as the tests look. With GANTRY_TEST_PHORGE in the
// environment it is the real one in that directory, and what holds for the
// stand-ins must hold for that, too. Its "load-libraries" must name both
// libraries.

$phorge = getenv('GANTRY_TEST_PHORGE') ?: __DIR__.'/phorge';
define('GANTRY_TEST_PHORGE', $phorge);

// The directory of local.json. That of the stand-in is nowhere else.
if (getenv('GANTRY_TEST_PHORGE')) {
  putenv('GANTRY_TEST_CONF='.$phorge.'/conf/local');
} else {
  $conf = sys_get_temp_dir().'/gantry-php-'.bin2hex(random_bytes(8));
  mkdir($conf);
  putenv('GANTRY_TEST_CONF='.$conf);
  register_shutdown_function(
    function() use ($conf) {
      array_map('unlink', glob($conf.'/*'));
      rmdir($conf);
    });
}

require_once $phorge.'/scripts/init/init-script-with-signals.php';

// What workers cause goes the way it goes in Phorge. What this library causes,
// be it no more than deprecated, fails the test.
set_error_handler(
  function($number, $message, $file, $line) {
    $ours = dirname(__DIR__).'/src/';
    if (($number & E_DEPRECATED) && strncmp($file, $ours, strlen($ours)) === 0) {
      throw new ErrorException($message, 0, $number, $file, $line);
    }
    return PhutilErrorHandler::handleError($number, $message, $file, $line);
  });

require_once __DIR__.'/GantryTestCase.php';
require_once __DIR__.'/pool/GantryPoolProcess.php';
