<?php

/**
 * Makes Maniphest tasks without an editor, so that nothing follows from them,
 * and prints their PHIDs, one a line.
 *
 *   objects.php <root of phorge> <count>
 */

list(, $root, $count) = $argv;
require_once $root.'/scripts/__init_script__.php';

$author = PhabricatorUser::getOmnipotentUser();
for ($ii = 0; $ii < $count; $ii++) {
  $task = ManiphestTask::initializeNewTask($author)
    ->setAuthorPHID(PhabricatorPHID::generateNewPHID('USER'))
    ->setTitle('The quick brown fox '.$ii)
    ->setDescription(str_repeat('It jumps over the lazy dog. ', 20))
    ->save();
  echo $task->getPHID()."\n";
}
