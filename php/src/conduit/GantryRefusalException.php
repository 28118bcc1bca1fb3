<?php

/**
 * A call that Gantry does not serve. What the caller is told is the code; the
 * reason is for the log of this host, unless a signature has shown who calls.
 */
final class GantryRefusalException extends Exception {

  const CODE_METHOD = 'ERR-GANTRY-METHOD';
  const CODE_READ_ONLY = 'ERR-GANTRY-READ-ONLY';
  const CODE_TLS = 'ERR-GANTRY-TLS';
  const CODE_ADDRESS = 'ERR-GANTRY-ADDRESS';
  const CODE_TOO_LARGE = 'ERR-GANTRY-TOO-LARGE';
  const CODE_SETUP = 'ERR-GANTRY-SETUP';
  const CODE_CREDENTIAL = 'ERR-GANTRY-CREDENTIAL';
  const CODE_RATE = 'ERR-GANTRY-RATE';
  const CODE_REQUEST = 'ERR-GANTRY-REQUEST';

  private $refusalCode;

  public function __construct($code, $reason) {
    parent::__construct($reason);
    $this->refusalCode = $code;
  }

  public function getRefusalCode() {
    return $this->refusalCode;
  }

  public static function getCodeDescriptions() {
    return array(
      self::CODE_METHOD => pht('Call this method with POST.'),
      self::CODE_READ_ONLY => pht('This server is in read-only mode.'),
      self::CODE_TLS => pht(
        'Call this method over TLS, or from the same host.'),
      self::CODE_ADDRESS => pht(
        'This method can not be called from your address.'),
      self::CODE_TOO_LARGE => pht(
        'The parameter "body" is larger than %d bytes.',
        GantrySignedRequest::MAXIMUM_BODY_BYTES),
      self::CODE_SETUP => pht(
        'Gantry is not set up on this host. The setup issues of this server, '.
        'and the error log of its web server, say what is missing.'),
      self::CODE_CREDENTIAL => pht(
        'The call carries no valid signature. The error log of the web '.
        'server says why.'),
      self::CODE_RATE => pht(
        'Too many calls from your address have been refused.'),
      self::CODE_REQUEST => pht('The body does not say what to do.'),
    );
  }

}
