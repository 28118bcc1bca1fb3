<?php

/**
 * Processes of the pool, spoken to as Gantry speaks to them.
 */
final class GantryPoolHostTest extends GantryTestCase {

  private function start(array $options = array()) {
    $process = new GantryPoolProcess($options);
    $ready = $process->read();
    $this->assertSame('ready', idx($ready, 'type'), $process->getPrinted());
    return $process;
  }

  private function assertSucceeds(GantryPoolProcess $process) {
    $answer = $process->execute(null);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    return $answer;
  }

  public function testAProcessSaysWhatItIs() {
    $process = new GantryPoolProcess();
    $ready = $process->read();

    $this->assertSame('ready', $ready['type']);
    $this->assertSame(1, $ready['protocol']);
    $this->assertSame(phpversion(), $ready['php']);
    $this->assertIsString($ready['phorge']);
    $this->assertSame(
      PhabricatorLiskDAO::getStorageNamespace(),
      $ready['namespace']);
    $this->assertFalse($ready['readOnly']);
    $this->assertContains('GantryProbeWorker', $ready['classes']);
    $this->assertNotContains('GantryAbstractProbeWorker', $ready['classes']);
    $this->assertNotContains('GantryBrokenProbeWorker', $ready['classes']);

    // Those of the real Phorge, or of the stand-in, which has none.
    $this->assertSame(
      array_values(preg_grep('/^Doorkeeper/', $ready['classes'])),
      $ready['publishers']);
  }

  public function testAnOutcomeAnswersItsRequest() {
    $process = $this->start();
    $request = $process->request(
      array(
        'queue' => array(
          array('A', array('x' => 1), array()),
        ),
      ),
      array('priority' => 1000));

    $answer = $process->read();
    $this->assertSame('outcome', $answer['type']);
    $this->assertSame($request, $answer['request']);
    $this->assertSame('', $answer['leaving']);
    $this->assertGreaterThan(1000000, $answer['memory']);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame(1000, $answer['outcome']['followUps'][0]['priority']);
  }

  public function testAClassNameIsFoundUnderAnySpelling() {
    $process = $this->start();
    $process->request(array(), array('taskClass' => 'gantryprobeworker'));
    $answer = $process->read();
    $this->assertSame('succeeded', $answer['outcome']['kind']);
  }

  public function testB18DataThatIsNoJSONFailsOneTask() {
    $process = $this->start();
    foreach (array('', '{"a":', "{\"p\":\"\x83\x65\"}") as $data) {
      $process->request($data);
      $answer = $process->read();
      $this->assertSame('failed', $answer['outcome']['kind']);
      $this->assertSame('', $answer['leaving']);
    }

    $emoji = "\u{1F600}";
    $process->request('{"act":"say","with":"'.bin2hex($emoji).'"}');
    $this->assertSame('succeeded', $process->read()['outcome']['kind']);
    $this->assertStringContainsString($emoji, $process->getPrinted());
  }


  public function testAWarningIsAnExceptionWhateverDidNotLoadBefore() {
    // A class of the test library did not, when the process started.
    $process = $this->start();
    $answer = $process->execute('useUndefined');
    $this->assertSame('retry', $answer['outcome']['kind']);

    $process->request(
      array(),
      array('taskClass' => 'GantryBrokenProbeWorker'));
    $this->assertSame('retry', $process->read()['outcome']['kind']);
    $answer = $process->execute('useUndefined');
    $this->assertSame('retry', $answer['outcome']['kind']);
  }


/* -(  What a task prints  )------------------------------------------------- */


  /**
   * @dataProvider provideOutput
   */
  public function testB30WhatATaskPrintsIsLog($act, $with, $printed) {
    $process = $this->start();
    $answer = $process->execute($act, $with);

    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('', $answer['leaving']);
    $this->assertStringContainsString($printed, $process->getPrinted());
    $this->assertSucceeds($process);
  }

  public static function provideOutput() {
    $frame = pack('NN', 18, 0).'{"type":"outcome"}';
    return array(
      'a megabyte' => array('sayMuch', 1048576, str_repeat('x', 1048576)),
      'what looks like a frame' => array('say', bin2hex($frame), $frame),
      'standard output, opened again' => array(
        'writeToStandardOutput',
        'directly',
        'directly',
      ),
      'a buffer that nobody flushed' => array(
        'leaveInBuffer',
        'left behind',
        'left behind',
      ),
    );
  }

  public function testB30AWarningAtStartupIsLog() {
    $process = $this->start(
      array(
        'php' => array('-d', 'extension=gantry-no-such-extension'),
      ));
    $this->assertStringContainsString(
      'gantry-no-such-extension',
      $process->getPrinted());
    $this->assertSucceeds($process);
  }

  public function testAProgramThatATaskStartsHasNoPipeOfThePool() {
    if (!extension_loaded('ffi')) {
      // Then it has them, and Gantry does not count on it.
      $this->expectNotToPerformAssertions();
      return;
    }

    $process = $this->start();
    $process->execute('listChildDescriptors');
    $printed = $process->getPrinted();
    $this->assertStringContainsString('/proc/', $printed);
    $this->assertDoesNotMatchRegularExpression('/ ([3-9]|\d\d) -> pipe:/', $printed);
  }


/* -(  What a task leaves behind  )------------------------------------------ */


  public function testALockThatAnErrorLeftIsFreeForTheNextTask() {
    $process = $this->start();
    $answer = $process->execute('lockAndBreak');
    $this->assertSame('error', $answer['outcome']['category']);
    $this->assertSame('throwable', $answer['leaving']);

    $answer = $process->execute('lock');
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('throwable', $answer['leaving']);
  }

  public function testATransactionThatATaskLeftIsNotTheNextOnes() {
    $process = $this->start();
    $answer = $process->execute('leaveTransaction');
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('remains', $answer['leaving']);
    $this->assertSucceeds($process);

    $process->closeRequests();
    $this->assertSame(0, $process->wait());
  }

  /**
   * Its successor has nothing of it.
   */
  public function testAProcessThatCanNotBeClearedTakesNoFurtherTask() {
    $process = $this->start();
    $answer = $process->execute('leaveStuckLock');
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('remains', $answer['leaving']);

    $this->assertNull($process->execute('say', bin2hex('worked')));
    $this->assertSame(0, $process->wait());
    $this->assertStringNotContainsString('worked', $process->getPrinted());
  }

  /**
   * @dataProvider provideForks
   */
  public function testAProcessThatATaskForkedEndsWithTheWork($throws) {
    $process = $this->start();
    $request = $process->request(array('act' => 'fork', 'with' => $throws));
    $answer = $process->read();
    $this->assertSame($request, $answer['request']);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertStringContainsString(
      'child: '.SIGKILL,
      $process->getPrinted());

    // It answered nothing, and takes nothing.
    for ($i = 0; $i < 3; $i++) {
      $request = $process->request(array());
      $this->assertSame($request, $process->read()['request']);
    }
  }

  public static function provideForks() {
    return array(
      'a forked process comes back from the work' => array(false),
      'a forked process fails' => array(true),
    );
  }

  public function testB35AConnectionThatWasIdleForAMinuteIsClosed() {
    $process = $this->start();
    foreach (array(30 => 'open', 61 => 'closed') as $age => $state) {
      $process->execute('connect', $age);
      $process->execute('tellConnection');
      $this->assertStringEndsWith(
        "connection {$age} is {$state}\n",
        $process->getPrinted());
    }
  }

  public function testPhorgeThatTurnsReadOnlyIsLeft() {
    $process = $this->start();
    $answer = $process->execute('becomeReadOnly');
    $this->assertSame('read-only', $answer['leaving']);
    $this->assertSame('read-only', $this->assertSucceeds($process)['leaving']);
  }


/* -(  How a process ends  )------------------------------------------------- */


  public function testAnIdleProcessSaysOnceThatItWantsToBeReplaced() {
    $this->writeConfiguration(array('gantry.pool.max-age' => 1));
    $process = $this->start();
    $this->assertSame(
      array(
        'type' => 'leaving',
        'reason' => 'age',
      ),
      $process->read());

    // It serves on, and the next it says is an outcome.
    $this->assertSame('age', $this->assertSucceeds($process)['leaving']);
  }

  public function testB32ASoftLimitEndsTheProcessAndNotTheTask() {
    $this->writeConfiguration(array('gantry.pool.memory-limit' => 128));
    $process = $this->start();
    $this->assertSame('', $this->assertSucceeds($process)['leaving']);

    $answer = $process->execute('hold', 200 * 1048576);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame('memory', $answer['leaving']);
    $this->assertSucceeds($process);
  }

  public function testB32ATaskAboveTheLimitOfPHPDiesWithPHPsMessage() {
    $process = $this->start();
    $this->assertNull($process->execute('exceed', '64M'));
    $this->assertSame(255, $process->wait());
    $this->assertStringContainsString(
      'Allowed memory size of 67108864 bytes exhausted',
      $process->getPrinted());
  }

  public function testATaskThatExitsIsNoOutcome() {
    $process = $this->start();
    $this->assertNull($process->execute('end', 3));
    $this->assertSame(3, $process->wait());
  }

  public function testTheEndOfTheRequestsIsTheEnd() {
    $process = $this->start();
    $this->assertSucceeds($process);
    $printed = $process->getPrinted();
    $process->closeRequests();
    $this->assertSame(0, $process->wait());
    $this->assertSame($printed, $process->getPrinted());
  }

  public function testATaskUnderAnInterruptIsFinished() {
    $process = $this->start();
    $answer = $process->execute('interruptItself', SIGINT);
    $this->assertSame('succeeded', $answer['outcome']['kind']);
    $this->assertSame(0, $process->wait());
  }

  public function testAnInterruptEndsAnIdleProcess() {
    $process = $this->start();
    $process->signal(SIGINT);
    $this->assertSame(0, $process->wait());
  }

  public function testATerminationDoesNotWaitForTheTask() {
    $process = $this->start();
    $this->assertNull($process->execute('interruptItself', SIGTERM));
    $this->assertSame(128 + SIGTERM, $process->wait());
  }


/* -(  Leases  )------------------------------------------------------------- */


  public function testTheWorkWaitsForTheLeaseItRequires() {
    $process = $this->start();
    $data = array(
      'getRequiredLeaseTime' => 86400,
      'act' => 'writeToStandardOutput',
      'with' => 'worked',
    );

    $request = $process->request($data);
    $this->assertSame(
      array(
        'type' => 'started',
        'request' => $request,
        'lease' => 86400,
      ),
      $process->read());
    $this->assertStringNotContainsString('worked', $process->getPrinted());

    $process->write(array('type' => 'leased', 'request' => $request));
    $this->assertSame('succeeded', $process->read()['outcome']['kind']);
    $this->assertStringEndsWith('worked', $process->getPrinted());
  }

  public function testThereIsNoWorkWithoutTheLease() {
    $process = $this->start();
    $process->request(
      array(
        'getRequiredLeaseTime' => 86400,
        'act' => 'writeToStandardOutput',
        'with' => 'worked',
      ));
    $this->assertSame('started', $process->read()['type']);

    $process->closeRequests();
    $this->assertSame(0, $process->wait());
    $this->assertStringNotContainsString('worked', $process->getPrinted());
  }


/* -(  Starting  )----------------------------------------------------------- */


  public function testAnotherUserIsRefusedAndTold() {
    $this->writeConfiguration(array('phd.user' => 'gantry-nobody'));
    $process = new GantryPoolProcess();
    $this->assertSame(2, $process->wait());
    $this->assertStringContainsString(
      'sudo -u gantry-nobody gantry run',
      $process->getPrinted());
    $this->assertSame(1, substr_count($process->getPrinted(), "\n"));
  }

  public function testTheRightUserMayRun() {
    $user = posix_getpwuid(posix_geteuid());
    $this->writeConfiguration(array('phd.user' => $user['name']));
    $this->assertSucceeds($this->start());
  }

  public function testAConfigurationThatDoesNotLoadIsTold() {
    $this->writeConfigurationText('{"phd.user');
    $process = new GantryPoolProcess();
    $this->assertSame(2, $process->wait());
    $this->assertStringContainsString(
      'Phorge does not start',
      $process->getPrinted());
  }

  public function testADirectoryWithoutAPhorgeIsTold() {
    $arguments = array(array('--phorge', '/nonexistent'), array());
    foreach ($arguments as $list) {
      $process = new GantryPoolProcess(array('arguments' => $list));
      $this->assertSame(2, $process->wait());
      $this->assertStringContainsString('no Phorge', $process->getPrinted());
    }
  }

  public function testAProcessThatNobodySpeaksToDoesNotStart() {
    $process = new GantryPoolProcess(array('pipes' => false));
    $this->assertSame(2, $process->wait());
    $this->assertStringContainsString('gantry run', $process->getPrinted());
  }

}
