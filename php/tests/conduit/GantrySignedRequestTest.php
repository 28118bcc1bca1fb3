<?php

use PHPUnit\Framework\TestCase;

final class GantrySignedRequestTest extends TestCase {

  public function testTheVectorsThatTheGoClientSharesAreSignedAlike() {
    foreach ($this->readVectors() as $vector) {
      $request = $this->newRequest($vector);
      $key = new PhutilOpaqueEnvelope($vector['secret']);

      $this->assertSame(
        $vector['canonical'],
        $request->getCanonicalString(),
        $vector['name']);
      $this->assertTrue($request->isSignedWith($key), $vector['name']);
    }
  }

  public function testWhateverIsChangedTheSignatureNoLongerHolds() {
    $vector = $this->readVectors()[1];
    $changes = array(
      'method' => 'worker.capabilities',
      'namespace' => 'phorge',
      'keyID' => '2026-10',
      'timestamp' => $vector['timestamp'] + 1,
      'nonce' => strrev($vector['nonce']),
      'body' => $vector['body'].' ',
      'signature' => strrev($vector['signature']),
    );

    $key = new PhutilOpaqueEnvelope($vector['secret']);
    foreach ($changes as $field => $value) {
      $request = $this->newRequest(array($field => $value) + $vector);
      $this->assertFalse($request->isSignedWith($key), $field);
    }

    $other_key = new PhutilOpaqueEnvelope($vector['secret'].'x');
    $this->assertFalse($this->newRequest($vector)->isSignedWith($other_key));
  }

  public function testParametersOfAnotherTypeAreNoCredential() {
    $malformed = array(
      'body' => array(null, 1, array('{}'), true),
      'keyID' => array(null, '', 7, array('a'), 'a b', "a\n",
        str_repeat('a', 65)),
      'timestamp' => array(null, '13', 13.0, -1, 4294967296, true),
      'nonce' => array(null, '', 'FF', str_repeat('F', 32), str_repeat('f', 31),
        str_repeat('f', 32)."\n", array()),
      'signature' => array(null, true, '', str_repeat('A', 64),
        str_repeat('a', 65)),
    );

    $vector = $this->readVectors()[1];
    foreach ($malformed as $field => $values) {
      foreach ($values as $value) {
        $this->assertRefused(
          GantryRefusalException::CODE_CREDENTIAL,
          array($field => $value) + $vector);
      }

      $without = $vector;
      unset($without[$field]);
      $this->assertRefused(GantryRefusalException::CODE_CREDENTIAL, $without);
    }
  }

  public function testABodyThatIsTooLargeIsRefusedBeforeAnythingElse() {
    $limit = GantrySignedRequest::MAXIMUM_BODY_BYTES;
    $this->assertRefused(
      GantryRefusalException::CODE_TOO_LARGE,
      array(
        'method' => 'm',
        'namespace' => 'n',
        'body' => str_repeat('x', $limit + 1),
      ));

    $vector = $this->readVectors()[1];
    $vector['body'] = str_repeat('x', $limit);
    $this->assertSame($limit, strlen($this->newRequest($vector)->getBody()));
  }

  private function assertRefused($code, array $vector) {
    try {
      $this->newRequest($vector);
    } catch (GantryRefusalException $ex) {
      $this->assertSame($code, $ex->getRefusalCode());
      return;
    }
    $this->fail(json_encode($vector));
  }

  private function newRequest(array $vector) {
    return GantrySignedRequest::newFromParameters(
      $vector['method'],
      $vector['namespace'],
      array_intersect_key(
        $vector,
        array_flip(
          array('keyID', 'timestamp', 'nonce', 'body', 'signature'))));
  }

  private function readVectors() {
    return json_decode(
      file_get_contents(dirname(__DIR__).'/vectors.json'),
      true);
  }

}
