<?php

/**
 * Makes what no command of Phorge makes: people with an API token each, a
 * webhook that is called for every edit, and a file. Prints them as JSON.
 *
 *   world.php <root of phorge> <uri of the webhook>
 */

list(, $root, $hook_uri) = $argv;
require_once $root.'/scripts/__init_script__.php';

$world = array();
foreach (array('alice', 'bob') as $name) {
  $user = id(new PhabricatorUser())
    ->setUsername($name)
    ->setRealName(ucfirst($name))
    ->setIsApproved(1);
  $email = id(new PhabricatorUserEmail())
    ->setAddress($name.'@example.com')
    ->setIsVerified(1);
  id(new PhabricatorUserEditor())
    ->setActor(PhabricatorUser::getOmnipotentUser())
    ->createNewUser($user, $email);

  $token = PhabricatorConduitToken::initializeNewToken(
    $user->getPHID(),
    PhabricatorConduitToken::TYPE_STANDARD);
  $token->save();

  $world[$name] = array(
    'phid' => $user->getPHID(),
    'token' => $token->getToken(),
  );
}

// The first one administrates, so that pages of the console can be read.
$alice = id(new PhabricatorUser())->loadOneWhere('userName = %s', 'alice');
$alice->setIsAdmin(1)->save();

$hook = HeraldWebhook::initializeNewWebhook($alice)
  ->setName('Receiver')
  ->setWebhookURI($hook_uri)
  ->setStatus(HeraldWebhook::HOOKSTATUS_FIREHOSE)
  ->save();
$world['webhook'] = array(
  'id' => (int)$hook->getID(),
  'phid' => $hook->getPHID(),
  'key' => $hook->getHmacKey(),
);

$file = PhabricatorFile::newFromFileData(
  str_repeat('The quick brown fox. ', 1000),
  array(
    'name' => 'fox.txt',
    'authorPHID' => $alice->getPHID(),
  ));
$world['file'] = $file->getPHID();

echo phutil_json_encode($world);
