<?php

// Performs operations on the task queue of a Phorge, with Phorge's own classes.
// Reads one as a line of JSON from stdin, performs it, and answers with a line
// of JSON on stdout; see GantryQueueDriver.
//
//   php driver.php <root of phorge>

require_once $argv[1].'/scripts/__init_script__.php';

/**
 * Ends as the driver says.
 */
class GantryQueueWorker extends PhabricatorWorker {

  public static $end = array();

  public function getRequiredLeaseTime() {
    return idx(self::$end, 'required');
  }

  public function getMaximumRetryCount() {
    return idx(self::$end, 'retries');
  }

  public function getWaitBeforeRetry(PhabricatorWorkerTask $task) {
    if (idx(self::$end, 'noWait')) {
      throw new Exception(pht('Nobody knows how long to wait.'));
    }
    return idx(self::$end, 'wait');
  }

  protected function doWork() {
    foreach (idx(self::$end, 'followUps', array()) as $task) {
      $this->queueTask($task['class'], $task['data'], $task['options']);
    }
    switch (idx(self::$end, 'end')) {
      case 'yield':
        throw new PhabricatorWorkerYieldException(self::$end['wait']);
      case 'fail for now':
        throw new Exception(pht('It fails for now.'));
      case 'fail for good':
        throw new PhabricatorWorkerPermanentFailureException(
          pht('It fails for good.'));
    }
  }

}

final class GantryQueueOtherWorker extends GantryQueueWorker {}

/**
 * What taskmasters and `bin/worker` do, many of them in one process. A
 * taskmaster that leased a task keeps it in memory until it executes it.
 */
final class GantryQueueDriver extends Phobject {

  private $held = array();

  public function run() {
    while (($line = fgets(STDIN)) !== false) {
      $request = phutil_json_decode($line);
      $answer = array();
      try {
        $answer = $this->perform($request);
      } catch (Exception $ex) {
        $answer = array('threw' => get_class($ex).': '.$ex->getMessage());
      } catch (Throwable $ex) {
        $answer = array('broken' => (string)$ex);
      }
      $this->endProcess();
      fwrite(STDOUT, phutil_json_encode((object)$answer)."\n");
    }
  }

  private function perform(array $request) {
    GantryQueueWorker::$end = idx($request, 'outcome', array());
    switch ($request['do']) {
      case 'clear':
        $this->held = array();
        return array();
      case 'pass':
        return $this->pass($request['seconds']);
      case 'schedule':
        foreach ($request['tasks'] as $task) {
          PhabricatorWorker::scheduleTask(
            $task['class'],
            $task['data'],
            $task['options']);
        }
        return array();
      case 'lease':
        return $this->lease($request);
      case 'execute':
        return $this->execute($request);
      case 'taskmaster':
        return $this->runTaskmaster();
      case 'awaken':
        PhabricatorWorker::awakenTaskIDs($request['ids']);
        return array();
      case 'bin/worker':
        return $this->runWorkflow($request['argv']);
    }
    throw new Error(pht('There is no operation "%s".', $request['do']));
  }

  /**
   * Leases up to a number of tasks in all. A query may be limited to some ids
   * and to a smaller number.
   */
  private function lease(array $request) {
    $owners = array();
    $held = array();
    foreach ($request['queries'] as $spec) {
      $ids = idx($spec, 'ids');
      $rest = min($spec['limit'], $request['limit'] - count($held));
      if ($rest < 1 || $ids === array()) {
        continue;
      }
      $query = id(new PhabricatorWorkerLeaseQuery())
        ->setLimit($rest);
      if ($ids !== null) {
        $query->withIDs($ids);
      }
      foreach ($query->execute() as $task) {
        $owners[$task->getLeaseOwner()] = true;
        $held[$task->getID()] = $task;
      }
    }
    $this->held[$request['lease']] = $held;
    return array('owners' => array_keys($owners));
  }

  private function execute(array $request) {
    $task = $this->held[$request['lease']][$request['id']];
    unset($this->held[$request['lease']][$request['id']]);
    if (idx($request, 'revive')) {
      $task->setServerTime(time());
      $task->setLeaseExpires(
        time() + PhabricatorWorkerLeaseQuery::getDefaultLeaseDuration());
    }
    return $this->executeTask($task);
  }

  private function executeTask(PhabricatorWorkerActiveTask $task) {
    $ex = $task->executeTask()->getExecutionException();
    if ($ex) {
      return array('threw' => get_class($ex).': '.$ex->getMessage());
    }
    return array();
  }

  private function runTaskmaster() {
    $tasks = id(new PhabricatorWorkerLeaseQuery())
      ->setLimit(1)
      ->execute();
    $answer = array();
    foreach ($tasks as $task) {
      $answer += array('owners' => array($task->getLeaseOwner()));
      try {
        $answer += $this->executeTask($task);
      } catch (Exception $ex) {
        $answer += array('threw' => get_class($ex).': '.$ex->getMessage());
      }
    }
    return $answer;
  }

  private function runWorkflow(array $argv) {
    $map = id(new PhutilClassMapQuery())
      ->setAncestorClass(PhabricatorWorkerManagementWorkflow::class)
      ->setUniqueMethod('getName')
      ->execute();
    $workflow = clone $map[$argv[0]];
    $args = new PhutilArgumentParser($argv);
    $args->parsePartial($workflow->getArguments());
    $workflow->execute($args);
    return array();
  }

  /**
   * Let time pass for the tasks in memory. The rows are not ours to move.
   */
  private function pass($seconds) {
    $clocks = array('serverTime', 'localTime');
    foreach (array_mergev($this->held) as $task) {
      foreach ($clocks as $clock) {
        $property = new ReflectionProperty($task, $clock);
        $property->setAccessible(true);
        $property->setValue($task, $property->getValue($task) - $seconds);
      }
      foreach (array('leaseExpires', 'dateCreated', 'dateModified',
        'failureTime') as $column) {

        $value = $this->call($task, 'get', $column);
        if ($value) {
          $this->call($task, 'set', $column, $value - $seconds);
        }
      }
    }
    return array();
  }

  private function call($task, $verb, $column, $value = null) {
    $method = $verb.ucfirst($column);
    return $verb === 'get' ? $task->$method() : $task->$method($value);
  }

  /**
   * A taskmaster ends when a task fails for now, and `bin/worker` ends anyway.
   * What they left open in the database ends with them.
   */
  private function endProcess() {
    $conn = id(new PhabricatorWorkerActiveTask())->establishConnection('w');
    while ($conn->isInsideTransaction()) {
      $conn->killTransaction();
    }
  }

}

id(new GantryQueueDriver())->run();
