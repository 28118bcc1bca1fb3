<?php

final class GantryPoolLifetimeTest extends GantryTestCase {

  const START = 1700000000;

  private function newLifetime(array $options = array()) {
    $env = PhabricatorEnv::beginScopedEnv();
    $defaults = array(
      'gantry.pool.max-tasks' => 1000,
      'gantry.pool.max-age' => 3600,
      'gantry.pool.memory-limit' => 0,
    );
    foreach ($options + $defaults as $key => $value) {
      $env->overrideEnvConfig($key, $value);
    }

    return $this->atAge(
      0,
      function() {
        return new GantryPoolLifetime();
      });
  }

  private function atAge($age, $callback) {
    $guard = PhabricatorTime::pushTime(self::START + $age, 'UTC');
    return $callback();
  }

  private function getEnd(GantryPoolLifetime $lifetime, $age = 1) {
    return $this->atAge(
      $age,
      function() use ($lifetime) {
        $lifetime->watchConfiguration();
        return $lifetime->getEnd();
      });
  }

  public function testThereIsNoReasonToLeaveAtFirst() {
    $this->assertSame('', $this->getEnd($this->newLifetime()));
  }

  public function testAProcessLeavesAfterItsTasksLessATenth() {
    $counts = array();
    for ($process = 0; $process < 200; $process++) {
      $lifetime = $this->newLifetime();
      for ($count = 0; $this->getEnd($lifetime) === ''; $count++) {
        $lifetime->countTask(false, false);
      }
      $this->assertSame('tasks', $this->getEnd($lifetime));
      $counts[] = $count;
    }

    $this->assertGreaterThanOrEqual(900, min($counts));
    $this->assertLessThanOrEqual(1000, max($counts));
    $this->assertGreaterThan(10, count(array_unique($counts)));
  }

  public function testAProcessLeavesAtItsAgeLessATenth() {
    $lifetime = $this->newLifetime();
    $this->assertSame('', $this->getEnd($lifetime, 3239));
    $this->assertSame('age', $this->getEnd($lifetime, 3600));
  }

  public function testNoLimitIsNoLimit() {
    $lifetime = $this->newLifetime(
      array(
        'gantry.pool.max-tasks' => 0,
        'gantry.pool.max-age' => 0,
      ));
    $lifetime->countTask(false, false);
    $this->assertSame('', $this->getEnd($lifetime, 1000000));
  }

  public function testB32APeakOfMemoryIsReasonEnough() {
    $lifetime = $this->newLifetime(array('gantry.pool.memory-limit' => 1024));
    $this->assertSame('', $this->getEnd($lifetime));

    $lifetime = $this->newLifetime(array('gantry.pool.memory-limit' => 1));
    $this->assertSame('memory', $this->getEnd($lifetime));
  }

  public function testWhatATaskLeftBehindIsAReason() {
    $lifetime = $this->newLifetime();
    $lifetime->countTask(true, true);
    $this->assertSame('throwable', $this->getEnd($lifetime));

    $lifetime = $this->newLifetime();
    $lifetime->countTask(false, true);
    $this->assertSame('remains', $this->getEnd($lifetime));
  }

  public function testAReasonStays() {
    $lifetime = $this->newLifetime();
    $lifetime->countTask(true, false);
    $this->assertSame('throwable', $this->getEnd($lifetime));
    $lifetime->countTask(false, false);
    $this->assertSame('throwable', $this->getEnd($lifetime, 10000));
  }

  public function testPhorgeThatTurnsReadOnlyIsAReason() {
    $lifetime = $this->newLifetime();
    PhabricatorEnv::setReadOnly(true, 'config');
    try {
      $this->assertSame('read-only', $this->getEnd($lifetime));
    } finally {
      PhabricatorEnv::setReadOnly(false, null);
    }
  }

  public function testTheConfigurationIsLookedAtEveryTenSeconds() {
    $lifetime = $this->newLifetime();
    $this->writeConfiguration(array('phd.taskmasters' => 17));
    $this->assertSame('', $this->getEnd($lifetime, 9));
    $this->assertSame('configuration', $this->getEnd($lifetime, 10));
  }

}
