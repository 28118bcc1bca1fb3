<?php

/**
 * A method that the `gantry` binary calls. It authenticates its callers itself,
 * by a signature, because Conduit knows users only: a stolen API token must not
 * be able to run tasks, and a call must not work twice.
 */
abstract class GantryConduitAPIMethod extends ConduitAPIMethod {

  const PROTOCOL = 1;

  /**
   * @param array $body Decoded body of a call whose signature is verified.
   * @return array Result.
   */
  abstract protected function executeSigned(
    array $body,
    GantryDatabase $database,
    GantryKeyring $keyring);

  final public function shouldRequireAuthentication() {
    return false;
  }

  final public function shouldAllowUnguardedWrites() {
    return true;
  }

  final protected function defineParamTypes() {
    return array(
      'keyID' => 'required string',
      'timestamp' => 'required epoch',
      'nonce' => 'required string',
      'body' => 'required string',
      'signature' => 'required string',
    );
  }

  final protected function defineErrorTypes() {
    return GantryRefusalException::getCodeDescriptions();
  }

  final protected function execute(ConduitAPIRequest $request) {
    $gate = new GantryRequestGate(
      $_SERVER,
      $this->getListOption('gantry.allowed-addresses'));

    try {
      return $this->executeGuarded($gate, $request);
    } catch (GantryRefusalException $ex) {
      throw $this->newConduitException($gate, $ex);
    }
  }

  /**
   * A list that somebody edited into the configuration by hand can be a string.
   */
  final protected function getListOption($key) {
    return (array)PhabricatorEnv::getEnvConfig($key);
  }

  private function executeGuarded(
    GantryRequestGate $gate,
    ConduitAPIRequest $request) {

    $gate->checkRequest();

    $signed = GantrySignedRequest::newFromParameters(
      $this->getAPIMethodName(),
      PhabricatorLiskDAO::getDefaultStorageNamespace(),
      $request->getAllParameters());

    // Without a database that can be written to, nothing can be remembered.
    if (PhabricatorEnv::isReadOnly()) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_READ_ONLY,
        pht('this server is in read-only mode'));
    }

    try {
      $keyring = GantryKeyring::newFromConfig();
      $database = new GantryDatabase();
      $this->verifyCredential($signed, $keyring, $database);
    } catch (GantrySetupException $ex) {
      throw $this->newSetupRefusal($ex);
    } catch (AphrontSchemaQueryException $ex) {
      throw $this->newSetupRefusal($ex);
    } catch (AphrontAccessDeniedQueryException $ex) {
      throw $this->newSetupRefusal($ex);
    }

    $body = json_decode($signed->getBody(), true);
    if (!is_array($body)) {
      throw $this->newRequestRefusal(
        pht('The body is not a JSON object.'));
    }

    return $this->executeSigned($body, $database, $keyring);
  }

  private function verifyCredential(
    GantrySignedRequest $signed,
    GantryKeyring $keyring,
    GantryDatabase $database) {

    $key = $keyring->getKey($signed->getKeyID());
    if (!$key) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_CREDENTIAL,
        pht('there is no key "%s"', $signed->getKeyID()));
    }

    if (!$signed->isSignedWith($key)) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_CREDENTIAL,
        pht('the signature is not that of key "%s"', $signed->getKeyID()));
    }

    // Before this, strangers could fill the table.
    id(new GantryNonces($database))->spend($signed);
  }

  private function newSetupRefusal(Exception $ex) {
    return new GantryRefusalException(
      GantryRefusalException::CODE_SETUP,
      $ex->getMessage());
  }

  /**
   * @param string $reason What is wrong, told to a caller that is known.
   */
  final protected function newRequestRefusal($reason) {
    return new GantryRefusalException(
      GantryRefusalException::CODE_REQUEST,
      $reason);
  }


/* -(  Refusals  )----------------------------------------------------------- */


  private function newConduitException(
    GantryRequestGate $gate,
    GantryRefusalException $refusal) {

    $code = $refusal->getRefusalCode();
    if ($code === GantryRefusalException::CODE_REQUEST) {
      return id(new ConduitException($code))
        ->setErrorDescription($refusal->getMessage());
    }

    if (PhabricatorEnv::isReadOnly()) {
      // Refusals can not be counted now, so they are not logged either.
      return new ConduitException($code);
    }

    try {
      // What carries a valid signature is never refused for the rate, so
      // strangers behind the same proxy can not lock Gantry out.
      PhabricatorSystemActionEngine::willTakeAction(
        array($gate->getAddress()),
        new GantryRefusalAction(),
        1);
    } catch (PhabricatorSystemActionRateLimitException $ex) {
      return new ConduitException(GantryRefusalException::CODE_RATE);
    }

    phlog(
      pht(
        'Refused a call of "%s" from address "%s" with %s: %s',
        $this->getAPIMethodName(),
        $gate->getAddress(),
        $code,
        $refusal->getMessage()));

    return new ConduitException($code);
  }

}
