// Package php holds the extension library for Phorge as the gantry binary
// carries it: a scratch Phorge gets all of it, a site's database the tables.
package php

import "embed"

// Library holds src, bin and resources, each file under its path here.
//
// The files resources/sql/*.sql make the tables of <namespace>_gantry. They are
// to be applied in the order of their names, each by statement (they end with
// ";" and a newline), after
//
//	CREATE DATABASE IF NOT EXISTS <namespace>_gantry COLLATE utf8mb4_bin
//
// {$NAMESPACE} stands for storage.default-namespace, {$COLLATE_TEXT} for
// utf8mb4_bin: the placeholders of PhabricatorStorageManagementAPI. Applying a
// file again changes nothing. Phorge records what it applied in
// <namespace>_meta_data.patch_status, as "gantry:db.gantry" for the database and
// "gantry:<file name>" for a file.
//
//go:embed bin resources src src/__phutil_library_init__.php src/__phutil_library_map__.php
var Library embed.FS
