<?php

/**
 * Tells `bin/storage adjust` what the tables of Gantry look like. They have no
 * Lisk classes: most are read and written by the `gantry` binary alone, and
 * those of `worker.execute` are used on the connection to the worker database,
 * so that a statement can hold a task and its receipt together.
 */
final class GantrySchemaSpec extends PhabricatorConfigSchemaSpec {

  public function buildSchemata() {
    foreach (self::getTables() as $name => $table) {
      list($columns, $keys) = $table;
      $this->buildRawSchema('gantry', $name, $columns, $keys);
    }
  }

  public static function getTableNames() {
    return array_keys(self::getTables());
  }

  private static function getTables() {
    return array(
      'attempts' => array(
        array(
          'id' => 'auto64',
          'taskID' => 'id',
          'taskClass' => 'text64',
          'attempt' => 'uint32',
          'route' => 'text16',
          'category' => 'text32',
          'reason' => 'text',
          'host' => 'text64',
          'leaseOwner' => 'text64',
          'durationUs' => 'uint64',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('id'),
          'key_task' => array('columns' => array('taskID', 'id')),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
      'receipts' => array(
        array(
          'taskID' => 'id',
          'leaseOwner' => 'text64',
          'processLock' => 'text64',
          'outcome' => 'text?',
          'taskModified' => 'epoch',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('taskID', 'leaseOwner'),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
      'nonces' => array(
        array(
          'keyID' => 'text64',
          'nonce' => 'text32',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('keyID', 'nonce'),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
      'inbox' => array(
        array(
          'idempotencyKey' => 'text128',
          'contentHash' => 'bytes32',
          'taskIDs' => 'text',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('idempotencyKey'),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
      'rollups' => array(
        array(
          'minute' => 'epoch',
          'taskClass' => 'text64',
          'route' => 'text16',
          'kind' => 'text16',
          'taskCount' => 'uint32',
          'durationUs' => 'uint64',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey(
            'minute',
            'taskClass',
            'route',
            'kind'),
        ),
      ),
      'routes' => array(
        array(
          'taskClass' => 'text64',
          'mode' => 'text16',
          'canaryPermille' => 'uint32',
          'changedBy' => 'text128',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('taskClass'),
        ),
      ),
      'shadow_results' => array(
        array(
          'id' => 'auto64',
          'taskID' => 'id',
          'taskClass' => 'text64',
          'isEqual' => 'bool',
          'phpResult' => 'text',
          'goResult' => 'text',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('id'),
          'key_class' => array('columns' => array('taskClass', 'id')),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
      'outbox' => array(
        array(
          'id' => 'auto64',
          'taskID' => 'id',
          'topic' => 'text64',
          'payload' => 'bytes',
          'epoch' => 'epoch',
          'sentEpoch' => 'epoch?',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('id'),
          'key_sent' => array('columns' => array('sentEpoch', 'id')),
        ),
      ),
      'traces' => array(
        array(
          'taskID' => 'id',
          'traceparent' => 'text64',
          'epoch' => 'epoch',
        ),
        array(
          'PRIMARY' => self::newPrimaryKey('taskID'),
          'key_epoch' => array('columns' => array('epoch')),
        ),
      ),
    );
  }

  private static function newPrimaryKey(/* ... */) {
    return array(
      'columns' => func_get_args(),
      'unique' => true,
    );
  }

}
