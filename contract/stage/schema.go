package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
)

// queueTables are in every schema: those of the queue, and the one in which
// Phorge keeps options that were set in the browser.
var queueTables = []string{
	"config.config_entry",
	activeTable, "worker.worker_archivetask", dataTable, countTable,
}

const schemaHead = `-- Recorded by ` + "`gantry contract record`" + ` from a live Phorge: the tables that the
-- cases of this folder need, named database.table without the namespace.
`

var counterPattern = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// Schema answers the definitions of tables, and of those that every case needs,
// as Prepare takes them. Tables are named database.table, without the
// namespace.
func (s *Stage) Schema(ctx context.Context, tables []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	for _, name := range slices.Concat(queueTables, tables) {
		names[name] = true
	}
	defined := map[string]string{}
	for name := range names {
		if s.tables[name] == nil {
			return "", fmt.Errorf("record the schema: there is no table %s in the namespace", name)
		}
		var table, definition string
		if err := s.db.QueryRowContext(ctx, "SHOW CREATE TABLE "+s.names.Quoted(name)).Scan(&table, &definition); err != nil {
			return "", fmt.Errorf("record the schema: %s: %w", name, err)
		}
		_, columns, ok := strings.Cut(definition, "(")
		if !ok {
			return "", fmt.Errorf("record the schema: %s is no table", name)
		}
		defined[name] = counterPattern.ReplaceAllString(columns, "") + ";"
	}
	return schemaOf(defined), nil
}

// schemaOf writes a schema of what definitions answers.
func schemaOf(defined map[string]string) string {
	var b strings.Builder
	b.WriteString(schemaHead)
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		fmt.Fprintf(&b, "\nCREATE TABLE %s (%s\n", name, defined[name])
	}
	return b.String()
}

var createPattern = regexp.MustCompile(`(?m)^CREATE TABLE ([a-z0-9_]+\.[a-z0-9_]+) \(`)

// definitions answers of a schema what stands behind CREATE TABLE database.table (.
func definitions(schema string) map[string]string {
	defined := map[string]string{}
	starts := createPattern.FindAllStringSubmatchIndex(schema, -1)
	for i, start := range starts {
		end := len(schema)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		definition, _, _ := strings.Cut(schema[start[1]:end]+"\n", ";\n")
		defined[schema[start[2]:start[3]]] = definition + ";"
	}
	return defined
}

// keepTables answers the schema that is to be recorded where one was already: its
// tables, and those that it lacks as they are now. What it says else than what is
// now, it goes on saying.
func keepTables(was, now string) (string, []contract.Difference) {
	recorded, found := definitions(was), definitions(now)
	var differences []contract.Difference
	for _, name := range slices.Sorted(maps.Keys(found)) {
		definition, known := recorded[name]
		switch {
		case !known:
			recorded[name] = found[name]
		case definition != found[name]:
			differences = append(differences, contract.Difference{Field: name, Want: new(definition), Got: new(found[name])})
		}
	}
	if len(recorded) == len(definitions(was)) {
		return was, differences
	}
	return schemaOf(recorded), differences
}

// Prepare makes the databases and tables of a recorded schema in the namespace,
// which must hold none yet. Close drops them.
func (s *Stage) Prepare(ctx context.Context, schema string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tables) > 0 {
		return fmt.Errorf("prepare the namespace %s: it holds tables already; choose another", s.config.Namespace)
	}
	if err := s.create(ctx, schema); err != nil {
		return fmt.Errorf("prepare the namespace %s: %w", s.config.Namespace, err)
	}
	return s.load(ctx)
}

func (s *Stage) create(ctx context.Context, schema string) error {
	defined := definitions(schema)
	if len(defined) == 0 {
		return errors.New("the schema holds no table; `gantry contract record` writes one")
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		application, table, _ := strings.Cut(name, ".")
		database := s.names.Database(application)
		if err := s.made.create(ctx, s.db, database); err != nil {
			return err
		}
		statement := "CREATE TABLE " + rows.Quote(database) + "." + rows.Quote(table) + " (" + defined[name]
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the table %s: %w", name, err)
		}
	}
	return nil
}

// databases are those that a stage made, and drops.
type databases struct {
	mu    sync.Mutex
	names []string
}

// any reports whether the stage made its namespace itself.
func (d *databases) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.names) > 0
}

// create makes a database, unless it was made already.
func (d *databases) create(ctx context.Context, db *sql.DB, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.names, name) {
		return nil
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+rows.Quote(name)+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"); err != nil {
		return err
	}
	d.names = append(d.names, name)
	return nil
}

func (d *databases) drop(db *sql.DB) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.names {
		if _, failed := db.Exec("DROP DATABASE IF EXISTS " + rows.Quote(name)); failed != nil {
			err = errors.Join(err, fmt.Errorf("drop the database %s: %w", name, failed))
		}
	}
	d.names = nil
	return err
}
