<?php

/**
 * Does what the handler of the fault rounds does, and records the beginning and
 * the end of every execution. The classes below differ in their route only; they
 * are in this file because extensions are loaded in any order.
 */
abstract class GantryFaultsWorker extends PhabricatorWorker {

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    return 1;
  }

  protected function doWork() {
    $run = hrtime(true);
    $this->record($run, array());

    $data = $this->getTaskData();
    usleep((int)(1000 * $data['ms']));

    $failures = $this->getCurrentWorkerTask()->getFailureCount();
    switch ($data['do']) {
      case 'retry':
        if ($failures < 2) {
          $this->record($run, array('kind' => 'retry'));
          throw new Exception(pht('Not yet.'));
        }
        break;
      case 'yield':
        if (time() < $data['until']) {
          $this->record($run, array('kind' => 'yielded'));
          throw new PhabricatorWorkerYieldException(5);
        }
        break;
      case 'fail':
        $this->record($run, array('kind' => 'failed'));
        throw new PhabricatorWorkerPermanentFailureException(pht('Never.'));
      case 'follow':
        foreach (array(1, 2) as $child) {
          $this->queueTask(
            get_class($this),
            array(
              'n' => $data['n'],
              'child' => $child,
              'do' => 'succeed',
              'ms' => $data['ms'],
            ));
        }
        break;
    }

    $this->record($run, array('kind' => 'succeeded'));
  }

  // One write, so that lines of several processes never mix and those of a
  // killed process are there. The clock is the monotonic one of the machine.
  private function record($run, array $more) {
    $line = array(
      'id' => (int)$this->getCurrentWorkerTaskID(),
      'pid' => getmypid(),
      'run' => $run,
      'at' => hrtime(true),
    ) + $more;
    $root = dirname(phutil_get_library_root('phabricator'));
    file_put_contents(
      $root.'/faults',
      phutil_json_encode($line)."\n",
      FILE_APPEND);
  }

}

final class GantryFaultsPoolWorker extends GantryFaultsWorker {}

final class GantryFaultsConduitWorker extends GantryFaultsWorker {}
