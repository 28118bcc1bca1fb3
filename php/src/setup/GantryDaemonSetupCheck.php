<?php

/**
 * Looks at who drains the queue. Gantry is a taskmaster in the log of daemons,
 * so Phorge itself notices when it has stopped, but takes an hour to notice
 * when it died.
 */
final class GantryDaemonSetupCheck extends GantrySetupCheck {

  const SILENCE = 360;

  /**
   * Of a host, the Gantry that was started last counts.
   */
  protected function executeChecks() {
    try {
      $daemons = $this->loadTaskmasters();
    } catch (AphrontQueryException $ex) {
      // Phorge itself says that a database can not be reached.
      return;
    }

    $seen = array();
    $silent = array();
    $beating = array();
    $stock = array();
    foreach ($daemons as $daemon) {
      $host = $daemon['host'];
      if (!$daemon['isGantry']) {
        if ($daemon['isHeard']) {
          $stock[$host] = $host;
        }
      } else if (empty($seen[$host])) {
        $seen[$host] = true;
        if ($daemon['isHeard']) {
          $beating[] = $host;
        } else if ($daemon['status'] !== PhabricatorDaemonLog::STATUS_EXITED) {
          $silent[] = $host;
        }
      }
    }

    if ($silent) {
      $this->raiseSilentIssue($silent);
    }
    if ($beating && $stock) {
      $this->raiseTaskmasterIssue($stock);
    }
  }

  /**
   * The status is "unknown" or "dead" once the console has seen that a daemon
   * is silent, and writing that down makes the row look fresh.
   *
   * @return list<map<string, wild>> The newest first.
   */
  private function loadTaskmasters() {
    $table = new PhabricatorDaemonLog();

    return queryfx_all(
      $table->establishConnection('r'),
      'SELECT host, status, daemonID LIKE %> isGantry,
          status IN (%Ls) AND dateModified >= UNIX_TIMESTAMP() - %d isHeard
        FROM %R
        WHERE daemon = %s
        ORDER BY id DESC LIMIT 1000',
      'gantry:',
      array(
        PhabricatorDaemonLog::STATUS_RUNNING,
        PhabricatorDaemonLog::STATUS_WAIT,
        PhabricatorDaemonLog::STATUS_EXITING,
      ),
      self::SILENCE,
      $table,
      'PhabricatorTaskmasterDaemon');
  }

  private function raiseSilentIssue(array $hosts) {
    $this->newGantryIssue(
      'heartbeat',
      pht('Gantry Is Silent'),
      pht(
        'Gantry has said nothing for more than %d seconds on: %s. It was not '.
        'stopped, so it died there, or it does not reach the database. The '.
        'queue may not be drained.',
        self::SILENCE,
        implode(', ', $hosts)),
      array(
        'gantry run --phorge '.
          csprintf('%s', dirname(phutil_get_library_root('phabricator'))),
      ));
  }

  private function raiseTaskmasterIssue(array $hosts) {
    $this->newGantryIssue(
      'taskmasters',
      pht('Taskmasters Are Running Beside Gantry'),
      pht(
        'Gantry drains the queue, and so do taskmasters of Phorge on: %s. No '.
        'task is run twice, but taskmasters run what was meant for Gantry, '.
        'and fail the tasks of classes that only Gantry knows. If that is '.
        'not what you want, run no taskmasters. The other daemons must go on.',
        implode(', ', $hosts)),
      array(
        './bin/config set phd.taskmasters 0',
        './bin/phd stop',
        './bin/phd start --keep-leases',
      ))
      ->addPhabricatorConfig('phd.taskmasters');
  }

}
