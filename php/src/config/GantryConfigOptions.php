<?php

final class GantryConfigOptions extends PhabricatorApplicationConfigOptions {

  public function getName() {
    return pht('Gantry');
  }

  public function getDescription() {
    return pht('Configure how Gantry runs tasks in PHP.');
  }

  public function getIcon() {
    return 'fa-cogs';
  }

  public function getGroup() {
    return 'core';
  }

  public function getApplicationClassName() {
    return PhabricatorDaemonsApplication::class;
  }

  public function getOptions() {
    return array_merge(
      $this->newConduitOptions(),
      $this->newExecutionOptions());
  }

  private function newConduitOptions() {
    return array(
      $this->newOption('gantry.key-file', 'string', null)
        ->setLocked(true)
        ->setSummary(pht('File with the keys that sign calls.'))
        ->setDescription(
          pht(
            'Absolute path of a file with the keys under which Gantry signs '.
            'its calls of `worker.execute`. It holds a JSON object which maps '.
            'the ID of a key to its secret of at least %d characters. There '.
            'can be two keys, so that a new one can be put in place before '.
            'the old one is taken away. The web server must be able to read '.
            'the file, and strangers must not: mode 0600 or 0640. '.
            '`gantry keys new` writes such a file.',
            GantryKeyring::MINIMUM_SECRET_BYTES)),
      $this->newOption('gantry.keys', 'wild', null)
        ->setHidden(true)
        ->setSummary(pht('Keys that sign calls, without a file.'))
        ->setDescription(
          pht(
            'The JSON object that `gantry.key-file` would hold, for a host '.
            'where no such file can be. Prefer the file: `bin/config get` '.
            'prints this value, and `bin/config set` writes it to a file that '.
            'every user of the host may read. Use '.
            '`bin/config set --stdin gantry.keys`, so that it is not in the '.
            'list of processes.')),
      $this->newOption('gantry.task-classes', 'list<string>', array())
        ->setLocked(true)
        ->setSummary(pht('Task classes that may be run over Conduit.'))
        ->setDescription(
          pht(
            'A call of `worker.execute` runs tasks of these classes and of no '.
            'others. Names are compared exactly as they are spelled. When the '.
            'list is empty, nothing is run.'))
        ->addExample(
          '["PhabricatorSearchWorker", "FeedPublisherWorker"]',
          pht('Index objects and publish feed stories.')),
      $this->newOption('gantry.allowed-addresses', 'list<string>', array())
        ->setLocked(true)
        ->setSummary(pht('Addresses that may call `worker.execute`.'))
        ->setDescription(
          pht(
            'Blocks of addresses from which calls are accepted. A key is '.
            'needed all the same. When the list is empty, every address may '.
            'call.'))
        ->addExample('["10.0.3.0/24", "2001:db8::7/128"]', pht('Two blocks.')),
    );
  }

  private function newExecutionOptions() {
    return array(
      $this->newOption('gantry.unknown-class', 'enum', 'retry')
        ->setEnumOptions(
          array(
            'retry' => pht('Try again every five minutes, like a taskmaster'),
            'fail' => pht('Fail for good'),
          ))
        ->setSummary(pht('What becomes of a task whose class is unknown.'))
        ->setDescription(
          pht(
            'A taskmaster tries a task whose class does not exist again every '.
            'five minutes, for ever. Gantry does the same, or archives the '.
            'task as failed. Either way the failure is listed with the '.
            'category "unknown-class".')),
      $this->newOption('gantry.pool.max-tasks', 'int', 10000)
        ->setSummary(pht('Tasks after which a pool process is replaced.'))
        ->setDescription(
          pht(
            'A pool process is replaced when it has executed so many tasks. '.
            'The number differs by up to 10%% between processes, so that they '.
            'do not leave together.')),
      $this->newOption('gantry.pool.max-age', 'int', 3600)
        ->setSummary(pht('Age at which a pool process is replaced.'))
        ->setDescription(
          pht('A pool process is replaced when it is so many seconds old.')),
      $this->newOption('gantry.pool.memory-limit', 'int', 256)
        ->setSummary(pht('Memory at which a pool process is replaced.'))
        ->setDescription(
          pht(
            'A pool process that uses more than so many MiB after a task is '.
            'replaced. This never ends a task. 0 means no limit.')),
    );
  }

  protected function didValidateOption(
    PhabricatorConfigOption $option,
    $value) {

    $key = $option->getKey();
    switch ($key) {
      case 'gantry.allowed-addresses':
        // Throws when a block is no block.
        PhutilCIDRList::newList($value);
        break;
      case 'gantry.pool.max-tasks':
      case 'gantry.pool.max-age':
        $this->requireAtLeast($key, $value, 1);
        break;
      case 'gantry.pool.memory-limit':
        $this->requireAtLeast($key, $value, 0);
        break;
    }
  }

  private function requireAtLeast($key, $value, $minimum) {
    if ($value < $minimum) {
      throw new PhabricatorConfigValidationException(
        pht(
          'Option "%s" is %d, but must be at least %d.',
          $key,
          $value,
          $minimum));
    }
  }

}
