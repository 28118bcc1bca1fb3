<?php

/**
 * What is asked of every call before anybody looks at its signature.
 */
final class GantryRequestGate extends Phobject {

  private $server;
  private $allowedAddresses;

  /**
   * @param array<string, string> $server The values of `$_SERVER`.
   * @param list<string> $allowed_addresses Blocks of addresses; none means all.
   */
  public function __construct(array $server, array $allowed_addresses) {
    $this->server = $server;
    $this->allowedAddresses = $allowed_addresses;
  }

  public function getAddress() {
    return (string)idx($this->server, 'REMOTE_ADDR', '');
  }

  /**
   * Throws @{class:GantryRefusalException}.
   */
  public function checkRequest() {
    $method = idx($this->server, 'REQUEST_METHOD');
    if ($method !== 'POST') {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_METHOD,
        pht('the request method is not POST'));
    }

    if (!$this->isEncrypted() && !$this->isFromThisHost()) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_TLS,
        pht('the call comes from another host and without TLS'));
    }

    $allowed = $this->allowedAddresses;
    if ($allowed && !$this->isAddressIn($allowed)) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_ADDRESS,
        pht('the address is not in "gantry.allowed-addresses"'));
    }
  }

  /**
   * As @{method:AphrontRequest::isHTTPS}.
   */
  private function isEncrypted() {
    $https = idx($this->server, 'HTTPS');
    return $https && strcasecmp($https, 'off');
  }

  private function isFromThisHost() {
    // Behind a proxy on this host, every call seems to come from here.
    if (isset($this->server['HTTP_X_FORWARDED_FOR']) ||
        isset($this->server['HTTP_FORWARDED'])) {
      return false;
    }

    return $this->isAddressIn(array('127.0.0.0/8', '::1/128'));
  }

  private function isAddressIn(array $blocks) {
    try {
      return PhutilCIDRList::newList($blocks)
        ->containsAddress($this->getAddress());
    } catch (Exception $ex) {
      // The address is no address, or a block is none.
      return false;
    }
  }

}
