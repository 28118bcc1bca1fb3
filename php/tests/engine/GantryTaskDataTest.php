<?php

/**
 * A task is put together from the bytes of its row, by the rules of
 * PhabricatorWorkerLeaseQuery.
 */
final class GantryTaskDataTest extends GantryTestCase {

  /**
   * @dataProvider provideData
   */
  public function testB18DataIsDecodedAsATaskmasterDoes($stored, $expected) {
    $task = GantryTaskEngine::newTask(
      array('id' => 1, 'taskClass' => 'GantryProbeWorker'),
      $stored);
    $this->assertSame($expected, $task->getData());
  }

  public static function provideData() {
    return array(
      'dictionary' => array('{"a":{"b":[]}}', array('a' => array('b' => array()))),
      'bare number' => array('17', 17),
      'bare string' => array('"x"', 'x'),
      'largest integer' => array('[9223372036854775807]', array(PHP_INT_MAX)),
      'emoji' => array("{\"p\":\"\u{1F600}\"}", array('p' => "\u{1F600}")),
      'escaped NUL' => array('{"p":"\u0000"}', array('p' => "\0")),
      'nothing' => array('', null),
      'no row' => array(null, null),
      'zero, which PHP takes for nothing' => array('0', null),
      'null' => array('null', null),
      'half of a dictionary' => array('{"a":', null),
      'not UTF-8' => array("{\"p\":\"\x83\x65\"}", null),
      'half of a surrogate pair' => array('{"p":"\ud800"}', null),
    );
  }

  /**
   * @dataProvider provideData
   */
  public function testB18BadDataIsOnePermanentFailure($stored, $expected) {
    $engine = new GantryTaskEngine();
    $outcome = $engine->executeTask(
      GantryTaskEngine::newTask(
        array(
          'id' => 1,
          'taskClass' => 'GantryProbeWorker',
          'failureCount' => 0,
          'priority' => 2000,
        ),
        $stored));
    $this->assertSame(
      is_array($expected) ? 'succeeded' : 'failed',
      $outcome->getKind());
  }

  public function testColumnsAreStringsAsFromMySQL() {
    $task = GantryTaskEngine::newTask(
      array(
        'id' => 4711,
        'taskClass' => 'GantryProbeWorker',
        'failureCount' => 0,
        'objectPHID' => null,
        'hasData' => true,
      ),
      '');
    $this->assertSame('4711', $task->getID());
    $this->assertSame('0', $task->getFailureCount());
    $this->assertNull($task->getObjectPHID());
  }

}
