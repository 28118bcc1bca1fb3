<?php

/**
 * Prints what the setup checks of Gantry find: a JSON object of the keys of the
 * issues and the commands that mend them.
 *
 *   issues.php <root of phorge>
 */

list(, $root) = $argv;
require_once $root.'/scripts/__init_script__.php';

$issues = array();
foreach (PhabricatorSetupCheck::loadAllChecks() as $check) {
  if ($check instanceof GantrySetupCheck) {
    $check->runSetupChecks();
    foreach ($check->getIssues() as $key => $issue) {
      $issues[$key] = array();
      foreach ($issue->getCommands() as $command) {
        $issues[$key][] = html_entity_decode(
          strip_tags((string)$command),
          ENT_QUOTES);
      }
      // A page that can not be shown explains nothing.
      id(new PhabricatorSetupIssueView())
        ->setIssue($issue)
        ->render();
    }
  }
}

echo json_encode((object)$issues, JSON_UNESCAPED_SLASHES);
