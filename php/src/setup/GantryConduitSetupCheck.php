<?php

/**
 * Looks at `worker.execute`, on hosts where it was meant to be used: there are
 * keys, or classes that it may run. Gantry on the same host does without.
 */
final class GantryConduitSetupCheck extends GantrySetupCheck {

  protected function executeChecks() {
    // What was edited into the file is not validated yet.
    $classes = (array)PhabricatorEnv::getEnvConfig('gantry.task-classes');
    if (!$classes && !GantryKeyring::isConfigured()) {
      return;
    }

    $this->checkKeys();
    $this->checkClasses($classes);
    $this->checkTransport();
  }

  private function checkKeys() {
    try {
      GantryKeyring::newFromConfig();
    } catch (GantrySetupException $ex) {
      $this->newGantryIssue(
        'keys',
        pht('Gantry Has No Usable Keys'),
        pht(
          'Every call of "worker.execute" is refused. %s',
          $ex->getMessage()),
        $ex->getCommands())
        ->addPhabricatorConfig('gantry.key-file')
        ->addRelatedPhabricatorConfig('gantry.keys');
    }
  }

  private function checkClasses(array $classes) {
    if (!$classes) {
      $this->newGantryIssue(
        'task-classes',
        pht('Gantry May Run No Task Class'),
        pht(
          'There are keys for "worker.execute", but "gantry.task-classes" is '.
          'empty, so it runs no task. List the classes that it may run.'),
        array(
          $this->newListCommand(
            'gantry.task-classes',
            array('PhabricatorSearchWorker', 'FeedPublisherWorker')),
        ))
        ->addPhabricatorConfig('gantry.task-classes');
      return;
    }

    $unknown = array();
    foreach ($classes as $class) {
      if (!$this->isWorker($class)) {
        $unknown[] = $class;
      }
    }

    if ($unknown) {
      $this->newGantryIssue(
        'unknown-classes',
        pht('Gantry May Run Classes That Are No Workers'),
        pht(
          'These names in "gantry.task-classes" are no task classes of this '.
          'Phorge, with the spelling they have there: %s. Correct them, or '.
          'take them out.',
          implode(', ', $unknown)),
        array(
          $this->newListCommand(
            'gantry.task-classes',
            array_diff($classes, $unknown)),
        ))
        ->addPhabricatorConfig('gantry.task-classes');
    }
  }

  private function isWorker($class) {
    $symbols = id(new PhutilSymbolLoader())
      ->setType('class')
      ->setName($class)
      ->selectSymbolsWithoutLoading();

    try {
      return $symbols && is_subclass_of($class, PhabricatorWorker::class);
    } catch (Throwable $ex) {
      // It does not load: what it extends may be missing.
      return false;
    }
  }

  private function checkTransport() {
    $local = array('127.0.0.1/32', '::1/128');
    $allowed = (array)PhabricatorEnv::getEnvConfig('gantry.allowed-addresses');
    if ($allowed && !array_diff($allowed, $local)) {
      return;
    }

    $uri = PhabricatorEnv::getEnvConfig('phabricator.base-uri');
    if (id(new PhutilURI((string)$uri))->getProtocol() === 'https') {
      return;
    }

    $this->newGantryIssue(
      'tls',
      pht('Gantry Can Not Be Called From Other Hosts'),
      pht(
        'The "phabricator.base-uri" of this server, "%s", is not an "https" '.
        'address. "worker.execute" accepts calls without TLS from its own '.
        'host only. Serve this Phorge over TLS. If Gantry runs on this host, '.
        'allow no other address.',
        $uri),
      array(
        './bin/config set phabricator.base-uri https://phorge.example.com/',
        $this->newListCommand('gantry.allowed-addresses', $local),
      ))
      ->addPhabricatorConfig('phabricator.base-uri')
      ->addRelatedPhabricatorConfig('gantry.allowed-addresses');
  }

  private function newListCommand($key, array $list) {
    return (string)csprintf(
      './bin/config set %R %s',
      $key,
      json_encode(array_values($list), JSON_UNESCAPED_SLASHES));
  }

}
