<?php

/**
 * The signed parameters of a call. What is signed is the text of the body, not
 * the bytes on the wire: those have already been decoded when a method sees
 * them, and proxies may change them. Only the body is then acted upon.
 */
final class GantrySignedRequest extends Phobject {

  const MAXIMUM_BODY_BYTES = 65536;

  private $method;
  private $namespace;
  private $keyID;
  private $timestamp;
  private $nonce;
  private $body;
  private $signature;

  private function __construct() {}

  /**
   * Throws @{class:GantryRefusalException} when the parameters can not be those
   * of a signed call.
   */
  public static function newFromParameters(
    $method,
    $namespace,
    array $parameters) {

    $request = new self();
    $request->method = $method;
    $request->namespace = $namespace;

    $body = idx($parameters, 'body');
    if (is_string($body) && strlen($body) > self::MAXIMUM_BODY_BYTES) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_TOO_LARGE,
        pht('the body has %d bytes', strlen($body)));
    }
    self::requireThat('body', is_string($body));
    $request->body = $body;

    $key_id = idx($parameters, 'keyID');
    self::requireThat('keyID', self::isKeyID($key_id));
    $request->keyID = $key_id;

    // Seconds that fit the columns of Phorge. This also keeps the arithmetic
    // of the database from overflowing.
    $timestamp = idx($parameters, 'timestamp');
    self::requireThat(
      'timestamp',
      is_int($timestamp) && $timestamp >= 0 && $timestamp <= 0xFFFFFFFF);
    $request->timestamp = $timestamp;

    $nonce = idx($parameters, 'nonce');
    self::requireThat('nonce', self::isHex($nonce, 32));
    $request->nonce = $nonce;

    $signature = idx($parameters, 'signature');
    self::requireThat('signature', self::isHex($signature, 64));
    $request->signature = $signature;

    return $request;
  }

  private static function requireThat($name, $condition) {
    if (!$condition) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_CREDENTIAL,
        pht('parameter "%s" is missing or malformed', $name));
    }
  }

  private static function isHex($value, $length) {
    return is_string($value)
        && preg_match('/^[0-9a-f]{'.$length.'}\z/', $value);
  }

  public static function isKeyID($value) {
    return is_string($value)
        && preg_match('/^[A-Za-z0-9._-]{1,64}\z/', $value);
  }

  public function getKeyID() {
    return $this->keyID;
  }

  public function getTimestamp() {
    return $this->timestamp;
  }

  public function getNonce() {
    return $this->nonce;
  }

  public function getBody() {
    return $this->body;
  }

  /**
   * The namespace ties the signature to one install. The host is not part of
   * it, because a gateway may rewrite it.
   */
  public function getCanonicalString() {
    return implode(
      "\n",
      array(
        'gantry-1',
        $this->method,
        $this->namespace,
        $this->keyID,
        $this->timestamp,
        $this->nonce,
        hash('sha256', $this->body),
      ));
  }

  public function isSignedWith(PhutilOpaqueEnvelope $key) {
    $expect = hash_hmac(
      'sha256',
      $this->getCanonicalString(),
      $key->openEnvelope());
    return phutil_hashes_are_identical($expect, $this->signature);
  }

}
