<?php

final class GantryPhorgeVersion extends Phobject {

  /**
   * @return string Hash of the commit that is checked out, as far as Phorge can
   *   tell; empty where Phorge is not run from a checkout.
   */
  public static function getVersion() {
    $versions = PhutilErrorHandler::getLibraryVersions();
    $phorge = idx($versions, 'phorge', idx($versions, 'phabricator', array()));
    $head = idx($phorge, 'head', '');
    return idx($phorge, 'ref.'.$head, $head);
  }

}
