<?php

final class GantryCapabilitiesConduitAPIMethod extends GantryConduitAPIMethod {

  public function getAPIMethodName() {
    return 'worker.capabilities';
  }

  public function getMethodDescription() {
    return pht(
      'What `worker.execute` can do on this host. The call carries a '.
      'signature, and the JSON object `{}` as `body`.');
  }

  protected function defineReturnType() {
    return 'map<string, wild>';
  }

  protected function executeSigned(
    array $body,
    GantryDatabase $database,
    GantryKeyring $keyring) {

    $clock = queryfx_one(
      $database->getConnection(),
      'SELECT UNIX_TIMESTAMP() epoch');

    return array(
      'protocol' => self::PROTOCOL,
      'namespace' => PhabricatorLiskDAO::getDefaultStorageNamespace(),
      'taskClasses' => $this->getListOption('gantry.task-classes'),
      'publishers' => GantryTaskEngine::loadWorkers('DoorkeeperFeedWorker'),
      'keyIDs' => $keyring->getKeyIDs(),
      'phorge' => GantryPhorgeVersion::getVersion(),
      'php' => phpversion(),
      'databaseTime' => (int)$clock['epoch'],
      'maxTasks' => GantryTaskBatch::MAXIMUM_TASKS,
      'maxBody' => GantrySignedRequest::MAXIMUM_BODY_BYTES,
    );
  }

}
