<?php

final class GantryFollowUpsTest extends GantryTestCase {

  private function execute(array $data) {
    $engine = new GantryTaskEngine();
    return $engine->executeTask($this->newTask($data))->toDictionary();
  }

  public function testAFollowUpInheritsThePriorityAndNothingElse() {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array('A', array('x' => 'y'), array()),
        ),
      ));
    $this->assertSame(
      array(
        array(
          'taskClass' => 'A',
          'data' => '{"x":"y"}',
          'priority' => 3500,
          'objectPHID' => null,
          'containerPHID' => null,
          'delayUntil' => null,
        ),
      ),
      $outcome['followUps']);
  }

  public function testOptionsGoOverWhatIsInherited() {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array(
            'A',
            array(),
            array(
              'priority' => 1000,
              'objectPHID' => 'PHID-TEST-1',
              'containerPHID' => 'PHID-TEST-2',
              'delayUntil' => 1700000000,
            ),
          ),
          array('B', array(), array('priority' => null, 'delayUntil' => 0)),
        ),
      ));

    list($a, $b) = $outcome['followUps'];
    $this->assertSame(1000, $a['priority']);
    $this->assertSame('PHID-TEST-1', $a['objectPHID']);
    $this->assertSame('PHID-TEST-2', $a['containerPHID']);
    $this->assertSame(1700000000, $a['delayUntil']);

    // An explicit null is not inherited, as in Phorge.
    $this->assertSame(2000, $b['priority']);
    $this->assertNull($b['delayUntil']);
  }

  public function testDataIsTheTextThatPhorgeWouldStore() {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array(
            'A',
            array(
              'empty' => array(),
              'float' => 1.0,
              'path' => 'a/b',
              'text' => "\u{E9}\u{1F600}",
            ),
            array(),
          ),
        ),
      ));
    $this->assertSame(
      '{"empty":[],"float":1,"path":"a\/b","text":"\u00e9\ud83d\ude00"}',
      $outcome['followUps'][0]['data']);
  }

  /**
   * @dataProvider provideEndsWithoutSuccess
   */
  public function testFollowUpsAreDroppedUnlessTheTaskSucceeds($ex) {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array('A', array(), array()),
        ),
        'run' => function() use ($ex) {
          throw $ex;
        },
      ));
    $this->assertNotSame('succeeded', $outcome['kind']);
    $this->assertSame(array(), $outcome['followUps']);
  }

  public static function provideEndsWithoutSuccess() {
    return array(
      'yield' => array(new PhabricatorWorkerYieldException(5)),
      'temporary failure' => array(new Exception('Broken.')),
      'error' => array(new Error('Broken.')),
      'permanent failure' => array(
        new PhabricatorWorkerPermanentFailureException('Gone.'),
      ),
    );
  }

  /**
   * The work is done, so the task has succeeded. What can not be queued is
   * lost, with all behind it, as behind a taskmaster that dies of it.
   *
   * @dataProvider provideBadFollowUps
   */
  public function testABadFollowUpIsLostWithThoseBehindIt(array $bad) {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array('Before', array(), array()),
          $bad,
          array('Behind', array(), array()),
        ),
      ));
    $this->assertSame('succeeded', $outcome['kind']);
    $this->assertTrue($outcome['uncaught']);
    $this->assertNotSame('', $outcome['reason']);
    $this->assertSame(
      array('Before'),
      ipull($outcome['followUps'], 'taskClass'));

    // Whatever it was, the outcome can be sent.
    $this->assertIsString(phutil_json_encode($outcome));
  }

  public static function provideBadFollowUps() {
    return array(
      'a delay that is a float' => array(
        array('A', array(), array('delayUntil' => 1.5)),
      ),
      'a priority that is a string' => array(
        array('A', array(), array('priority' => '2000')),
      ),
      'an option that nobody knows' => array(
        array('A', array(), array('prioritee' => 2000)),
      ),
      'data that is not UTF-8' => array(
        array('A', array('p' => "\x83\x65"), array()),
      ),
      'data that JSON does not have' => array(
        array('A', array('p' => NAN), array()),
      ),
      'an object that is not UTF-8' => array(
        array('A', array(), array('objectPHID' => "\x83\x65")),
      ),
      'a class that is not UTF-8' => array(
        array("\x83\x65", array(), array()),
      ),
      'a class that is too long' => array(
        array(str_repeat('A', 65), array(), array()),
      ),
      'a class without a name' => array(
        array('', array(), array()),
      ),
      'an object that is too long' => array(
        array('A', array(), array('objectPHID' => str_repeat('o', 65))),
      ),
      'a container that is too long' => array(
        array('A', array(), array('containerPHID' => str_repeat('o', 65))),
      ),
      'a priority below zero' => array(
        array('A', array(), array('priority' => -5)),
      ),
      'a priority beyond the column' => array(
        array('A', array(), array('priority' => 4294967296)),
      ),
      'a delay until before the epoch' => array(
        array('A', array(), array('delayUntil' => -1)),
      ),
      'a delay beyond the column' => array(
        array('A', array(), array('delayUntil' => 4294967296)),
      ),
      'data that PHP does not read again' => array(
        array('A', self::nest(512), array()),
      ),
    );
  }

  private static function nest($depth) {
    $data = array();
    while (--$depth) {
      $data = array($data);
    }
    return $data;
  }

  public function testWhatTheColumnsJustHoldIsQueued() {
    $long = str_repeat('o', 64);
    $outcome = $this->execute(
      array(
        'queue' => array(
          array(
            str_repeat('A', 64),
            self::nest(511),
            array(
              'priority' => 0,
              'objectPHID' => $long,
              'containerPHID' => $long,
              'delayUntil' => 4294967295,
            ),
          ),
          array('A', array(), array('priority' => 4294967295)),
        ),
      ));
    $this->assertFalse($outcome['uncaught']);
    $this->assertSame(array(0, 4294967295), ipull($outcome['followUps'], 'priority'));
  }

  public function testWhatIsLostIsTold() {
    $outcome = $this->execute(
      array(
        'queue' => array(
          array('A', array(), array('objectPHID' => str_repeat('o', 65))),
        ),
      ));
    foreach (array($outcome['reason'], $this->getLog()) as $text) {
      $this->assertStringContainsString('is lost with all behind it', $text);
      $this->assertStringContainsString(
        'The "objectPHID" of a follow-up of class "A" is longer than 64 bytes',
        $text);
    }
  }

  public function testAnEarlyFlushQueuesByItself() {
    $this->takeScheduledTasks();
    $outcome = $this->execute(
      array(
        'queue' => array(
          array('A', array(), array()),
        ),
        'flush' => true,
        'run' => function() {
          throw new PhabricatorWorkerYieldException(5);
        },
      ));
    $this->assertSame(array(), $outcome['followUps']);

    $scheduled = $this->takeScheduledTasks();
    $this->assertSame(array('A'), mpull($scheduled, 'getTaskClass'));
    $this->assertEquals(array(2000), mpull($scheduled, 'getPriority'));
  }

  public function testMoreFollowUpsThanAnOutcomeCarriesAreQueuedByTheWorker() {
    $this->takeScheduledTasks();
    $many = array_fill(
      0,
      3,
      array('A', array('x' => str_repeat('x', 400000)), array()));

    $outcome = $this->execute(array('queue' => $many));
    $this->assertSame('succeeded', $outcome['kind']);
    $this->assertSame(array(), $outcome['followUps']);

    $scheduled = $this->takeScheduledTasks();
    $this->assertCount(3, $scheduled);
    $this->assertEquals(3500, head($scheduled)->getPriority());

    array_pop($many);
    $outcome = $this->execute(array('queue' => $many));
    $this->assertCount(2, $outcome['followUps']);
    $this->assertCount(0, $this->takeScheduledTasks());
  }

  public function testABadOneBehindMoreThanAnOutcomeCarriesIsLost() {
    $this->takeScheduledTasks();
    $many = array_fill(
      0,
      3,
      array('A', array('x' => str_repeat('x', 400000)), array()));
    $many[] = array('A', array(), array('delayUntil' => 1.5));
    $many[] = array('A', array(), array());

    $outcome = $this->execute(array('queue' => $many));
    $this->assertSame('succeeded', $outcome['kind']);
    $this->assertTrue($outcome['uncaught']);
    $this->assertSame(array(), $outcome['followUps']);
    $this->assertCount(3, $this->takeScheduledTasks());
  }

  private function takeScheduledTasks() {
    if (method_exists(PhabricatorWorker::class, 'takeScheduledTasks')) {
      return PhabricatorWorker::takeScheduledTasks();
    }

    $table = new PhabricatorWorkerActiveTask();
    $scheduled = $table->loadAllWhere('taskClass = %s', 'A');
    queryfx(
      $table->establishConnection('w'),
      'DELETE FROM %T WHERE taskClass = %s',
      $table->getTableName(),
      'A');
    return array_values($scheduled);
  }

}
