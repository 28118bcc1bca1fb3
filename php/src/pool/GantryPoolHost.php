<?php

/**
 * Executes one task after another for the pool that started it.
 *
 * Only the channel carries answers: what a task prints is log. The process
 * says when it wants to be replaced and goes on until the pool has closed the
 * channel, so that no task is ever cut short to recycle it.
 */
final class GantryPoolHost extends Phobject {

  const PROTOCOL = 1;

  private $channel;
  private $engine;
  private $lifetime;
  private $isOver = false;
  private $isEndKnown = false;

  public function __construct(GantryPoolChannel $channel) {
    $this->channel = $channel;
    $this->engine = new GantryTaskEngine();
    $this->lifetime = new GantryPoolLifetime();
  }

  public function run() {
    pcntl_signal(SIGINT, array($this, 'onGracefulSignal'));
    $this->channel->writeFrame($this->newReadyFrame());
    GantryTaskRemains::clear();

    while (!$this->isOver) {
      if ($this->channel->waitForFrame(1)) {
        $frame = $this->channel->readFrame();
        if (!$frame) {
          return;
        }
        $this->channel->writeFrame($this->executeRequest($frame));
        PhabricatorCaches::destroyRequestCache();
      }
      LiskDAO::closeInactiveConnections(60);
      $this->lifetime->watchConfiguration();
      $this->announceEnd();
    }
  }

  private function announceEnd() {
    $end = $this->lifetime->getEnd();
    if ($end !== '' && !$this->isEndKnown) {
      $this->isEndKnown = true;
      $this->channel->writeFrame(
        array(
          'type' => 'leaving',
          'reason' => $end,
        ));
    }
  }

  /**
   * Finish the task, then exit, as daemons do at SIGINT. SIGTERM is left to
   * @{class:PhutilSignalRouter}, which exits at once.
   */
  public function onGracefulSignal($signo) {
    $this->isOver = true;
  }

  private function executeRequest(array $frame) {
    list($header, $data) = $frame;
    $request = $header['request'];

    $outcome = $this->engine->executeTask(
      GantryTaskEngine::newTask($header['task'], $data),
      function($seconds) use ($request) {
        $this->awaitLease($request, $seconds);
      });
    $this->lifetime->countTask($outcome->getUncaught(), $this->clearRemains());

    $end = $this->lifetime->getEnd();
    $this->isEndKnown = ($end !== '');

    return array(
      'type' => 'outcome',
      'request' => $request,
      'outcome' => $outcome->toDictionary(),
      'leaving' => $end,
      'memory' => memory_get_usage(true),
    );
  }

  /**
   * What can not be cleared away goes with the process.
   */
  private function clearRemains() {
    try {
      return GantryTaskRemains::clear();
    } catch (Throwable $ex) {
      phlog($ex);
      $this->isOver = true;
      return true;
    }
  }

  /**
   * A class that requires a lease runs when it has that lease, and not at all
   * when the pool has gone meanwhile.
   */
  private function awaitLease($request, $seconds) {
    $this->channel->writeFrame(
      array(
        'type' => 'started',
        'request' => $request,
        'lease' => $seconds,
      ));

    $frame = $this->channel->readFrame();
    if (!$frame) {
      exit(0);
    }
  }

  private function newReadyFrame() {
    return array(
      'type' => 'ready',
      'protocol' => self::PROTOCOL,
      'pid' => getmypid(),
      'phorge' => GantryPhorgeVersion::getVersion(),
      'php' => phpversion(),
      'namespace' => PhabricatorLiskDAO::getStorageNamespace(),
      'readOnly' => PhabricatorEnv::isReadOnly(),
      'classes' => GantryTaskEngine::loadWorkers('PhabricatorWorker'),
      'publishers' => GantryTaskEngine::loadWorkers('DoorkeeperFeedWorker'),
    );
  }

}
