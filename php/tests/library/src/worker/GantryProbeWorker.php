<?php

/**
 * Does what its data says. In a test that has no process between itself and
 * the worker, `run` is a function to call with the worker.
 */
final class GantryProbeWorker extends PhabricatorWorker {

  private static $age;
  private static $connection;

  public function getRequiredLeaseTime() {
    return $this->getPolicy('getRequiredLeaseTime');
  }

  public function getMaximumRetryCount() {
    return $this->getPolicy('getMaximumRetryCount');
  }

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    $wait = $this->getPolicy('getWaitBeforeRetry');
    return ($wait instanceof Closure) ? $wait($task) : $wait;
  }

  private function getPolicy($key) {
    return is_array($this->getTaskData())
      ? idx($this->getTaskData(), $key)
      : null;
  }

  protected function doWork() {
    foreach ($this->getTaskDataValue('queue', array()) as $spec) {
      list($class, $data, $options) = $spec;
      $this->queueTask($class, $data, $options);
    }

    if ($this->getTaskDataValue('flush')) {
      $this->flushTaskQueue();
    }

    $run = $this->getTaskDataValue('run');
    if ($run) {
      return $run($this);
    }

    $act = $this->getTaskDataValue('act');
    if ($act) {
      call_user_func(array($this, $act), $this->getTaskDataValue('with'));
    }
  }

  protected function fail($message) {
    throw new Exception($message);
  }

  protected function yieldFor($seconds) {
    throw new PhabricatorWorkerYieldException($seconds);
  }

  protected function useDeprecated() {
    return strlen(null);
  }

  protected function useUndefined() {
    $map = array();
    return $map['missing'];
  }

  protected function trigger($number) {
    trigger_error('Broken.', $number);
  }

  protected function say($hex) {
    echo hex2bin($hex);
  }

  protected function sayMuch($bytes) {
    echo str_repeat('x', $bytes);
  }

  protected function writeToStandardOutput($text) {
    file_put_contents('php://stdout', $text);
  }

  protected function leaveInBuffer($text) {
    ob_start();
    echo $text;
  }

  protected function end($code) {
    exit($code);
  }

  protected function hold($bytes) {
    $held = str_repeat('x', $bytes);
    if (strlen($held) !== $bytes) {
      throw new Exception('Not held.');
    }
  }

  protected function exceed($limit) {
    ini_set('memory_limit', $limit);
    str_repeat('x', phutil_parse_bytes($limit));
  }

  protected function lockAndBreak() {
    $this->lock();
    throw new Error('Broken.');
  }

  protected function lock() {
    $lock = PhutilFileLock::newForPath(getenv('GANTRY_TEST_CONF').'/lock');
    $lock->lock();
  }

  protected function leaveStuckLock() {
    GantryStuckLock::leave();
  }

  /**
   * Come back from the work twice, and tell what became of the second process.
   */
  protected function fork($throws) {
    $child = pcntl_fork();
    if (!$child) {
      if ($throws) {
        throw new Exception('Broken.');
      }
      return;
    }

    $status = null;
    $deadline = microtime(true) + 10;
    while (!pcntl_waitpid($child, $status, WNOHANG)) {
      if (microtime(true) > $deadline) {
        posix_kill($child, SIGKILL);
        throw new Exception('The second process goes on.');
      }
      usleep(1000);
    }
    echo 'child: '.(pcntl_wifsignaled($status) ? pcntl_wtermsig($status) : '-');
  }

  protected function leaveTransaction() {
    $this->getCurrentWorkerTask()->openTransaction();
  }

  /**
   * Use a connection as of some seconds ago.
   */
  protected function connect($age) {
    LiskDAO::closeAllConnections();
    $connection = $this->getCurrentWorkerTask()
      ->establishConnection('w')
      ->setLastActiveEpoch(PhabricatorTime::getNow() - $age);

    self::$age = $age;
    self::$connection = WeakReference::create($connection);
  }

  protected function tellConnection() {
    $state = self::$connection->get() ? 'open' : 'closed';
    echo 'connection '.self::$age." is {$state}\n";
  }

  protected function tellConnectionID($is_transaction) {
    $task = $this->getCurrentWorkerTask();
    if ($is_transaction) {
      $task->openTransaction();
    }
    $row = queryfx_one(
      $task->establishConnection('w'),
      'SELECT CONNECTION_ID() id');
    if ($is_transaction) {
      $task->saveTransaction();
    }
    echo "connection {$row['id']}\n";
  }

  protected function lockGlobally() {
    PhabricatorGlobalLock::newLock('gantry-test')->lock()->unlock();
    $this->tellConnectionID(false);
  }

  protected function becomeReadOnly() {
    PhabricatorEnv::setReadOnly(true, 'config');
  }

  protected function listChildDescriptors() {
    list($stdout) = execx('ls -l /proc/self/fd');
    echo $stdout;
  }

  protected function interruptItself($signal) {
    posix_kill(getmypid(), $signal);
  }

}
