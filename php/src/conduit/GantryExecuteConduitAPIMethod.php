<?php

final class GantryExecuteConduitAPIMethod extends GantryConduitAPIMethod {

  const MODE_RUN = 'run';
  const MODE_LOOKUP = 'lookup';

  public function getAPIMethodName() {
    return 'worker.execute';
  }

  public function getMethodDescription() {
    return pht(
      'Run tasks of the queue that the caller holds under a lease. The '.
      '`gantry` binary calls this method; every call carries a signature. Its '.
      'parameter `body` is a JSON object in a string: `mode` is "run" or '.
      '"lookup", `tasks` is a list of 1 to %d objects with `id`, `taskClass` '.
      'and `leaseOwner`.',
      GantryTaskBatch::MAXIMUM_TASKS);
  }

  protected function defineReturnType() {
    return 'map<string, wild>';
  }

  protected function executeSigned(
    array $body,
    GantryDatabase $database,
    GantryKeyring $keyring) {

    $mode = idx($body, 'mode');
    $tasks = $this->newTaskRequests(idx($body, 'tasks'));
    $batch = new GantryTaskBatch(
      $database,
      $this->getListOption('gantry.task-classes'));

    switch ($mode) {
      case self::MODE_RUN:
        $this->prepareToRun();
        $results = $batch->runTasks($tasks);
        $this->collectGarbage($database);
        break;
      case self::MODE_LOOKUP:
        $results = $batch->lookUpTasks($tasks);
        break;
      default:
        throw $this->newRequestRefusal(
          pht('The mode is neither "run" nor "lookup".'));
    }

    return array(
      'protocol' => self::PROTOCOL,
      'tasks' => $results,
    );
  }

  private function newTaskRequests($maps) {
    $maximum = GantryTaskBatch::MAXIMUM_TASKS;
    if (!is_array($maps) || !$maps || count($maps) > $maximum) {
      throw $this->newRequestRefusal(
        pht('The body does not hold 1 to %d tasks.', $maximum));
    }

    $tasks = array();
    foreach (array_values($maps) as $index => $map) {
      $task = GantryTaskRequest::newFromDictionary($map);
      if (!$task) {
        throw $this->newRequestRefusal(
          pht(
            'Task %d of the body is not an integer "id", a "taskClass" and a '.
            '"leaseOwner".',
            $index));
      }
      $tasks[] = $task;
    }
    return $tasks;
  }

  /**
   * Let a request last as long as tasks do, and keep no record of every query
   * for a page that is not shown.
   */
  private function prepareToRun() {
    set_time_limit(0);
    ignore_user_abort(true);
    PhutilServiceProfiler::getInstance()->enableDiscardMode();
    GantryQueryTimeouts::lift();
  }

  /**
   * One call in so many deletes what so many calls can have written.
   */
  private function collectGarbage(GantryDatabase $database) {
    $calls = 64;
    if (mt_rand(1, $calls) !== 1) {
      return;
    }

    $limit = 2 * $calls * GantryTaskBatch::MAXIMUM_TASKS;
    id(new GantryNonces($database))->collectGarbage($limit);
    id(new GantryReceipts($database))->collectGarbage($limit);
  }

}
