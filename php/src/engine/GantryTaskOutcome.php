<?php

/**
 * What an execution of a task came to: the words of a settlement, before
 * anybody settles it.
 */
final class GantryTaskOutcome extends Phobject {

  const KIND_SUCCEEDED = 'succeeded';
  const KIND_YIELDED = 'yielded';
  const KIND_RETRY = 'retry';
  const KIND_FAILED = 'failed';

  const CATEGORY_YIELD = 'yield';
  const CATEGORY_PERMANENT = 'permanent';
  const CATEGORY_EXCEPTION = 'exception';
  const CATEGORY_ERROR = 'error';
  const CATEGORY_RETRIES = 'retries';
  const CATEGORY_UNKNOWN_CLASS = 'unknown-class';
  const CATEGORY_NOT_A_WORKER = 'not-a-worker';
  const CATEGORY_POLICY = 'policy';

  private $kind;
  private $wait = 0;
  private $category = '';
  private $reason = '';
  private $duration = 0;
  private $followUps = array();
  private $uncaught = false;

  private function __construct($kind) {
    $this->kind = $kind;
  }

  public static function newSucceeded() {
    return new self(self::KIND_SUCCEEDED);
  }

  /**
   * @param mixed $wait Seconds, as a worker gives them to
   *   @{class:PhabricatorWorkerYieldException}. Less than 5 becomes 5.
   */
  public static function newYielded($wait) {
    $outcome = new self(self::KIND_YIELDED);
    $outcome->wait = max(5, self::toSeconds($wait));
    $outcome->category = self::CATEGORY_YIELD;
    return $outcome;
  }

  /**
   * @param mixed $wait Seconds, as a worker gives them. Negative: due at once.
   */
  public static function newRetry($wait, $category, $reason) {
    $outcome = new self(self::KIND_RETRY);
    $outcome->wait = self::toSeconds($wait);
    $outcome->category = $category;
    $outcome->reason = $reason;
    return $outcome;
  }

  public static function newFailed($category, $reason) {
    $outcome = new self(self::KIND_FAILED);
    $outcome->category = $category;
    $outcome->reason = $reason;
    return $outcome;
  }

  /**
   * Workers give times as integers, floats and numeric strings. What leads out
   * of the range of Phorge's unsigned epochs is cut to 68 years.
   *
   * @return int Seconds.
   */
  public static function toSeconds($seconds) {
    return (int)max(-0x7FFFFFFF, min(0x7FFFFFFF, (float)$seconds));
  }

  public function getKind() {
    return $this->kind;
  }

  public function getCategory() {
    return $this->category;
  }

  public function getReason() {
    return $this->reason;
  }

  public function setReason($reason) {
    $this->reason = $reason;
    return $this;
  }

  /**
   * @param int $duration Microseconds.
   */
  public function setDuration($duration) {
    $this->duration = $duration;
    return $this;
  }

  public function setFollowUps(array $follow_ups) {
    $this->followUps = $follow_ups;
    return $this;
  }

  /**
   * Something came out of the worker that is neither a yield nor a permanent
   * failure. A taskmaster does not outlive that, so its process is replaced.
   */
  public function setUncaught($uncaught) {
    $this->uncaught = $uncaught;
    return $this;
  }

  public function getUncaught() {
    return $this->uncaught;
  }

  public function toDictionary() {
    return array(
      'kind' => $this->kind,
      'wait' => $this->wait,
      'category' => $this->category,
      'reason' => $this->reason,
      'durationUs' => $this->duration,
      'followUps' => $this->followUps,
      'uncaught' => $this->uncaught,
    );
  }

  public function toJSON() {
    return phutil_json_encode($this->toDictionary());
  }

}
