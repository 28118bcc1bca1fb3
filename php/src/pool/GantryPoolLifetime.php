<?php

/**
 * Decides when a process of the pool has served long enough. A reason stays
 * once there is one.
 */
final class GantryPoolLifetime extends Phobject {

  // Seconds between two looks at the configuration, as in the overseer of phd.
  const WATCH_INTERVAL = 10;

  private $configuration;
  private $wasReadOnly;
  private $maximumTasks;
  private $maximumAge;
  private $maximumMemory;

  private $start;
  private $watched;
  private $tasks = 0;
  private $end = '';

  public function __construct() {
    $this->configuration = new GantryConfigurationWatch();
    $this->wasReadOnly = PhabricatorEnv::isReadOnly();

    // Processes that were started together do not leave together.
    $jitter = 1 - mt_rand() / mt_getrandmax() / 10;
    $this->maximumTasks = $jitter * self::getOption('max-tasks', 10000);
    $this->maximumAge = $jitter * self::getOption('max-age', 3600);
    $this->maximumMemory = 1048576 * self::getOption('memory-limit', 256);

    $this->start = PhabricatorTime::getNow();
    $this->watched = $this->start;
  }

  /**
   * @param bool $is_uncaught What came out of the task is more than a
   *   taskmaster survives.
   * @param bool $is_doubtful The task left something open.
   */
  public function countTask($is_uncaught, $is_doubtful) {
    $this->tasks++;
    if ($is_uncaught) {
      $this->end = 'throwable';
    } else if ($is_doubtful) {
      $this->end = 'remains';
    }
  }

  /**
   * Takes its time when a database is away, so no answer waits for it.
   */
  public function watchConfiguration() {
    $now = PhabricatorTime::getNow();
    if ($this->end === '' && $now - $this->watched >= self::WATCH_INTERVAL) {
      $this->watched = $now;
      if ($this->configuration->hasChanged()) {
        $this->end = 'configuration';
      }
    }
  }

  /**
   * @return string Why the process is to be replaced; empty: it is not.
   */
  public function getEnd() {
    if ($this->end === '') {
      $this->end = $this->findEnd(PhabricatorTime::getNow());
    }
    return $this->end;
  }

  private function findEnd($now) {
    if (PhabricatorEnv::isReadOnly() !== $this->wasReadOnly) {
      return 'read-only';
    }
    if ($this->maximumTasks && $this->tasks >= $this->maximumTasks) {
      return 'tasks';
    }
    if ($this->maximumAge && $now - $this->start >= $this->maximumAge) {
      return 'age';
    }

    // What a large task gave back to PHP is not always given back to the
    // system, so the peak counts.
    $memory = memory_get_peak_usage(true);
    if ($this->maximumMemory && $memory > $this->maximumMemory) {
      return 'memory';
    }

    return '';
  }

  private static function getOption($key, $default) {
    return PhabricatorEnv::getEnvConfigIfExists('gantry.pool.'.$key, $default);
  }

}
