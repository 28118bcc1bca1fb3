<?php

abstract class PhabricatorWorkerTask extends PhabricatorLiskDAO {

  protected $taskClass;
  protected $leaseOwner;
  protected $leaseExpires;
  protected $failureCount;
  protected $dataID;
  protected $priority;
  protected $objectPHID;
  protected $containerPHID;

  private $data;
  private $executionException;

  final public function setExecutionException($exception) {
    $this->executionException = $exception;
    return $this;
  }

  final public function getExecutionException() {
    return $this->executionException;
  }

  final public function setData($data) {
    $this->data = $data;
    return $this;
  }

  final public function getData() {
    return $this->data;
  }

  final public function getWorkerInstance() {
    $class = $this->taskClass;

    // That a class is missing comes out of the second look at it.
    class_exists($class);
    if (!is_subclass_of($class, PhabricatorWorker::class)) {
      throw new PhabricatorWorkerPermanentFailureException('No worker.');
    }

    return newv($class, array($this->data));
  }

}
