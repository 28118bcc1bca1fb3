<?php

/**
 * Leaves a line for every execution, so that a test can count executions and
 * not only what was archived. Otherwise it does what its data says, in the
 * words of PhabricatorTestWorker.
 */
final class GantryLiveWorker extends PhabricatorWorker {

  public function getRequiredLeaseTime() {
    return $this->getTaskDataValue('getRequiredLeaseTime');
  }

  public function getMaximumRetryCount() {
    return $this->getTaskDataValue('getMaximumRetryCount');
  }

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    return $this->getTaskDataValue('getWaitBeforeRetry');
  }

  protected function doWork() {
    $root = dirname(phutil_get_library_root('phabricator'));
    file_put_contents(
      $root.'/executions',
      sprintf("%d %d\n", $this->getCurrentWorkerTaskID(), getmypid()),
      FILE_APPEND);

    usleep((int)(1000000 * $this->getTaskDataValue('duration', 0)));

    switch ($this->getTaskDataValue('doWork')) {
      case 'fail-temporary':
        throw new Exception(pht('Temporary failure, as asked.'));
      case 'fail-permanent':
        throw new PhabricatorWorkerPermanentFailureException(
          pht('Permanent failure, as asked.'));
      case 'yield':
        throw new PhabricatorWorkerYieldException(
          $this->getTaskDataValue('yield'));
    }
  }

}
