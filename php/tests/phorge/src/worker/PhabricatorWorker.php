<?php

abstract class PhabricatorWorker extends Phobject {

  const PRIORITY_DEFAULT = 2000;

  private static $runAllTasksInProcess = false;
  private static $scheduled = array();

  private $data;
  private $queue = array();
  private $task;

  abstract protected function doWork();

  final public function __construct($data) {
    $this->data = $data;
  }

  public function getRequiredLeaseTime() {
    return null;
  }

  public function getMaximumRetryCount() {
    return null;
  }

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    return null;
  }

  public function setCurrentWorkerTask(PhabricatorWorkerTask $task) {
    $this->task = $task;
    return $this;
  }

  public function getCurrentWorkerTask() {
    return $this->task;
  }

  public function getCurrentWorkerTaskID() {
    return $this->task->getID();
  }

  final protected function getTaskData() {
    return $this->data;
  }

  final protected function getTaskDataValue($key, $default = null) {
    if (!is_array($this->data)) {
      throw new PhabricatorWorkerPermanentFailureException('No dictionary.');
    }
    return idx($this->data, $key, $default);
  }

  final public function executeTask() {
    $this->doWork();
  }

  final protected function queueTask(
    $class,
    array $data,
    array $options = array()) {
    $this->queue[] = array($class, $data, $options);
    return $this;
  }

  final protected function getQueuedTasks() {
    return $this->queue;
  }

  final public function flushTaskQueue($defaults = array()) {
    foreach ($this->queue as $spec) {
      self::scheduleTask($spec[0], $spec[1], $spec[2] + $defaults);
    }
    $this->queue = array();
  }

  final public static function scheduleTask(
    $class,
    $data,
    $options = array()) {

    PhutilTypeSpec::checkMap(
      $options,
      array(
        'delayUntil' => 'optional int|null',
        'priority' => 'optional int|null',
      ));

    self::$scheduled[] = id(new PhabricatorWorkerActiveTask())
      ->setTaskClass($class)
      ->setData($data)
      ->setPriority(idx($options, 'priority') ?? self::PRIORITY_DEFAULT);
  }

  final public static function setRunAllTasksInProcess($all) {
    self::$runAllTasksInProcess = $all;
  }

  /**
   * In a Phorge, these are the rows of the queue.
   */
  public static function takeScheduledTasks() {
    $scheduled = self::$scheduled;
    self::$scheduled = array();
    return $scheduled;
  }

}
