<?php

final class GantryTaskEngineTest extends GantryTestCase {

  private function execute($data, array $columns = array(), $on_lease = null) {
    $engine = new GantryTaskEngine();
    return $engine->executeTask($this->newTask($data, $columns), $on_lease);
  }

  private static function throws($ex) {
    return array(
      'run' => function() use ($ex) {
        throw $ex;
      },
    );
  }

  /**
   * @dataProvider provideOutcomes
   */
  public function testOutcome(array $data, array $columns, array $expected) {
    $outcome = $this->execute($data, $columns)->toDictionary();
    $this->assertSame(
      $expected,
      array_intersect_key($outcome, $expected));
  }

  public static function provideOutcomes() {
    $exception = self::throws(new Exception('Broken.'));

    return array(
      'work that returns has succeeded' => array(
        array(),
        array(),
        array(
          'kind' => 'succeeded',
          'wait' => 0,
          'category' => '',
          'reason' => '',
          'uncaught' => false,
        ),
      ),
      'a yield waits as long as it says' => array(
        self::throws(new PhabricatorWorkerYieldException(60)),
        array(),
        array(
          'kind' => 'yielded',
          'wait' => 60,
          'category' => 'yield',
          'reason' => '',
          'uncaught' => false,
        ),
      ),
      'a yield waits five seconds or more' => array(
        self::throws(new PhabricatorWorkerYieldException(-3)),
        array(),
        array('kind' => 'yielded', 'wait' => 5),
      ),
      'a yield without a time waits five seconds' => array(
        self::throws(new PhabricatorWorkerYieldException(null)),
        array(),
        array('kind' => 'yielded', 'wait' => 5),
      ),
      'a yield of a fraction is cut' => array(
        self::throws(new PhabricatorWorkerYieldException(7.9)),
        array(),
        array('kind' => 'yielded', 'wait' => 7),
      ),
      'a permanent failure fails for good' => array(
        self::throws(new PhabricatorWorkerPermanentFailureException('Gone.')),
        array(),
        array(
          'kind' => 'failed',
          'wait' => 0,
          'category' => 'permanent',
          'reason' => 'PhabricatorWorkerPermanentFailureException: Gone.',
          'uncaught' => false,
        ),
      ),
      'an exception is a temporary failure of five minutes' => array(
        $exception,
        array(),
        array(
          'kind' => 'retry',
          'wait' => 300,
          'category' => 'exception',
          'reason' => 'Exception: Broken.',
          'uncaught' => true,
        ),
      ),
      'an error is a temporary failure too' => array(
        self::throws(new TypeError('Broken.')),
        array(),
        array(
          'kind' => 'retry',
          'wait' => 300,
          'category' => 'error',
          'reason' => 'TypeError: Broken.',
          'uncaught' => true,
        ),
      ),
      'the class says how long a failure waits' => array(
        $exception + array('getWaitBeforeRetry' => 17),
        array(),
        array('kind' => 'retry', 'wait' => 17),
      ),
      'a class may say so with a string' => array(
        $exception + array('getWaitBeforeRetry' => '90'),
        array(),
        array('kind' => 'retry', 'wait' => 90),
      ),
      'a negative wait is kept, and makes the task due' => array(
        $exception + array('getWaitBeforeRetry' => -60),
        array(),
        array('kind' => 'retry', 'wait' => -60),
      ),
      'a wait beyond what the column holds is cut' => array(
        $exception + array('getWaitBeforeRetry' => 300 * pow(8, 20)),
        array(),
        array('kind' => 'retry', 'wait' => 0x7FFFFFFF),
      ),
      'a class that can not say how long waits out a lease' => array(
        $exception + array(
          'getWaitBeforeRetry' => function($task) {
            throw new Exception('No policy.');
          },
        ),
        array(),
        array(
          'kind' => 'retry',
          'wait' => 7200,
          'category' => 'policy',
          'reason' => 'Exception: No policy.',
          'uncaught' => true,
        ),
      ),
      'as many failures as the class allows may be tried again' => array(
        array('getMaximumRetryCount' => 3),
        array('failureCount' => 3),
        array('kind' => 'succeeded'),
      ),
      'one failure more fails for good, without a run' => array(
        $exception + array('getMaximumRetryCount' => 3),
        array('failureCount' => 4),
        array(
          'kind' => 'failed',
          'category' => 'retries',
          'durationUs' => 0,
          'uncaught' => false,
        ),
      ),
      'a class that PHP does not know is tried again' => array(
        array(),
        array('taskClass' => 'GantryNoSuchWorker'),
        array(
          'kind' => 'retry',
          'wait' => 300,
          'category' => 'unknown-class',
          'uncaught' => false,
        ),
      ),
      'a class that does not load is tried again' => array(
        array(),
        array('taskClass' => 'GantryBrokenProbeWorker'),
        array(
          'kind' => 'retry',
          'wait' => 300,
          'category' => 'unknown-class',
        ),
      ),
      'however often it has failed' => array(
        array('getMaximumRetryCount' => 3),
        array('taskClass' => 'GantryNoSuchWorker', 'failureCount' => 100000),
        array('kind' => 'retry', 'wait' => 300),
      ),
      'a class that is no worker fails for good' => array(
        array(),
        array('taskClass' => 'GantryTaskOutcome'),
        array(
          'kind' => 'failed',
          'category' => 'not-a-worker',
          'uncaught' => false,
        ),
      ),
      'an abstract worker is tried again' => array(
        array(),
        array('taskClass' => 'GantryAbstractProbeWorker'),
        array(
          'kind' => 'retry',
          'wait' => 300,
          'category' => 'error',
          'uncaught' => false,
        ),
      ),
    );
  }

  public function testAnUnknownClassFailsForGoodWhereThatIsConfigured() {
    $env = PhabricatorEnv::beginScopedEnv();
    $env->overrideEnvConfig('gantry.unknown-class', 'fail');

    $outcome = $this->execute(
      array(),
      array('taskClass' => 'GantryNoSuchWorker'));
    $this->assertSame('failed', $outcome->getKind());
    $this->assertSame('unknown-class', $outcome->getCategory());

    // An abstract class is known.
    $outcome = $this->execute(
      array(),
      array('taskClass' => 'GantryAbstractProbeWorker'));
    $this->assertSame('retry', $outcome->getKind());
  }

  public function testALoadedClassIsFoundUnderAnySpelling() {
    $this->execute(array());
    $outcome = $this->execute(
      array(),
      array('taskClass' => 'gantryPROBEworker'));
    $this->assertSame('succeeded', $outcome->getKind());
  }

  public function testTheWaitIsAskedForWithTheFailureCounted() {
    $ex = new Exception('Broken.');
    $seen = null;
    $this->execute(
      self::throws($ex) + array(
        'getWaitBeforeRetry' => function($task) use (&$seen) {
          $seen = $task;
          return 15 * $task->getFailureCount();
        },
      ),
      array('failureCount' => 4));

    $this->assertSame(5, $seen->getFailureCount());
    $this->assertSame($ex, $seen->getExecutionException());
    $this->assertGreaterThan(0, $seen->getFailureTime());
  }

  public function testARequiredLeaseIsToldBeforeTheWork() {
    $events = array();
    $this->execute(
      array(
        'getRequiredLeaseTime' => '86400',
        'run' => function() use (&$events) {
          $events[] = 'work';
        },
      ),
      array(),
      function($seconds) use (&$events) {
        $events[] = $seconds;
      });
    $this->assertSame(array(86400, 'work'), $events);
  }

  public function testAnOrdinaryLeaseIsNotTold() {
    $outcome = $this->execute(
      array(),
      array(),
      function($seconds) {
        throw new Exception('Told.');
      });
    $this->assertSame('succeeded', $outcome->getKind());
  }

  public function testTheWorkerKnowsItsTask() {
    $id = null;
    $this->execute(
      array(
        'run' => function($worker) use (&$id) {
          $id = $worker->getCurrentWorkerTaskID();
        },
      ));
    // As MySQL gives it.
    $this->assertSame('4711', $id);
  }

  public function testTheDurationIsThatOfTheWork() {
    $run = function() {
      usleep(20000);
    };
    $outcome = $this->execute(array('run' => $run))->toDictionary();
    $this->assertGreaterThanOrEqual(20000, $outcome['durationUs']);
    $this->assertIsInt($outcome['durationUs']);
  }

  public function testFailuresAreLoggedWithTheirStackTrace() {
    $this->execute(array('act' => 'fail', 'with' => 'Broken.'));
    $this->assertStringContainsString(
      'Task 4711 (GantryProbeWorker): Exception: Broken.',
      $this->getLog());
    $this->assertStringContainsString(
      'GantryProbeWorker::fail',
      $this->getLog());
  }

  /**
   * What a taskmaster makes of it is decided by the error handler of libphutil,
   * which has changed its mind. The engine adds nothing.
   *
   * @dataProvider provideErrors
   */
  public function testB50DeprecationsAndWarningsDoWhatTheyDoInATaskmaster($run) {
    $expected = 'succeeded';
    try {
      $run();
    } catch (Throwable $ex) {
      $expected = 'retry';
    }

    $outcome = $this->execute(array('run' => $run));
    $this->assertSame($expected, $outcome->getKind());
  }

  public static function provideErrors() {
    return array(
      'deprecated' => array(
        function() {
          return strlen(null);
        },
      ),
      'warning' => array(
        function() {
          $map = array();
          return $map['missing'];
        },
      ),
      'silenced warning' => array(
        function() {
          return @file_get_contents('/nonexistent');
        },
      ),
      'user error' => array(
        function() {
          return trigger_error('Broken.', E_USER_ERROR);
        },
      ),
      'user deprecation' => array(
        function() {
          return trigger_error('Broken.', E_USER_DEPRECATED);
        },
      ),
    );
  }

}
