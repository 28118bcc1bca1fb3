<?php

final class GantryStorageSetupCheck extends GantrySetupCheck {

  protected function executeChecks() {
    try {
      $this->checkMasters();
      $this->checkTables();
    } catch (AphrontQueryException $ex) {
      // Phorge itself says that a database can not be reached.
    } catch (GantrySetupException $ex) {
      // The same: no master is configured.
    }
  }

  private function checkMasters() {
    $keys = array();
    foreach (array('worker', 'gantry') as $application) {
      $ref = PhabricatorDatabaseRef::getMasterDatabaseRefForApplication(
        $application);
      $keys[$application] = $ref ? $ref->getRefKey() : null;
    }

    if ($keys['worker'] === $keys['gantry']) {
      return;
    }

    $this->newGantryIssue(
      'masters',
      pht('Gantry Database Is Not With the Worker Database'),
      pht(
        'According to "cluster.databases", the master of the "worker" '.
        'database is "%s" and that of the "gantry" database is "%s". A task '.
        'and what Gantry notes about it are written in one transaction, so '.
        'both must have the same master. List "gantry" in the "partition" '.
        'that lists "worker", or list neither.',
        $keys['worker'],
        $keys['gantry']),
      array(
        './bin/config set --stdin cluster.databases < databases.json',
        './bin/storage partition',
        './bin/storage upgrade',
      ))
      ->addPhabricatorConfig('cluster.databases');
  }

  private function checkTables() {
    $database = GantryDatabase::getDatabaseName('gantry');
    $conn = id(new GantryDatabase())->getConnection();

    try {
      $rows = queryfx_all($conn, 'SHOW TABLES FROM %T', $database);
    } catch (AphrontSchemaQueryException $ex) {
      $rows = array();
    } catch (AphrontAccessDeniedQueryException $ex) {
      $this->raiseAccessIssue($conn, $database);
      return;
    }

    $missing = array_diff(
      GantrySchemaSpec::getTableNames(),
      array_map('head', $rows));
    if (!$missing) {
      return;
    }

    $this->newGantryIssue(
      'storage',
      pht('Gantry Database Is Incomplete'),
      pht(
        'The database "%s", on the master of the worker database, has no '.
        'tables: %s. "worker.execute" does not work without them, and no '.
        'failed attempts are recorded.',
        $database,
        implode(', ', $missing)),
      array(
        './bin/storage upgrade',
        'gantry storage upgrade',
      ));
  }

  private function raiseAccessIssue(
    AphrontDatabaseConnection $conn,
    $database) {

    $user = queryfx_one($conn, 'SELECT CURRENT_USER() user');
    list($name, $host) = explode('@', $user['user'], 2);

    $this->newGantryIssue(
      'access',
      pht('Gantry Database Is Not Accessible'),
      pht(
        'The MySQL user "%s" of this Phorge has no access to the database '.
        '"%s". Grant it the rights that it has on the other databases of '.
        'Phorge.',
        $user['user'],
        $database),
      array(
        'mysql -u root -p -e '.
          csprintf(
            '%s',
            "GRANT ALL ON `{$database}`.* TO '{$name}'@'{$host}'"),
        './bin/storage upgrade',
      ));
  }

}
