<?php

/**
 * Runs the tasks of one call, one after another. Each stands for itself: what
 * becomes of one does not change what becomes of the others.
 */
final class GantryTaskBatch extends Phobject {

  const MAXIMUM_TASKS = 64;

  const STATE_REFUSED = 'refused';

  const REFUSED_CLASS = 'class-not-allowed';
  const REFUSED_LEASE = 'not-leased';
  const REFUSED_RUNNING = 'still-running';
  const REFUSED_WORKER = GantryTaskOutcome::CATEGORY_NOT_A_WORKER;

  private $database;
  private $receipts;
  private $engine;
  private $allowedClasses;
  private $isOver = false;

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
   * @param list<GantryTaskRequest> $tasks Tasks to look up. Those that have not
   *   begun can not begin any more.
   * @return list<array> What is known of each, in the same order.
   */
  public function lookUpTasks(array $tasks) {
    $results = array();
    foreach ($tasks as $task) {
      list($state, $outcome) = $this->receipts->closeState($task);
      $results[] = $this->newResult($task, $state, $outcome);
    }
    return $results;
  }

  /**
   * @param list<GantryTaskRequest> $tasks Tasks to run.
   * @return list<array> What became of each, in the same order.
   */
  public function runTasks(array $tasks) {
    $results = array();
    $refusals = array();
    $finished = null;

    foreach ($tasks as $key => $task) {
      if ($this->isOver) {
        break;
      }

      if (!$this->isAllowed($task)) {
        $refusals[$key] = self::REFUSED_CLASS;
        continue;
      }

      if (!$task->isHeldBySomebody()) {
        $refusals[$key] = self::REFUSED_LEASE;
        continue;
      }

      list($claim, $row) = $this->receipts->advance($finished, $task);
      $finished = null;

      if ($claim === GantryReceipts::CLAIM_MADE) {
        if ($results) {
          // What the task before has cached. This looks for garbage, too,
          // which takes as long as a small task.
          PhabricatorCaches::destroyRequestCache();
        }
        $outcome = $this->executeTask($row);
        $finished = array($task, phutil_json_encode($outcome));
        $results[$key] = $this->newResult(
          $task,
          GantryReceipts::STATE_DONE,
          $outcome);
      } else if ($claim === GantryReceipts::CLAIM_REFUSED) {
        $refusals[$key] = self::REFUSED_LEASE;
      } else if ($claim === GantryReceipts::CLAIM_RUNNING) {
        $refusals[$key] = self::REFUSED_RUNNING;
      }
    }

    if ($finished) {
      $this->receipts->advance($finished);
    }

    // Nothing above may come between an execution and its receipt.
    foreach (array_diff_key($tasks, $results) as $key => $task) {
      $results[$key] = $this->newResultOfRefusal(
        $task,
        idx($refusals, $key));
    }

    ksort($results);
    return $results;
  }

  /**
   * Names are compared by their spelling before PHP looks for the class: it
   * would find it under other spellings, too, and loading a class runs code.
   */
  private function isAllowed(GantryTaskRequest $task) {
    return in_array(
      $task->getTaskClass(),
      $this->allowedClasses,
      $strict = true);
  }

  private function executeTask(array $row) {
    $output_level = ob_get_level();

    $task = GantryTaskEngine::newTask($row, $row['_taskData'])
      ->setServerTime($row['_serverTime']);
    $outcome = $this->engine->executeTask($task);
    try {
      GantryTaskRemains::clear($output_level);
    } catch (Throwable $ex) {
      // What can not be cleared away goes with the request.
      phlog($ex);
      $this->isOver = true;
    }

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
   *
   * @param string|null $code Null when there is such a receipt.
   */
  private function newResultOfRefusal(GantryTaskRequest $task, $code) {
    $result = $this->newResultFromReceipt($task);
    if ($code === null || $result['state'] !== GantryReceipts::STATE_ABSENT) {
      return $result;
    }

    return $this->newResult($task, self::STATE_REFUSED, null, $code);
  }

  private function newResult(
    GantryTaskRequest $task,
    $state,
    $outcome,
    $code = '') {

    // The engine has looked at the class, and has run nothing.
    if (idx((array)$outcome, 'category') === self::REFUSED_WORKER) {
      $state = self::STATE_REFUSED;
      $outcome = null;
      $code = self::REFUSED_WORKER;
    }

    return array(
      'id' => $task->getID(),
      'leaseOwner' => $task->getLeaseOwner(),
      'state' => $state,
      'outcome' => $outcome,
      'code' => $code,
      'reason' => $this->getRefusalReason($code),
    );
  }

  private function getRefusalReason($code) {
    switch ($code) {
      case self::REFUSED_CLASS:
        return pht('The class is not in "gantry.task-classes".');
      case self::REFUSED_LEASE:
        return pht(
          'There is no such task of this class under a live lease of this '.
          'owner.');
      case self::REFUSED_RUNNING:
        return pht('It still runs under an earlier lease.');
      case self::REFUSED_WORKER:
        return pht('The class is not a PhabricatorWorker.');
      default:
        return '';
    }
  }

}
