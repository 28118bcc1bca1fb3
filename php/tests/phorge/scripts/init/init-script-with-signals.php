<?php

pcntl_async_signals(true);

$arcanist = getenv('ARCANIST_ROOT') ?: '/usr/share/arcanist';
require_once $arcanist.'/support/init/init-script.php';

$root = dirname(dirname(__DIR__));
phutil_load_library($root.'/src');
phutil_load_library(dirname(dirname($root)).'/src');
phutil_load_library(dirname($root).'/library/src');

PhabricatorEnv::initializeScriptEnvironment();
