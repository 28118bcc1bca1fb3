<?php

final class PhabricatorWorkerActiveTask extends PhabricatorWorkerTask {

  protected $failureTime;

  private $serverTime;

  public function setServerTime($server_time) {
    $this->serverTime = $server_time;
    return $this;
  }

}
