<?php

/**
 * Prints, as JSON, whether a lock can be taken, and what options are set to.
 *
 *   reach.php <root of phorge> <name of the lock> <option> ...
 */

list(, $root, $name) = $argv;
require_once $root.'/scripts/__init_script__.php';

$lock = PhabricatorGlobalLock::newLock($name);
try {
  $lock->lock();
  $free = true;
  $lock->unlock();
} catch (PhutilLockException $ex) {
  $free = false;
}

$options = array();
foreach (array_slice($argv, 3) as $option) {
  $options[$option] = PhabricatorEnv::getEnvConfig($option);
}

echo phutil_json_encode(
  array(
    'lock' => $lock->getName(),
    'free' => $free,
    'options' => (object)$options,
  ));
