<?php

/**
 * A task that a caller names, with the lease under which it holds it.
 */
final class GantryTaskRequest extends Phobject {

  private $id;
  private $taskClass;
  private $leaseOwner;

  private function __construct() {}

  /**
   * Types are not converted: a caller that sends `"13"` or `13.0` has a bug.
   *
   * @return GantryTaskRequest|null Null when it is malformed.
   */
  public static function newFromDictionary($map) {
    if (!is_array($map) || count($map) !== 3) {
      return null;
    }

    $task = new self();
    $task->id = idx($map, 'id');
    $task->taskClass = idx($map, 'taskClass');
    $task->leaseOwner = idx($map, 'leaseOwner');

    $is_valid = is_int($task->id)
             && $task->id > 0
             && $task->id <= 0xFFFFFFFF
             && self::isColumnText($task->taskClass)
             && self::isColumnText($task->leaseOwner);

    return $is_valid ? $task : null;
  }

  private static function isColumnText($value) {
    return is_string($value) && $value !== '' && strlen($value) <= 64;
  }

  public function getID() {
    return $this->id;
  }

  public function getTaskClass() {
    return $this->taskClass;
  }

  public function getLeaseOwner() {
    return $this->leaseOwner;
  }

  /**
   * Owners in parentheses are nobody's: their tasks wait.
   */
  public function isHeldBySomebody() {
    return $this->leaseOwner[0] !== '(';
  }

}
