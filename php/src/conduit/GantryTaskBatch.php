<?php

/**
 * Runs the tasks of one call, one after another. Each stands for itself: what
 * becomes of one does not change what becomes of the others.
 */
final class GantryTaskBatch extends Phobject {

  const MAXIMUM_TASKS = 64;

  const REFUSED_CLASS = 'class-not-allowed';
  const REFUSED_LEASE = 'not-leased';
  const REFUSED_WORKER = 'not-a-worker';

  private $database;
  private $receipts;
  private $engine;
  private $allowedClasses;

  /**
   * @param list<string> $allowed_classes Classes that may be run.
   */
  public function __construct(
    GantryDatabase $database,
    array $allowed_classes) {

    $this->database = $database;
    $this->receipts = new GantryReceipts($database);
    $this->engine = new GantryTaskEngine();
    $this->allowedClasses = $allowed_classes;
  }

  /**
   * @param list<GantryTaskRequest> $tasks Tasks to look up.
   * @return list<array> What is known of each, in the same order.
   */
  public function lookUpTasks(array $tasks) {
    $results = array();
    foreach ($tasks as $task) {
      $results[] = $this->newResultFromReceipt($task);
    }
    return $results;
  }

  /**
   * @param list<GantryTaskRequest> $tasks Tasks to run.
   * @return list<array> What became of each, in the same order.
   */
  public function runTasks(array $tasks) {
    $results = array();
    $finished = null;

    foreach ($tasks as $task) {
      $refusal = $this->refuseClass($task);
      if ($refusal) {
        $results[] = $this->newRefusal($task, $refusal);
        continue;
      }

      $columns = $this->loadColumns($task);
      if (!$columns) {
        $results[] = $this->newRefusal($task, self::REFUSED_LEASE);
        continue;
      }

      $claim = $this->receipts->advance($finished, $task);
      $finished = null;

      switch ($claim) {
        case GantryReceipts::CLAIM_MADE:
          $outcome = $this->executeTask($columns);
          $finished = array($task, phutil_json_encode($outcome));
          $results[] = $this->newResult(
            $task,
            GantryReceipts::STATE_DONE,
            $outcome);
          break;
        case GantryReceipts::CLAIM_EXISTS:
          $results[] = $this->newResultFromReceipt($task);
          break;
        case GantryReceipts::CLAIM_REFUSED:
          $results[] = $this->newRefusal($task, self::REFUSED_LEASE);
          break;
      }
    }

    if ($finished) {
      $this->receipts->advance($finished);
    }

    return $results;
  }

  /**
   * The spelling is compared before the class is looked for: PHP would find it
   * under other spellings, too, and loading a class can run code.
   */
  private function refuseClass(GantryTaskRequest $task) {
    $class = $task->getTaskClass();

    if (!in_array($class, $this->allowedClasses, $strict = true)) {
      return self::REFUSED_CLASS;
    }

    try {
      $is_worker = is_subclass_of($class, PhabricatorWorker::class);
    } catch (Throwable $ex) {
      // The class does not exist, or can not be loaded. The engine says what
      // that means for a task.
      return null;
    }

    return $is_worker ? null : self::REFUSED_WORKER;
  }

  /**
   * What is run is what the row says, never what the caller says.
   */
  private function loadColumns(GantryTaskRequest $task) {
    if (!$task->isHeldBySomebody()) {
      return null;
    }

    $row = queryfx_one(
      $this->database->getConnection(),
      'SELECT task.*, taskdata.data _taskData, UNIX_TIMESTAMP() _serverTime
        FROM %R task LEFT JOIN %R taskdata ON taskdata.id = task.dataID
        WHERE task.id = %d AND task.leaseOwner = %s',
      new PhabricatorWorkerActiveTask(),
      new PhabricatorWorkerTaskData(),
      $task->getID(),
      $task->getLeaseOwner());

    // MySQL compares without regard to spaces at the end.
    $is_same = $row
            && $row['taskClass'] === $task->getTaskClass()
            && $row['leaseOwner'] === $task->getLeaseOwner();

    return $is_same ? $row : null;
  }

  private function executeTask(array $columns) {
    $output_level = ob_get_level();

    PhabricatorCaches::destroyRequestCache();
    $task = GantryPoolHost::newTask($columns, $columns['_taskData'])
      ->setServerTime($columns['_serverTime']);
    $outcome = $this->engine->executeTask($task);
    GantryTaskRemains::clear($output_level);

    return $outcome->toDictionary();
  }


/* -(  Results  )------------------------------------------------------------ */


  private function newResultFromReceipt(GantryTaskRequest $task) {
    list($state, $outcome) = $this->receipts->loadState($task);
    return $this->newResult($task, $state, $outcome);
  }

  /**
   * A task that would be refused now may have been run before, under the same
   * lease. Then that is the answer, or it would be run again elsewhere.
   */
  private function newRefusal(GantryTaskRequest $task, $code) {
    list($state, $outcome) = $this->receipts->loadState($task);
    if ($state !== GantryReceipts::STATE_ABSENT) {
      return $this->newResult($task, $state, $outcome);
    }

    $reasons = array(
      self::REFUSED_CLASS => pht(
        'The class is not in "gantry.task-classes".'),
      self::REFUSED_LEASE => pht(
        'There is no such task of this class under a live lease of this '.
        'owner.'),
      self::REFUSED_WORKER => pht('The class is not a PhabricatorWorker.'),
    );

    return $this->newResult($task, 'refused', null, $code, $reasons[$code]);
  }

  private function newResult(
    GantryTaskRequest $task,
    $state,
    $outcome,
    $code = '',
    $reason = '') {

    return array(
      'id' => $task->getID(),
      'leaseOwner' => $task->getLeaseOwner(),
      'state' => $state,
      'outcome' => $outcome,
      'code' => $code,
      'reason' => $reason,
    );
  }

}
