<?php

/**
 * Executes a task and says what a taskmaster would have made of it. The row of
 * the task is neither saved nor archived here: who asked for the execution
 * settles it.
 *
 * The rules are those of @{class:PhabricatorWorkerActiveTask}.
 */
final class GantryTaskEngine extends Phobject {

  private $reasons;

  public function __construct() {
    $this->reasons = new GantryTaskReasons();
  }

  /**
   * The task as @{class:PhabricatorWorkerLeaseQuery} gives it to a taskmaster:
   * what comes from MySQL are strings, and data that is no JSON is null, as are
   * an empty string and "0".
   */
  public static function newTask(array $columns, $data) {
    foreach ($columns as $column => $value) {
      if ($value !== null) {
        $columns[$column] = (string)$value;
      }
    }

    return id(new PhabricatorWorkerActiveTask())
      ->loadFromArray($columns)
      ->setData($data ? json_decode($data, true) : null);
  }

  /**
   * The classes of every library that can be instantiated and are of an
   * ancestor. Those of DoorkeeperFeedWorker get a task for each feed story,
   * and handlers in Go know only Phorge's own.
   *
   * @return list<string>
   */
  public static function loadWorkers($ancestor) {
    $classes = id(new PhutilSymbolLoader())
      ->setAncestorClass($ancestor)
      ->setConcreteOnly(true)
      ->setContinueOnFailure(true)
      ->selectAndLoadSymbols();

    return array_values(ipull($classes, 'name'));
  }

  /**
   * @param PhabricatorWorkerActiveTask $task Leased task, with its data. Its
   *   failure count is raised when it fails, as `getWaitBeforeRetry()` expects.
   * @param callable|null $on_lease Called with the seconds of lease that the
   *   class requires, if it does, before the work starts. Must not throw.
   * @return GantryTaskOutcome
   */
  public function executeTask(
    PhabricatorWorkerActiveTask $task,
    $on_lease = null) {

    $worker = null;
    $start = null;

    try {
      $worker = $task->getWorkerInstance();
      $worker->setCurrentWorkerTask($task);

      $maximum = $worker->getMaximumRetryCount();
      if ($maximum !== null && $task->getFailureCount() > $maximum) {
        return GantryTaskOutcome::newFailed(
          GantryTaskOutcome::CATEGORY_RETRIES,
          pht(
            'Task %d failed more often than its class allows (%d).',
            $task->getID(),
            $maximum));
      }

      $lease = $worker->getRequiredLeaseTime();
      if ($lease !== null && $on_lease) {
        call_user_func($on_lease, GantryTaskOutcome::toSeconds($lease));
      }

      $start = microtime(true);
      $this->doWork($worker);
      $outcome = GantryTaskOutcome::newSucceeded();
    } catch (PhabricatorWorkerPermanentFailureException $ex) {
      $outcome = GantryTaskOutcome::newFailed(
        $worker
          ? GantryTaskOutcome::CATEGORY_PERMANENT
          : GantryTaskOutcome::CATEGORY_NOT_A_WORKER,
        $this->reasons->logThrowable($task, $ex));
    } catch (PhabricatorWorkerYieldException $ex) {
      $outcome = GantryTaskOutcome::newYielded($ex->getDuration());
    } catch (Throwable $ex) {
      $outcome = $worker
        ? $this->newOutcomeOfFailure($task, $worker, $ex)
        : $this->newOutcomeWithoutWorker($task, $ex);
    }

    if ($start !== null) {
      $outcome->setDuration(phutil_microseconds_since($start));
    }

    if ($outcome->getKind() === GantryTaskOutcome::KIND_SUCCEEDED) {
      $this->attachFollowUps($task, $worker, $outcome);
    }

    return $outcome;
  }

  /**
   * A process that the work has forked, and that comes back from it, would
   * answer a second time, and then take tasks from the same pipe and speak to
   * MySQL on the same connections. Any other end than this one would close them.
   */
  private function doWork(PhabricatorWorker $worker) {
    $pid = getmypid();
    try {
      $worker->executeTask();
    } finally {
      if (getmypid() !== $pid) {
        posix_kill(getmypid(), SIGKILL);
      }
    }
  }

  private function newOutcomeOfFailure(
    PhabricatorWorkerActiveTask $task,
    PhabricatorWorker $worker,
    $ex) {

    $category = ($ex instanceof Error)
      ? GantryTaskOutcome::CATEGORY_ERROR
      : GantryTaskOutcome::CATEGORY_EXCEPTION;
    $reason = $this->reasons->logThrowable($task, $ex);

    $task->setExecutionException($ex);
    $task->setFailureCount($task->getFailureCount() + 1);
    $task->setFailureTime(time());

    try {
      // What can not be added to a time is an error here, too.
      $wait = 0 + coalesce(
        $worker->getWaitBeforeRetry($task),
        PhabricatorWorkerLeaseQuery::getDefaultWaitBeforeRetry());
    } catch (Throwable $policy_ex) {
      // A taskmaster would write nothing and leave the task to its lease, so
      // that is how long it waits.
      $category = GantryTaskOutcome::CATEGORY_POLICY;
      $reason = $this->reasons->logThrowable($task, $policy_ex);
      $wait = PhabricatorWorkerLeaseQuery::getDefaultLeaseDuration();
    }

    return GantryTaskOutcome::newRetry($wait, $category, $reason)
      ->setUncaught(true);
  }

  private function newOutcomeWithoutWorker(
    PhabricatorWorkerActiveTask $task,
    $ex) {

    $reason = $this->reasons->logThrowable($task, $ex);
    $wait = PhabricatorWorkerLeaseQuery::getDefaultWaitBeforeRetry();

    // A class that exists and still gives no worker is abstract, or what it
    // extends is missing.
    $class = $task->getTaskClass();
    if (class_exists($class, false)) {
      $category = GantryTaskOutcome::CATEGORY_ERROR;
      return GantryTaskOutcome::newRetry($wait, $category, $reason);
    }

    $category = GantryTaskOutcome::CATEGORY_UNKNOWN_CLASS;
    $policy = PhabricatorEnv::getEnvConfigIfExists('gantry.unknown-class');
    if ($policy === 'fail') {
      return GantryTaskOutcome::newFailed($category, $reason);
    }
    return GantryTaskOutcome::newRetry($wait, $category, $reason);
  }

  private function attachFollowUps(
    PhabricatorWorkerActiveTask $task,
    PhabricatorWorker $worker,
    GantryTaskOutcome $outcome) {

    $follow_ups = GantryFollowUps::newFromWorker($worker, $task);
    $outcome->setFollowUps($follow_ups->getFollowUps());

    // It kills a taskmaster.
    $problem = $follow_ups->getProblem();
    if ($problem) {
      $lost = new Exception(
        pht(
          'The task has succeeded, but one of its follow-ups can not be '.
          'queued, and is lost with all behind it.'),
        0,
        $problem);
      $outcome->setUncaught(true);
      $outcome->setReason($this->reasons->logThrowable($task, $lost));
    }
  }

}
