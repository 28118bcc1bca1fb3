<?php

/**
 * Makes `bin/storage upgrade` create the database "<namespace>_gantry". The
 * same SQL files are built into the `gantry` binary, so each statement in them
 * must do nothing when it is applied a second time.
 */
final class GantryPatchList extends PhabricatorSQLPatchList {

  public function getNamespace() {
    return 'gantry';
  }

  public function getPatches() {
    $root = dirname(phutil_get_library_root('gantry'));

    return array(
      'db.gantry' => array(
        'type' => 'db',
        'name' => 'gantry',
        'after' => array(),
      ),
    ) + $this->buildPatchesFromDirectory($root.'/resources/sql/');
  }

}
