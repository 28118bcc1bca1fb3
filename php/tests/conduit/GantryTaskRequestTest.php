<?php

use PHPUnit\Framework\TestCase;

final class GantryTaskRequestTest extends TestCase {

  const TASK = array(
    'id' => 13,
    'taskClass' => 'PhabricatorTestWorker',
    'leaseOwner' => 'gantry:1:0:n:h',
  );

  public function testATaskIsReadAsItIs() {
    $task = GantryTaskRequest::newFromDictionary(self::TASK);
    $this->assertSame(13, $task->getID());
    $this->assertSame('PhabricatorTestWorker', $task->getTaskClass());
    $this->assertSame('gantry:1:0:n:h', $task->getLeaseOwner());
  }

  /**
   * @dataProvider provideMalformed
   */
  public function testB50NothingIsConverted($field, $value) {
    $map = array($field => $value) + self::TASK;
    $this->assertNull(GantryTaskRequest::newFromDictionary($map));
  }

  public function provideMalformed() {
    return array(
      'a float' => array('id', 13.0),
      'a numeric string' => array('id', '13'),
      'null' => array('id', null),
      'a boolean' => array('id', true),
      'zero' => array('id', 0),
      'a negative number' => array('id', -1),
      'more than the column holds' => array('id', 4294967296),
      'a list' => array('id', array(13)),
      'a class that is null' => array('taskClass', null),
      'a class that is a number' => array('taskClass', 7),
      'an empty class' => array('taskClass', ''),
      'a class that is too long' => array('taskClass', str_repeat('a', 65)),
      'an owner that is null' => array('leaseOwner', null),
      'an empty owner' => array('leaseOwner', ''),
      'an owner that is too long' => array('leaseOwner', str_repeat('a', 65)),
      'something more' => array('data', 'x'),
    );
  }

  public function testWhatIsNoTaskIsNoTask() {
    foreach (array(null, 7, 'x', array(), array(self::TASK)) as $value) {
      $this->assertNull(GantryTaskRequest::newFromDictionary($value));
    }

    foreach (array_keys(self::TASK) as $field) {
      $this->assertNull(
        GantryTaskRequest::newFromDictionary(
          array_diff_key(self::TASK, array($field => true))));
    }
  }

  public function testOwnersInParenthesesHoldNothing() {
    $owners = array(
      'gantry:1:0:n:h' => true,
      'somebody (else)' => true,
      '(yield)' => false,
      '(retry):1:0' => false,
      '(back):1:0' => false,
    );
    foreach ($owners as $owner => $is_held) {
      $task = GantryTaskRequest::newFromDictionary(
        array('leaseOwner' => $owner) + self::TASK);
      $this->assertSame($is_held, $task->isHeldBySomebody(), $owner);
    }
  }

}
