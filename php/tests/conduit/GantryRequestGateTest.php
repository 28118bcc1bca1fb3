<?php

use PHPUnit\Framework\TestCase;

final class GantryRequestGateTest extends TestCase {

  /**
   * @dataProvider provideRequests
   */
  public function testTheGate($code, array $server, array $allowed = array()) {
    $gate = new GantryRequestGate(
      $server + array(
        'REQUEST_METHOD' => 'POST',
        'REMOTE_ADDR' => '127.0.0.1',
      ),
      $allowed);

    try {
      $gate->checkRequest();
      $refused = null;
    } catch (GantryRefusalException $ex) {
      $refused = $ex->getRefusalCode();
    }
    $this->assertSame($code, $refused);
  }

  public function provideRequests() {
    $method = GantryRefusalException::CODE_METHOD;
    $tls = GantryRefusalException::CODE_TLS;
    $address = GantryRefusalException::CODE_ADDRESS;
    $far = array('REMOTE_ADDR' => '203.0.113.7');
    $far_tls = $far + array('HTTPS' => 'on');

    return array(
      'POST from this host passes' => array(null, array()),
      'POST from this host by IPv6 passes' => array(
        null,
        array('REMOTE_ADDR' => '::1'),
      ),
      'GET is refused' => array($method, array('REQUEST_METHOD' => 'GET')),
      'HEAD is refused' => array($method, array('REQUEST_METHOD' => 'HEAD')),
      'the spelling of POST counts' => array(
        $method,
        array('REQUEST_METHOD' => 'post'),
      ),
      'another host needs TLS' => array($tls, $far),
      'TLS that is "off" is none' => array(
        $tls,
        $far + array('HTTPS' => 'off'),
      ),
      'another host with TLS passes' => array(null, $far_tls),
      'a proxy on this host is another host' => array(
        $tls,
        array('HTTP_X_FORWARDED_FOR' => '127.0.0.1'),
      ),
      'so is one with the standard header' => array(
        $tls,
        array('HTTP_FORWARDED' => 'for=127.0.0.1'),
      ),
      'an address that only begins like this host' => array(
        $tls,
        array('REMOTE_ADDR' => '127.0.0.1.example.com'),
      ),
      'no address' => array($tls, array('REMOTE_ADDR' => '')),
      'an address in a block' => array(
        null,
        $far_tls,
        array('10.0.0.0/8', '203.0.113.0/24'),
      ),
      'an address in no block' => array(
        $address,
        $far_tls,
        array('10.0.0.0/8'),
      ),
      'this host is in no block' => array(
        $address,
        array(),
        array('10.0.0.0/8'),
      ),
      'a block that is none lets nobody in' => array(
        $address,
        $far_tls,
        array('everybody'),
      ),
      'no address is in no block' => array(
        $address,
        array('REMOTE_ADDR' => 'unix:', 'HTTPS' => 'on'),
        array('0.0.0.0/0'),
      ),
    );
  }

  public function testEveryCodeIsExplained() {
    $class = new ReflectionClass(GantryRefusalException::class);
    $codes = array_values($class->getConstants());
    $this->assertEqualsCanonicalizing(
      $codes,
      array_keys(GantryRefusalException::getCodeDescriptions()));
  }

}
