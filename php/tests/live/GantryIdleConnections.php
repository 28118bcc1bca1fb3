<?php

/**
 * Connections to a real server that ends them when they are idle. This is not a
 * part of the suite, and is run by its path.
 */
final class GantryIdleConnections extends GantryTestCase {

  private $conn;
  private $oldTimeout;

  protected function setUp(): void {
    parent::setUp();

    $this->conn = id(new PhabricatorWorkerActiveTask())
      ->establishConnection('w');
    $row = queryfx_one($this->conn, 'SELECT @@GLOBAL.wait_timeout timeout');
    $this->oldTimeout = $row['timeout'];
    queryfx($this->conn, 'SET GLOBAL wait_timeout = 1');
  }

  protected function tearDown(): void {
    queryfx($this->conn, 'SET GLOBAL wait_timeout = %d', $this->oldTimeout);
    parent::tearDown();
  }

  /**
   * @dataProvider provideUses
   */
  public function testB35ATaskAfterAnIdleTimeFindsAConnection($act, $with) {
    $process = new GantryPoolProcess();
    $this->assertSame('ready', $process->read()['type']);

    $first = $this->useConnection($process, $act, $with);
    $this->waitForEnd($first);
    $second = $this->useConnection($process, $act, $with);
    $this->assertNotSame($first, $second);
  }

  private function useConnection(GantryPoolProcess $process, $act, $with) {
    $printed = strlen($process->getPrinted());
    $answer = $process->execute($act, $with);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('', $answer['leaving']);

    $matches = null;
    $this->assertSame(
      1,
      preg_match(
        '/^connection (\d+)\n\z/',
        substr($process->getPrinted(), $printed),
        $matches));
    return (int)$matches[1];
  }

  public static function provideUses() {
    return array(
      'a query' => array('tellConnectionID', false),
      'a transaction' => array('tellConnectionID', true),
      'a lock' => array('lockGlobally', null),
    );
  }

  private function waitForEnd($connection_id) {
    $deadline = microtime(true) + 30;
    do {
      $row = queryfx_one(
        $this->conn,
        'SELECT COUNT(*) n FROM information_schema.processlist WHERE id = %d',
        $connection_id);
      if (!$row['n']) {
        return;
      }
      usleep(50000);
    } while (microtime(true) < $deadline);

    $this->fail('The server keeps the idle connection.');
  }

}
