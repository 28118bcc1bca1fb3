<?php

/**
 * The tasks that a worker wants queued after it has succeeded.
 *
 * A taskmaster flushes them when the task is already archived. If one of them
 * can not be queued, those before it are there, and that one and those behind
 * it are lost. So it is here.
 */
final class GantryFollowUps extends Phobject {

  /**
   * Bytes of follow-ups that an outcome carries. More of them are queued by
   * the worker itself, as workers do that flush early.
   */
  const MAXIMUM_BYTES = 1000000;

  private $followUps = array();
  private $problem;

  public static function newFromWorker(
    PhabricatorWorker $worker,
    PhabricatorWorkerActiveTask $task) {

    // What PhabricatorWorkerActiveTask gives them.
    $defaults = array(
      'priority' => (int)$task->getPriority(),
    );

    $queue = new self();
    try {
      foreach (self::getQueuedTasks($worker) as $spec) {
        $queue->followUps[] = self::newFollowUp($spec, $defaults);
      }
    } catch (Throwable $ex) {
      $queue->problem = $ex;
    }

    $json = phutil_json_encode($queue->followUps);
    if (strlen($json) > self::MAXIMUM_BYTES) {
      $queue->followUps = array();
      $queue->problem = null;
      try {
        $worker->flushTaskQueue($defaults);
      } catch (Throwable $ex) {
        $queue->problem = $ex;
      }
    }

    return $queue;
  }

  /**
   * @return list<map<string, string|int|null>> Columns, as in an outcome.
   */
  public function getFollowUps() {
    return $this->followUps;
  }

  /**
   * @return Throwable|null Why some are lost; null: none are.
   */
  public function getProblem() {
    return $this->problem;
  }

  /**
   * The queue is protected, and final; a closure in the scope of the class
   * reads it in a Phorge nobody patched.
   */
  private static function getQueuedTasks(PhabricatorWorker $worker) {
    $read = function() {
      return $this->getQueuedTasks();
    };
    return call_user_func(
      Closure::bind($read, $worker, PhabricatorWorker::class));
  }

  /**
   * Follows @{method:PhabricatorWorker::scheduleTask}. An explicit `null` is
   * not the default that the task gives.
   */
  private static function newFollowUp(array $spec, array $defaults) {
    list($class, $data, $options) = $spec;
    $options = $options + $defaults;

    PhutilTypeSpec::checkMap(
      $options,
      array(
        'priority' => 'optional int|null',
        'objectPHID' => 'optional string|null',
        'containerPHID' => 'optional string|null',
        'delayUntil' => 'optional int|null',
      ));

    $follow_up = array(
      'taskClass' => (string)$class,
      'data' => phutil_json_encode($data),
      'priority' => coalesce(
        $options['priority'],
        PhabricatorWorker::PRIORITY_DEFAULT),
      'objectPHID' => idx($options, 'objectPHID'),
      'containerPHID' => idx($options, 'containerPHID'),
      'delayUntil' => nonempty(idx($options, 'delayUntil'), null),
    );

    foreach ($follow_up as $key => $value) {
      $problem = self::findProblem($key, $value);
      if ($problem !== null) {
        throw new Exception(
          pht(
            'The "%s" of a follow-up of class "%s" %s.',
            $key,
            phutil_utf8ize((string)$class),
            $problem));
      }
    }

    return $follow_up;
  }

  /**
   * What Phorge's columns can not hold, MySQL refuses as `STRICT_ALL_TABLES`.
   *
   * @return string|null
   */
  private static function findProblem($key, $value) {
    if (is_int($value)) {
      return ($value < 0 || $value > 0xFFFFFFFF)
        ? pht('is out of range')
        : null;
    }

    if ($value === null) {
      return null;
    }

    if (!phutil_is_utf8($value)) {
      return pht('is not UTF-8');
    }

    if ($key === 'data') {
      // It can be nested deeper than PHP reads.
      return (json_decode($value, true) === null)
        ? pht('can not be decoded again')
        : null;
    }

    if (strlen($value) > 64) {
      return pht('is longer than 64 bytes');
    }

    return ($key === 'taskClass' && $value === '')
      ? pht('is empty')
      : null;
  }

}
