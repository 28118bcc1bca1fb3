<?php

/**
 * Executes each task twice on a live Phorge: as a taskmaster does, and by the
 * engine. What the taskmaster left in the tables must be what the outcome says.
 *
 * There is nothing to compare with on stand-ins, so this is not a part of the
 * suite. It is run by its path.
 */
final class GantryStockComparison extends GantryTestCase {

  /**
   * @dataProvider provideTasks
   */
  public function testTheOutcomeIsWhatATaskmasterLeaves(
    $data,
    $failure_count = 0,
    $class = 'GantryProbeWorker') {

    // A taskmaster that is running has loaded its workers.
    class_exists('GantryProbeWorker');

    list($expected, $expected_follow_ups) = $this->runStock(
      $this->leaseTask($data, $failure_count, $class));

    $engine = new GantryTaskEngine();
    $outcome = $engine
      ->executeTask($this->leaseTask($data, $failure_count, $class))
      ->toDictionary();

    $this->assertSame($expected['kind'], $outcome['kind']);
    if ($outcome['kind'] !== 'succeeded') {
      // The lease and the time that is added to it are read apart.
      $this->assertEqualsWithDelta($expected['wait'], $outcome['wait'], 1);
    }
    $this->assertSame(
      $expected['failureCount'],
      $failure_count + ($outcome['kind'] === 'retry' &&
        $outcome['category'] !== 'policy' ? 1 : 0));
    $this->assertEquals($expected_follow_ups, $outcome['followUps']);
  }

  public static function provideTasks() {
    $queue = array(
      array('GantryQueued', array('a' => 'x/é', 'b' => array(), 'c' => 1.0), array()),
      array(
        'GantryQueued',
        array(),
        array(
          'priority' => null,
          'objectPHID' => 'PHID-TEST-1',
          'containerPHID' => 'PHID-TEST-2',
          'delayUntil' => 2000000000,
        ),
      ),
      array('GantryQueued', array(), array('priority' => 7, 'delayUntil' => 0)),
    );
    $float = array('GantryQueued', array(), array('delayUntil' => 1.5));
    $binary = array('GantryQueued', array(), array('priority' => '7'));
    $bad = array(
      'a priority below zero' => array('priority' => -5),
      'a priority beyond the column' => array('priority' => 4294967296),
      'an object that is too long' => array('objectPHID' => str_repeat('o', 65)),
      'a container that is too long' => array(
        'containerPHID' => str_repeat('o', 65),
      ),
      'a delay until before the epoch' => array('delayUntil' => -1),
      'a delay beyond the column' => array('delayUntil' => 4294967296),
    );
    foreach ($bad as $what => $options) {
      $bad[$what] = array(
        array(
          'queue' => array(
            $queue[0],
            array('GantryQueued', array(), $options),
            $queue[1],
          ),
        ),
      );
    }
    $class = array(str_repeat('A', 65), array(), array());
    $widest = array(
      'GantryQueued',
      array(),
      array(
        'priority' => 4294967295,
        'objectPHID' => str_repeat('o', 64),
        'delayUntil' => 4294967295,
      ),
    );
    $first = array('GantryQueued', array(), array('priority' => 0));
    $fail = array('act' => 'fail', 'with' => 'Broken.');

    return $bad + array(
      'a class that is too long' => array(
        array('queue' => array($queue[0], $class, $queue[1])),
      ),
      'follow-ups at the bounds' => array(
        array('queue' => array($widest, $first)),
      ),
      'success' => array(array()),
      'follow-ups' => array(array('queue' => $queue)),
      'a bad follow-up' => array(
        array('queue' => array($queue[0], $float, $queue[1])),
      ),
      'a priority that is a string' => array(
        array('queue' => array($queue[0], $binary)),
      ),
      'a failure with follow-ups' => array(array('queue' => $queue) + $fail),
      'a yield' => array(array('act' => 'yieldFor', 'with' => 60)),
      'a short yield' => array(array('act' => 'yieldFor', 'with' => -60)),
      'a yield of a fraction' => array(array('act' => 'yieldFor', 'with' => 90.9)),
      'a failure' => array($fail),
      'a fifth failure' => array($fail, 4),
      'a wait of its own' => array($fail + array('getWaitBeforeRetry' => 1000)),
      'a negative wait' => array($fail + array('getWaitBeforeRetry' => -1000)),
      'a wait that is a string' => array(
        $fail + array('getWaitBeforeRetry' => '1000'),
      ),
      'an error' => array(array('act' => 'lockAndBreak')),
      'an error in the policy' => array(
        $fail + array('getWaitBeforeRetry' => array('no', 'seconds')),
      ),
      'data that is no dictionary' => array(17),
      'no data' => array(null),
      'the last try' => array(array('getMaximumRetryCount' => 3), 3),
      'one try too many' => array(array('getMaximumRetryCount' => 3), 4),
      'B50: a deprecation' => array(array('act' => 'useDeprecated')),
      'B50: a warning' => array(array('act' => 'useUndefined')),
      'B50: an error of the user' => array(
        array('act' => 'trigger', 'with' => E_USER_ERROR),
      ),
      'B50: a deprecation of the user' => array(
        array('act' => 'trigger', 'with' => E_USER_DEPRECATED),
      ),
      'a class that does not load' => array(
        array(),
        0,
        'GantryBrokenProbeWorker',
      ),
      'an unknown class' => array(array(), 0, 'GantryNoSuchWorker'),
      'an abstract class' => array(array(), 0, 'GantryAbstractProbeWorker'),
      'no worker' => array(array(), 0, 'GantryTaskOutcome'),
      'another spelling' => array(array(), 0, 'gantryprobeworker'),
    );
  }

  private function leaseTask($data, $failure_count, $class) {
    $table = new PhabricatorWorkerActiveTask();
    $conn = $table->establishConnection('w');
    queryfx(
      $conn,
      'DELETE FROM %T WHERE taskClass IN (%Ls)',
      $table->getTableName(),
      array($class, 'GantryQueued'));

    $task = PhabricatorWorker::scheduleTask(
      $class,
      $data,
      array('priority' => 3500));
    queryfx(
      $conn,
      'UPDATE %T SET failureCount = %d WHERE id = %d',
      $table->getTableName(),
      $failure_count,
      $task->getID());

    $tasks = id(new PhabricatorWorkerLeaseQuery())
      ->withIDs(array($task->getID()))
      ->setLimit(1)
      ->execute();
    return head($tasks);
  }

  private function runStock(PhabricatorWorkerActiveTask $task) {
    $lease = (int)$task->getLeaseExpires();
    try {
      $task->executeTask();
    } catch (Throwable $ex) {
      // A taskmaster dies of it. What it wrote before is what counts.
    }
    PhutilLock::unlockAll();

    $table = new PhabricatorWorkerActiveTask();
    $row = $table->load($task->getID());
    $rows = $table->loadAllWhere(
      'taskClass = %s ORDER BY id ASC',
      'GantryQueued');

    return array(
      $row ? $this->readActive($row, $lease) : $this->readArchived($task),
      array_values(array_map(array($this, 'readFollowUp'), $rows)),
    );
  }

  private function readActive(PhabricatorWorkerActiveTask $row, $lease) {
    $leased = $lease - PhabricatorWorkerLeaseQuery::getDefaultLeaseDuration();
    $is_yield = $row->getLeaseOwner() === PhabricatorWorker::YIELD_OWNER;
    return array(
      'kind' => $is_yield ? 'yielded' : 'retry',
      'wait' => (int)$row->getLeaseExpires() - $leased,
      'failureCount' => (int)$row->getFailureCount(),
    );
  }

  private function readArchived(PhabricatorWorkerActiveTask $task) {
    $row = id(new PhabricatorWorkerArchiveTask())->load($task->getID());
    $is_success =
      (int)$row->getResult() === PhabricatorWorkerArchiveTask::RESULT_SUCCESS;
    return array(
      'kind' => $is_success ? 'succeeded' : 'failed',
      'wait' => 0,
      'failureCount' => (int)$row->getFailureCount(),
    );
  }

  private function readFollowUp(PhabricatorWorkerActiveTask $row) {
    $data = queryfx_one(
      $row->establishConnection('r'),
      'SELECT data FROM %T WHERE id = %d',
      id(new PhabricatorWorkerTaskData())->getTableName(),
      $row->getDataID());
    return array(
      'taskClass' => $row->getTaskClass(),
      'data' => $data['data'],
      'priority' => (int)$row->getPriority(),
      'objectPHID' => $row->getObjectPHID(),
      'containerPHID' => $row->getContainerPHID(),
      'delayUntil' => $row->getLeaseExpires(),
    );
  }

}
