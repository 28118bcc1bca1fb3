<?php

/**
 * Does what few real workers do, and what must end as it does under a stock
 * taskmaster all the same.
 */
final class GantryLiveOddWorker extends PhabricatorWorker {

  public function getMaximumRetryCount() {
    return $this->oddity('maximum', null);
  }

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    if ($this->oddity('waits', false)) {
      $ex = $task->getExecutionException();
      return 60 * $task->getFailureCount() + 600 * strlen($ex->getMessage());
    }

    return parent::getWaitBeforeRetry($task);
  }

  protected function doWork() {
    foreach ($this->oddity('queue', array()) as $follow_up) {
      $this->queueTask(
        'PhabricatorTestWorker',
        idx($follow_up, 'data', array()),
        idx($follow_up, 'options', array()));
    }

    switch ($this->oddity('do', null)) {
      case 'error':
        throw new Error(pht('An Error that is no Exception.'));
      case 'type-error':
        return strlen(array());
      case 'exception':
        throw new Exception('1234');
      case 'permanent':
        throw new PhabricatorWorkerPermanentFailureException(pht('No more.'));
      case 'yield':
        throw new PhabricatorWorkerYieldException(120);
      case 'deprecated':
        return $this->callDeprecated();
      case 'warning':
        return $this->undefinedVariable();
      case 'notice':
        trigger_error('A notice.', E_USER_NOTICE);
        return;
      case 'print':
        echo str_repeat("\0\0\0\2\0\0\0\0{}", 100000);
        file_put_contents('php://stdout', '{"type":"outcome"}');
        file_put_contents('php://stderr', "On stderr.\n");
        return;
      case 'data':
        throw new PhabricatorWorkerPermanentFailureException(
          'The data is '.json_encode($this->getTaskData()).'.');
      case 'lock':
        $lock = PhabricatorGlobalLock::newLock('gantry-odd');
        $lock->lock(1);
        throw new Error(pht('The lock is held.'));
      case 'stuck-lock':
        GantryLiveStuckLock::leave();
        return;
      case 'transaction':
        id(new PhabricatorUser())->openTransaction();
        throw new Exception(pht('The transaction is open.'));
    }
  }

  private function callDeprecated() {
    return strlen(null);
  }

  private function undefinedVariable() {
    return $undefined;
  }

  private function oddity($key, $default) {
    $data = $this->getTaskData();
    if (!is_array($data)) {
      return $key == 'do' ? 'data' : $default;
    }

    return idx($data, $key, $default);
  }

}
