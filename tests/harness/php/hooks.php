<?php

/**
 * Makes webhooks that are called at <uri>/0, <uri>/1 and so on, and an object to
 * call them about. Prints them as JSON.
 *
 *   hooks.php <root of phorge> <uri> <count>
 */

list(, $root, $uri, $count) = $argv;
require_once $root.'/scripts/__init_script__.php';

$author = PhabricatorUser::getOmnipotentUser();
$hooks = array();
for ($ii = 0; $ii < $count; $ii++) {
  $hooks[] = HeraldWebhook::initializeNewWebhook($author)
    ->setName('Receiver '.$ii)
    ->setWebhookURI($uri.'/'.$ii)
    ->setEditPolicy(PhabricatorPolicies::POLICY_ADMIN)
    ->save()
    ->getPHID();
}

$task = ManiphestTask::initializeNewTask($author)
  ->setAuthorPHID(PhabricatorPHID::generateNewPHID('USER'))
  ->setTitle('Something to tell')
  ->save();

echo phutil_json_encode(
  array(
    'hooks' => $hooks,
    'object' => $task->getPHID(),
  ));
