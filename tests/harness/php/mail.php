<?php

/**
 * Queues a mail to an address.
 *
 *   mail.php <root of phorge> <address>
 */

list(, $root, $address) = $argv;
require_once $root.'/scripts/__init_script__.php';

id(new PhabricatorMetaMTAMail())
  ->addRawTos(array($address))
  ->setSubject('The fox')
  ->setBody('It jumps.')
  ->setForceDelivery(true)
  ->save();
