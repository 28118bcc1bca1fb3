// Package php holds what the extension library has that the gantry binary
// needs too: the SQL that creates the tables of <namespace>_gantry.
package php

import "embed"

// SQL holds the files resources/sql/*.sql, to be applied in the order of their
// names, each by statement (they end with ";" and a newline), after
//
//	CREATE DATABASE IF NOT EXISTS <namespace>_gantry COLLATE utf8mb4_bin
//
// {$NAMESPACE} stands for storage.default-namespace, {$COLLATE_TEXT} for
// utf8mb4_bin: the placeholders of PhabricatorStorageManagementAPI. Applying a
// file again changes nothing. Phorge records what it applied in
// <namespace>_meta_data.patch_status, as "gantry:db.gantry" for the database and
// "gantry:<file name>" for a file.
//
//go:embed resources/sql/*.sql
var SQL embed.FS
