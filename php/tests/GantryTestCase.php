<?php

abstract class GantryTestCase extends PHPUnit\Framework\TestCase {

  private $log;
  private $oldLog;
  private $oldConfiguration = array();

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
    error_reporting(E_ALL);
    $this->restoreConfiguration();
  }

  protected function getLog() {
    rewind($this->log);
    return stream_get_contents($this->log);
  }

  protected function newTask(array $data, array $columns = array()) {
    return GantryTaskEngine::newTask(
      $columns + array(
        'id' => 4711,
        'taskClass' => 'GantryProbeWorker',
        'failureCount' => 0,
        'priority' => 3500,
      ),
      null)->setData($data);
  }


/* -(  conf/local/local.json  )---------------------------------------------- */


  protected function writeConfiguration(array $values) {
    $this->writeConfigurationText(
      phutil_json_encode($values + $this->readConfiguration()));
  }

  protected function writeConfigurationText($text) {
    if (!$this->oldConfiguration) {
      $this->oldConfiguration = array($this->readConfiguration());
    }
    file_put_contents($this->getConfigurationPath(), $text);
  }

  protected function restoreConfiguration() {
    if ($this->oldConfiguration) {
      file_put_contents(
        $this->getConfigurationPath(),
        phutil_json_encode(head($this->oldConfiguration)));
      $this->oldConfiguration = array();
    }
  }

  private function readConfiguration() {
    $path = $this->getConfigurationPath();
    return is_file($path)
      ? phutil_json_decode(file_get_contents($path))
      : array();
  }

  private function getConfigurationPath() {
    return getenv('GANTRY_TEST_CONF').'/local.json';
  }

}
