<?php

pcntl_async_signals(true);

// From Debian's package "arcanist".
require_once '/usr/share/arcanist/support/init/init-script.php';

$root = dirname(dirname(__DIR__));
phutil_load_library($root.'/src');
phutil_load_library(dirname(dirname($root)).'/src');
phutil_load_library(dirname($root).'/library/src');

PhabricatorEnv::initializeScriptEnvironment();
