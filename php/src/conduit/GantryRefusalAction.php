<?php

/**
 * Counts refused calls by address, so that a stranger can not fill the log.
 */
final class GantryRefusalAction extends PhabricatorSystemAction {

  const TYPECONST = 'gantry.refusal';

  public function getScoreThreshold() {
    return 60 / phutil_units('1 hour in seconds');
  }

  public function getLimitExplanation() {
    return pht('Too many calls from this address have been refused.');
  }

}
