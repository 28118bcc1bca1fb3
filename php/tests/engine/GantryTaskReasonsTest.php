<?php

final class GantryTaskReasonsTest extends GantryTestCase {

  private function redact($text) {
    $reasons = new GantryTaskReasons();
    return $reasons->redact($text);
  }

  public function testAReasonNamesTheCauses() {
    $cause = new RuntimeException('The disk is full.');
    $ex = new Exception('The file can not be written.', 0, $cause);

    $reasons = new GantryTaskReasons();
    $this->assertSame(
      "Exception: The file can not be written.\n".
      'caused by RuntimeException: The disk is full.',
      $reasons->describeThrowable($ex));
  }

  public function testArgumentsInTheStackAreNotShown() {
    try {
      $this->throwWithArgument('a-secret-argument');
    } catch (Exception $ex) {
      $reasons = new GantryTaskReasons();
      $reason = $reasons->logThrowable($this->newTask(array()), $ex);
    }

    $this->assertStringContainsString('throwWithArgument', $this->getLog());
    $this->assertStringNotContainsString('a-secret', $this->getLog().$reason);
  }

  private function throwWithArgument($argument) {
    throw new Exception('Broken.');
  }

  public function testConfiguredSecretsAreNotShown() {
    $env = PhabricatorEnv::beginScopedEnv();
    $env->overrideEnvConfig('mysql.host', 'db.example.com');
    $env->overrideEnvConfig('mysql.pass', 'p4ss/word');
    $env->overrideEnvConfig('gantry.keys', array('k1' => 'k1-secret-value'));
    $env->overrideEnvConfig(
      'cluster.mailers',
      array(
        array(
          'key' => 'smtp-key',
          'type' => 'smtp',
          'options' => array('host' => 'mx.example.com', 'password' => 'mailpw'),
        ),
      ));

    $text = $this->redact(
      'db.example.com p4ss/word k1-secret-value smtp mx.example.com mailpw');
    $this->assertSame(
      'db.example.com ******** ******** smtp mx.example.com ********',
      $text);
  }

  /**
   * @dataProvider provideSecretShapes
   */
  public function testSecretsAreKnownByTheirShape($text, $expected) {
    $this->assertSame($expected, $this->redact($text));
  }

  public static function provideSecretShapes() {
    $token = 'abcdefghijklmnopqrstuvwxyz12';
    return array(
      'password in a URI' => array(
        'clone https://user:hunter2@host/repo.git',
        'clone https://user:********@host/repo.git',
      ),
      'password with an at sign' => array(
        'clone https://user:hunt@er2@host/repo.git',
        'clone https://user:********@host/repo.git',
      ),
      'URI without a password' => array(
        'clone https://host:8080/repo@2.git',
        'clone https://host:8080/repo@2.git',
      ),
      'Conduit token' => array(
        "token api-{$token}, refused",
        'token api-********, refused',
      ),
      'cluster token' => array("clr-{$token}", 'clr-********'),
      'PHID' => array(
        'PHID-TASK-abcdefghijklmnopqrst',
        'PHID-TASK-abcdefghijklmnopqrst',
      ),
    );
  }

  public function testAReasonIsShortAndUTF8() {
    $pieces = array("\x83\x65", "\u{1F600}", 'x', 'a://b:', 'api-');
    foreach ($pieces as $piece) {
      $text = $this->redact('Broken: '.str_repeat($piece, 100000));
      $this->assertLessThanOrEqual(4096, strlen($text));
      $this->assertGreaterThan(4000, strlen($text));
      $this->assertTrue(phutil_is_utf8($text));
    }
  }

  public function testNoHalfOfASecretIsLeftAtTheCut() {
    $env = PhabricatorEnv::beginScopedEnv();
    $env->overrideEnvConfig('mysql.pass', 'secret-of-some-length');

    $text = $this->redact(str_repeat('x', 4085).'secret-of-some-length');
    $this->assertStringNotContainsString('secret', $text);
  }

}
