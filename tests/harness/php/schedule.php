<?php

/**
 * Schedules tasks as Phorge's own code does and prints their ids, one a line.
 *
 *   schedule.php <root of phorge> <class> <count> <data> <options>
 */

list(, $root, $class, $count, $data, $options) = $argv;
require_once $root.'/scripts/__init_script__.php';

$data = phutil_json_decode($data);
$options = phutil_json_decode($options);
for ($ii = 0; $ii < $count; $ii++) {
  $task = PhabricatorWorker::scheduleTask($class, $data, $options);
  echo $task->getID()."\n";
}
