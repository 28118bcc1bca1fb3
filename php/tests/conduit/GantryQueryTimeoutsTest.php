<?php

use PHPUnit\Framework\TestCase;

final class GantryQueryTimeoutsTest extends TestCase {

  private $connection;

  protected function setUp(): void {
    $this->connection = new class() {
      public $timeout = 30;

      public function setQueryTimeout($timeout) {
        $this->timeout = $timeout;
      }
    };
    $this->setConnections(array('test' => $this->connection));
  }

  protected function tearDown(): void {
    $this->setConnections(array());
  }

  private function setConnections(array $connections) {
    $set = function() use ($connections) {
      self::$connections = $connections;
    };
    call_user_func(Closure::bind($set, null, LiskDAO::class));
  }

  private function makeServiceCall($type) {
    $profiler = PhutilServiceProfiler::getInstance();
    $call_id = $profiler->beginServiceCall(array('type' => $type));
    $profiler->endServiceCall($call_id, array());
  }

  public function testTheTimeoutIsLiftedWhenAQueryBeginsOnAnyConnection() {
    $this->makeServiceCall('query');
    $this->assertSame(30, $this->connection->timeout);

    GantryQueryTimeouts::lift();
    $this->makeServiceCall('http');
    $this->assertSame(30, $this->connection->timeout);
    $this->makeServiceCall('query');
    $this->assertSame(0, $this->connection->timeout);

    // One that was opened later.
    $this->connection->timeout = 30;
    $this->makeServiceCall('query');
    $this->assertSame(0, $this->connection->timeout);
  }

}
