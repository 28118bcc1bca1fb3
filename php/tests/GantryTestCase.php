<?php

abstract class GantryTestCase extends PHPUnit\Framework\TestCase {

  private $log;
  private $oldLog;

  /**
   * What is logged is looked at by the test, not by who runs it.
   */
  protected function setUp(): void {
    $this->log = tmpfile();
    $this->oldLog = ini_set(
      'error_log',
      stream_get_meta_data($this->log)['uri']);
  }

  protected function tearDown(): void {
    ini_set('error_log', $this->oldLog);
  }

  protected function getLog() {
    rewind($this->log);
    return stream_get_contents($this->log);
  }

  protected function newTask(array $data, array $columns = array()) {
    return GantryPoolHost::newTask(
      $columns + array(
        'id' => 4711,
        'taskClass' => 'GantryProbeWorker',
        'failureCount' => 0,
        'priority' => 3500,
      ),
      null)->setData($data);
  }

}
