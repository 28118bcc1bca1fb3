<?php

/**
 * One row for every execution that began under a lease. It keeps a second one
 * from beginning, and the outcome for a caller whose answer got lost.
 *
 * An execution outlives its lease when its caller dies or stops. Then the next
 * lease does not run the task beside it, and takes over its success.
 */
final class GantryReceipts extends Phobject {

  const CLAIM_MADE = 'made';
  const CLAIM_EXISTS = 'exists';
  const CLAIM_REFUSED = 'refused';
  const CLAIM_RUNNING = 'running';

  const STATE_DONE = 'done';
  const STATE_RUNNING = 'running';
  const STATE_DEAD = 'dead';
  const STATE_ABSENT = 'absent';

  /**
   * Of a receipt that only keeps an execution from beginning.
   */
  const LOCK_OF_NOBODY = '';

  /**
   * A larger outcome is not kept. It is answered once; if that answer gets
   * lost, the execution counts as dead.
   */
  const MAXIMUM_OUTCOME_BYTES = 1048576;

  /**
   * Seconds after which a receipt goes, once it has done its duty.
   */
  const RETENTION = 600;

  private $database;

  public function __construct(GantryDatabase $database) {
    $this->database = $database;
  }

  /**
   * Write down an outcome and claim the next task, in one commit.
   *
   * @param pair<GantryTaskRequest, string>|null $finished Task and outcome, as
   *   JSON.
   * @param GantryTaskRequest|null $next Task to claim.
   * @return pair<string, array|null>|null What became of the claim, a `CLAIM_`
   *   constant, and the row of a task that is now ours to run.
   */
  public function advance($finished, ?GantryTaskRequest $next = null) {
    return $this->database->tryAgain(
      function($conn) use ($finished, $next) {
        return $this->tryToAdvance($conn, $finished, $next);
      });
  }

  private function tryToAdvance(
    $conn,
    $finished,
    ?GantryTaskRequest $next = null) {

    $lock = $this->database->getProcessLock();

    $queries = array();
    if ($finished) {
      list($task, $outcome) = $finished;
      $queries['finish'] = $this->newFinish($conn, $task, $outcome);
    }
    if ($next) {
      $queries += $this->newClaimQueries($conn, $next, $lock);
    }

    $results = ($finished && $next)
      ? $this->database->saveInOneTrip($queries)
      : $this->database->queryInOneTrip($queries);

    if (idx($results, 'finish') instanceof Exception) {
      throw $results['finish'];
    }
    return $next ? $this->readClaim($conn, $next, $lock, $results) : null;
  }

  private function newFinish($conn, GantryTaskRequest $task, $outcome) {
    if (strlen($outcome) > self::MAXIMUM_OUTCOME_BYTES) {
      $outcome = '';
    }

    return qsprintf(
      $conn,
      'UPDATE %R SET outcome = %s WHERE taskID = %d AND leaseOwner = %s',
      GantryDatabase::getTable('receipts'),
      $outcome,
      $task->getID(),
      $task->getLeaseOwner());
  }

  /**
   * What is run is what the row says, never what the caller says. The lease is
   * checked in the statement that writes the receipt: whatever happened to the
   * row before is seen, and whoever comes later finds the receipt. It compares
   * bytes, because texts are equal without regard to spaces at the end.
   */
  private function newClaimQueries($conn, GantryTaskRequest $task, $lock) {
    return array(
      'earlier' => qsprintf(
        $conn,
        'SELECT COUNT(*) FROM %Q INTO @gantry_earlier',
        $this->newEarlierReceipts($conn, $task)),
      'row' => qsprintf(
        $conn,
        'SELECT task.*, taskdata.data _taskData,
            UNIX_TIMESTAMP() _serverTime, @gantry_earlier _earlier
          FROM %R task LEFT JOIN %R taskdata ON taskdata.id = task.dataID
          WHERE task.id = %d AND task.leaseOwner = %s',
        new PhabricatorWorkerActiveTask(),
        new PhabricatorWorkerTaskData(),
        $task->getID(),
        $task->getLeaseOwner()),
      'claim' => $this->newClaim($conn, $task, $lock, null, 0),
    );
  }

  /**
   * @param map<string, wild> $results What came of the queries.
   * @return pair<string, array|null> As @{method:advance}.
   */
  private function readClaim(
    $conn,
    GantryTaskRequest $task,
    $lock,
    array $results) {

    $claimed = $results['claim'];
    if ($claimed instanceof AphrontDuplicateKeyQueryException) {
      $claimed = $this->isClaimedBy($conn, $task, $lock);
      if (!$claimed) {
        return array(self::CLAIM_EXISTS, null);
      }
    }
    foreach (array($results['earlier'], $results['row'], $claimed) as $result) {
      if ($result instanceof Exception) {
        throw $result;
      }
    }

    if (!$results['row']) {
      return array(self::CLAIM_REFUSED, null);
    }

    $row = head($results['row']);
    if ($claimed) {
      return array(self::CLAIM_MADE, $row);
    }
    return $row['_earlier']
      ? $this->claimAgain($conn, $task, $lock, $row)
      : array(self::CLAIM_REFUSED, null);
  }

  private function newClaim(
    $conn,
    GantryTaskRequest $task,
    $lock,
    $outcome,
    $earlier) {

    return qsprintf(
      $conn,
      'INSERT INTO %R
          (taskID, leaseOwner, processLock, outcome, taskModified, epoch)
        SELECT id, leaseOwner, %s, %ns, dateModified, UNIX_TIMESTAMP() FROM %R
        WHERE id = %d
          AND CAST(taskClass AS BINARY) = %s
          AND CAST(leaseOwner AS BINARY) = %s
          AND leaseExpires > UNIX_TIMESTAMP()
          AND @gantry_earlier = %d',
      GantryDatabase::getTable('receipts'),
      $lock,
      $outcome,
      new PhabricatorWorkerActiveTask(),
      $task->getID(),
      $task->getTaskClass(),
      $task->getLeaseOwner(),
      $earlier);
  }

  /**
   * Receipts of earlier leases that matter to this one: of executions that have
   * no outcome, and of those since which the task was not saved. Leasing a task
   * and giving it back do not save it, but whatever settles an outcome does,
   * and so does a person who wants another execution.
   */
  private function newEarlierReceipts($conn, GantryTaskRequest $task) {
    return qsprintf(
      $conn,
      '%R receipt JOIN %R task ON task.id = receipt.taskID
        WHERE receipt.taskID = %d
          AND receipt.leaseOwner != %s
          AND receipt.processLock != %s
          AND (receipt.outcome IS NULL
            OR receipt.taskModified = task.dateModified)',
      GantryDatabase::getTable('receipts'),
      new PhabricatorWorkerActiveTask(),
      $task->getID(),
      $task->getLeaseOwner(),
      self::LOCK_OF_NOBODY);
  }

  /**
   * Claim a task that was executed under earlier leases. A success that was
   * never settled becomes that of this lease, whose receipt keeps it. Any other
   * outcome is followed by another execution anyway.
   */
  private function claimAgain(
    $conn,
    GantryTaskRequest $task,
    $lock,
    array $row) {

    foreach ($this->loadEarlierReceipts($conn, $task) as $receipt) {
      if ($receipt['outcome'] === null && !$this->isDead($receipt)) {
        return array(self::CLAIM_RUNNING, null);
      }
    }

    // One may have written its outcome just before it ended.
    $success = null;
    foreach ($this->loadEarlierReceipts($conn, $task) as $receipt) {
      if ($this->isSuccess($receipt)) {
        $success = $receipt['outcome'];
      }
    }

    try {
      queryfx(
        $conn,
        '%Q',
        $this->newClaim($conn, $task, $lock, $success, $row['_earlier']));
    } catch (AphrontDuplicateKeyQueryException $ex) {
      return array(self::CLAIM_EXISTS, null);
    }

    if (!$conn->getAffectedRows()) {
      return array(self::CLAIM_REFUSED, null);
    }
    return ($success === null)
      ? array(self::CLAIM_MADE, $row)
      : array(self::CLAIM_EXISTS, null);
  }

  private function loadEarlierReceipts($conn, GantryTaskRequest $task) {
    return queryfx_all(
      $conn,
      'SELECT receipt.processLock, receipt.outcome, receipt.epoch FROM %Q',
      $this->newEarlierReceipts($conn, $task));
  }

  private function isSuccess(array $receipt) {
    if (!strlen((string)$receipt['outcome'])) {
      return false;
    }
    $outcome = phutil_json_decode($receipt['outcome']);
    return $outcome['kind'] === GantryTaskOutcome::KIND_SUCCEEDED;
  }

  private function isDead(array $receipt) {
    return $this->database->isProcessDead(
      $receipt['processLock'],
      (int)$receipt['epoch']);
  }

  /**
   * A claim of ours was committed when the answer of the server got lost.
   */
  private function isClaimedBy($conn, GantryTaskRequest $task, $lock) {
    $row = queryfx_one(
      $conn,
      'SELECT taskID FROM %R WHERE taskID = %d AND leaseOwner = %s
        AND processLock = %s AND outcome IS NULL',
      GantryDatabase::getTable('receipts'),
      $task->getID(),
      $task->getLeaseOwner(),
      $lock);
    return (bool)$row;
  }

  /**
   * Say what is known of an execution. One that has not begun can not begin any
   * more: the caller gives the task back, and a call that is still on its way
   * must not run what somebody else may hold by then.
   *
   * @return pair<string, array|null> State, a `STATE_` constant, and outcome.
   */
  public function closeState(GantryTaskRequest $task) {
    queryfx(
      $this->database->getConnection(),
      'INSERT IGNORE INTO %R
          (taskID, leaseOwner, processLock, outcome, taskModified, epoch)
        VALUES (%d, %s, %s, %s, 0, UNIX_TIMESTAMP())',
      GantryDatabase::getTable('receipts'),
      $task->getID(),
      $task->getLeaseOwner(),
      self::LOCK_OF_NOBODY,
      '');
    return $this->loadState($task);
  }

  /**
   * @return pair<string, array|null> State, a `STATE_` constant, and outcome.
   */
  public function loadState(GantryTaskRequest $task) {
    $receipt = $this->loadReceipt($task);

    if ($receipt && $receipt['outcome'] === null) {
      if (!$this->isDead($receipt)) {
        return array(self::STATE_RUNNING, null);
      }

      // It may have written its outcome just before it ended.
      $receipt = $this->loadReceipt($task);
    }

    if (!$receipt || $receipt['processLock'] === self::LOCK_OF_NOBODY) {
      return array(self::STATE_ABSENT, null);
    }

    if (!strlen((string)$receipt['outcome'])) {
      return array(self::STATE_DEAD, null);
    }

    return array(
      self::STATE_DONE,
      phutil_json_decode($receipt['outcome']),
    );
  }

  private function loadReceipt(GantryTaskRequest $task) {
    return queryfx_one(
      $this->database->getConnection(),
      'SELECT processLock, outcome, epoch FROM %R
        WHERE taskID = %d AND leaseOwner = %s',
      GantryDatabase::getTable('receipts'),
      $task->getID(),
      $task->getLeaseOwner());
  }

  /**
   * A receipt has done its duty when its task has left the queue. Before, it
   * also matters to later leases, except for what @{method:newEarlierReceipts}
   * passes over.
   */
  public function collectGarbage($limit) {
    $conn = $this->database->getConnection();

    $rows = queryfx_all(
      $conn,
      'SELECT receipt.taskID, receipt.leaseOwner FROM %R receipt
        LEFT JOIN %R task ON task.id = receipt.taskID
        WHERE receipt.epoch < UNIX_TIMESTAMP() - %d
          AND (task.id IS NULL
            OR (NOT (task.leaseOwner <=> receipt.leaseOwner)
              AND (receipt.processLock = %s
                OR (receipt.outcome IS NOT NULL
                  AND receipt.taskModified != task.dateModified))))
        ORDER BY receipt.epoch LIMIT %d',
      GantryDatabase::getTable('receipts'),
      new PhabricatorWorkerActiveTask(),
      self::RETENTION,
      self::LOCK_OF_NOBODY,
      $limit);

    foreach (array_chunk($rows, 256) as $chunk) {
      $keys = array();
      foreach ($chunk as $row) {
        $keys[] = qsprintf(
          $conn,
          '(%d, %s)',
          $row['taskID'],
          $row['leaseOwner']);
      }
      queryfx(
        $conn,
        'DELETE FROM %R WHERE (taskID, leaseOwner) IN (%LQ)',
        GantryDatabase::getTable('receipts'),
        $keys);
    }
  }

}
