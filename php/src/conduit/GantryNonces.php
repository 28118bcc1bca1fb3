<?php

/**
 * Remembers the calls that were made, so that none is made twice.
 */
final class GantryNonces extends Phobject {

  /**
   * How far, in seconds, the timestamp of a call may be from the clock of the
   * database, in both directions.
   */
  const WINDOW = 60;

  /**
   * A timestamp from the future stays valid for twice the window.
   */
  const RETENTION = 300;

  private $database;

  public function __construct(GantryDatabase $database) {
    $this->database = $database;
  }

  /**
   * Remember the nonce of a call whose signature is verified. Throws
   * @{class:GantryRefusalException} when it was used before, or the timestamp
   * is out of the window.
   */
  public function spend(GantrySignedRequest $request) {
    $conn = $this->database->getConnection();

    list($spent) = $this->database->takeProcessLock(
      array(
        qsprintf(
          $conn,
          'INSERT INTO %R (keyID, nonce, epoch)
            SELECT %s, %s, UNIX_TIMESTAMP() FROM DUAL
            WHERE ABS(CAST(UNIX_TIMESTAMP() AS SIGNED) - %d) <= %d',
          GantryDatabase::getTable('nonces'),
          $request->getKeyID(),
          $request->getNonce(),
          $request->getTimestamp(),
          self::WINDOW),
      ));

    if ($spent instanceof AphrontDuplicateKeyQueryException) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_CREDENTIAL,
        pht('the nonce was used before'));
    }
    if ($spent instanceof Exception) {
      throw $spent;
    }

    if (!$spent) {
      throw new GantryRefusalException(
        GantryRefusalException::CODE_CREDENTIAL,
        pht(
          'the timestamp is more than %d seconds from the clock of the '.
          'database',
          self::WINDOW));
    }
  }

  public function collectGarbage($limit) {
    queryfx(
      $this->database->getConnection(),
      'DELETE FROM %R WHERE epoch < UNIX_TIMESTAMP() - %d
        ORDER BY epoch LIMIT %d',
      GantryDatabase::getTable('nonces'),
      self::RETENTION,
      $limit);
  }

}
