<?php

/**
 * A check of Gantry says what is missing, and the command that mends it.
 */
abstract class GantrySetupCheck extends PhabricatorSetupCheck {

  final public function getDefaultGroup() {
    return self::GROUP_IMPORTANT;
  }

  /**
   * @param string $key Key of the issue.
   * @param string $name Name of the issue.
   * @param string $message What is wrong, and what comes of it.
   * @param list<string> $commands Commands that mend it. Those which begin with
   *   "./bin/" are run in the directory of Phorge.
   * @return PhabricatorSetupIssue
   */
  final protected function newGantryIssue(
    $key,
    $name,
    $message,
    array $commands) {

    $issue = $this->newIssue('gantry.'.$key)
      ->setName($name)
      ->setShortName(pht('Gantry'))
      ->setSummary($name)
      ->setMessage($message);

    foreach ($commands as $command) {
      $directory = strncmp($command, './bin/', 6)
        ? ''
        : PlatformSymbols::getPlatformServerPath().' ';
      $issue->addCommand(
        hsprintf(
          '<samp>%s$</samp><kbd>%s</kbd>',
          $directory,
          $command));
    }

    return $issue;
  }

}
