package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// textCollation is PhabricatorStorageManagementAPI::COLLATE_TEXT of
// getCharsetInfo.
const textCollation = "utf8mb4_bin"

// endOfStatement is where PhabricatorStorageManagementAPI::applyPatchSQL
// splits a file.
var endOfStatement = regexp.MustCompile(`;(?:\s+|$)`)

// UpgradeStorage creates what is missing of <namespace>_gantry, on the server of
// the worker database that dsn names, and answers what it created: databases and
// tables, by their names. files holds resources/sql/*.sql of the PHP library.
//
// `bin/storage upgrade` applies the same files once the library is installed.
// Each statement does nothing when it is applied again, so the order of the two
// is no matter, and Phorge's record of applied patches is left to Phorge.
func UpgradeStorage(ctx context.Context, dsn string, files fs.FS) (created []string, err error) {
	cfg, err := configure(dsn)
	if err != nil {
		return nil, err
	}
	namespace, _ := strings.CutSuffix(cfg.DBName, workerSuffix)
	g := newGantry(cfg.DBName, time.Now)
	if g.database == "" {
		return nil, fmt.Errorf("upgrade the storage: the DSN names the database %q; it has to be the worker database, <namespace>%s", cfg.DBName, workerSuffix)
	}
	statements, err := readStatements(files, namespace)
	if err != nil {
		return nil, fmt.Errorf("upgrade the storage: %w", err)
	}
	server, err := inspectServer(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("upgrade the storage: %w", err)
	}
	db, err := server.open(cfg)
	if err != nil {
		return nil, fmt.Errorf("upgrade the storage: %w", err)
	}
	defer db.Close()
	before, err := tablesOf(ctx, db, g.database)
	if err == nil {
		err = g.create(ctx, db, statements)
	}
	if err == nil {
		err = g.check(ctx, db)
	}
	after, lookErr := tablesOf(ctx, db, g.database)
	if err == nil {
		err = lookErr
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			created = append(created, name)
		}
	}
	if err != nil {
		return created, fmt.Errorf("upgrade the storage: %w", server.explainUpgrade(g.database, err))
	}
	return created, nil
}

// createdTable is the name in a statement that creates a table of the library.
var createdTable = regexp.MustCompile(`(?i)^\s*CREATE TABLE IF NOT EXISTS ([\w.]+)`)

// MissingStorage answers what UpgradeStorage would create: the tables of files
// that are not in <namespace>_gantry, or that this user has no right to. All are
// missing when the worker database does not tell the namespace.
func (s *Store) MissingStorage(ctx context.Context, files fs.FS) (missing []string, err error) {
	namespace, _ := strings.CutSuffix(s.gantry.database, gantrySuffix)
	statements, err := readStatements(files, namespace)
	if err != nil {
		return nil, err
	}
	there, err := tablesOf(ctx, s.db, s.gantry.database)
	if err != nil {
		return nil, fmt.Errorf("look at the tables of %s: %w", s.gantry.database, s.server.explain(err))
	}
	for _, statement := range statements {
		if name := createdTable.FindStringSubmatch(statement); name != nil && !slices.Contains(there, name[1]) {
			missing = append(missing, name[1])
		}
	}
	return missing, nil
}

func (g *gantry) create(ctx context.Context, db *sql.DB, statements []string) error {
	// As PhabricatorStorageManagementAPI::createDatabase.
	create := fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s COLLATE %s", quoted(g.database), textCollation)
	for _, statement := range append([]string{create}, statements...) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// explainUpgrade says who may create databases, when this user may not.
func (i *serverInfo) explainUpgrade(database string, err error) error {
	var refusal *mysql.MySQLError
	if errors.As(err, &refusal) && (refusal.Number == 1044 || refusal.Number == 1142) {
		return fmt.Errorf("%s: this user may not create the database %s; grant it the rights that Phorge's own user has, or run `bin/storage upgrade` of Phorge with the library installed: %w", i.place, database, err)
	}
	return i.explain(err)
}

const tablesSQL = `SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?
UNION ALL SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? ORDER BY 1`

func tablesOf(ctx context.Context, db *sql.DB, database string) (all []string, err error) {
	rows, err := db.QueryContext(ctx, tablesSQL, database, database)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

// readStatements answers the statements of the files, in the order of their
// names, with the placeholders of PhabricatorStorageManagementAPI filled in.
func readStatements(files fs.FS, namespace string) (statements []string, err error) {
	found, err := fs.Glob(files, "resources/sql/*.sql")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("there are no files resources/sql/*.sql")
	}
	fill := strings.NewReplacer(
		"{$NAMESPACE}", namespace,
		"{$CHARSET}", "utf8mb4", "{$CHARSET_SORT}", "utf8mb4", "{$CHARSET_FULLTEXT}", "utf8mb4",
		"{$COLLATE_TEXT}", textCollation,
		"{$COLLATE_SORT}", "utf8mb4_unicode_ci", "{$COLLATE_FULLTEXT}", "utf8mb4_unicode_ci",
	)
	for _, name := range found {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		for _, statement := range endOfStatement.Split(string(content), -1) {
			if strings.TrimSpace(statement) != "" {
				statements = append(statements, fill.Replace(statement))
			}
		}
	}
	return statements, nil
}
