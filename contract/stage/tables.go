package stage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tables of the queue, by the names that observations use.
const (
	activeTable = "worker.worker_activetask"
	dataTable   = "worker.worker_taskdata"
	countTable  = "worker.lisk_counter"
)

// table is the content of one table. A stage calls it database.table, without
// the namespace.
type table struct {
	columns []string
	key     []int // columns of the primary key, in its order
	rows    [][]sql.NullString
}

// SHOW INDEX and the like answer for one table at a time; a Phorge has five
// hundred.
const listTables = `
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, GROUP_CONCAT(k.COLUMN_NAME ORDER BY k.ORDINAL_POSITION)
FROM information_schema.TABLES t
LEFT JOIN information_schema.KEY_COLUMN_USAGE k
  ON k.TABLE_SCHEMA = t.TABLE_SCHEMA AND k.TABLE_NAME = t.TABLE_NAME AND k.CONSTRAINT_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA LIKE ? AND t.TABLE_TYPE = 'BASE TABLE'
GROUP BY t.TABLE_SCHEMA, t.TABLE_NAME`

// readAll reads every row of the namespace.
func (s *Stage) readAll(ctx context.Context) (map[string]*table, error) {
	found, err := s.db.QueryContext(ctx, listTables, s.like())
	if err != nil {
		return nil, err
	}
	keys := map[string][]string{}
	for found.Next() {
		var database, name string
		var key sql.NullString
		if err := found.Scan(&database, &name, &key); err != nil {
			return nil, errors.Join(err, found.Close())
		}
		keys[s.named(database, name)] = strings.Split(key.String, ",")
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return nil, err
	}
	tables := map[string]*table{}
	for name, key := range keys {
		t := &table{}
		if err := t.read(ctx, s.db, s.quoted(name)); err != nil {
			return nil, fmt.Errorf("read the table %s: %w", name, err)
		}
		for _, column := range key {
			if i := slices.Index(t.columns, column); i >= 0 {
				t.key = append(t.key, i)
			}
		}
		slices.SortFunc(t.rows, t.order)
		tables[name] = t
	}
	return tables, nil
}

var phidPattern = regexp.MustCompile(`PHID-[A-Z]{4}-(?:[A-Z]{4}-)?[A-Za-z0-9]+`)

// phidsIn answers the PHIDs that stand somewhere in tables.
func phidsIn(tables map[string]*table) map[string]bool {
	phids := map[string]bool{}
	for _, t := range tables {
		for _, row := range t.rows {
			for _, value := range row {
				if !strings.Contains(value.String, "PHID-") {
					continue
				}
				for _, phid := range phidPattern.FindAllString(value.String, -1) {
					phids[phid] = true
				}
			}
		}
	}
	return phids
}

// reread reads a known table again.
func (s *Stage) reread(ctx context.Context, name string) (*table, error) {
	t := &table{key: s.tables[name].key}
	if err := t.read(ctx, s.db, s.quoted(name)); err != nil {
		return nil, fmt.Errorf("read the table %s: %w", name, err)
	}
	slices.SortFunc(t.rows, t.order)
	return t, nil
}

func (t *table) read(ctx context.Context, db *sql.DB, quoted string) error {
	found, err := db.QueryContext(ctx, "SELECT * FROM "+quoted)
	if err != nil {
		return err
	}
	defer found.Close()
	if t.columns, err = found.Columns(); err != nil {
		return err
	}
	for found.Next() {
		row := make([]sql.NullString, len(t.columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := found.Scan(into...); err != nil {
			return err
		}
		t.rows = append(t.rows, row)
	}
	return found.Err()
}

// keyOf is the primary key of a row, or all of the row where a table has none.
func (t *table) keyOf(row []sql.NullString) string {
	var parts []string
	for _, value := range t.keyValues(row) {
		parts = append(parts, value.String)
	}
	return strings.Join(parts, " ")
}

func (t *table) keyValues(row []sql.NullString) []sql.NullString {
	if len(t.key) == 0 {
		return row
	}
	values := make([]sql.NullString, len(t.key))
	for i, column := range t.key {
		values[i] = row[column]
	}
	return values
}

// order sorts rows by their key, numbers as numbers.
func (t *table) order(a, b []sql.NullString) int {
	x, y := t.keyValues(a), t.keyValues(b)
	return slices.CompareFunc(x, y, func(a, b sql.NullString) int {
		m, errM := strconv.ParseUint(a.String, 10, 64)
		n, errN := strconv.ParseUint(b.String, 10, 64)
		if errM == nil && errN == nil && m != n {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(a.String, b.String)
	})
}

// named answers the name of a table of a database of the namespace.
func (s *Stage) named(database, name string) string {
	return strings.TrimPrefix(database, s.config.Namespace+"_") + "." + name
}

// like matches the databases of the namespace.
func (s *Stage) like() string {
	return strings.ReplaceAll(s.config.Namespace+"_", "_", `\_`) + "%"
}

// quoted answers the name of a table as SQL wants it.
func (s *Stage) quoted(name string) string {
	database, table, _ := strings.Cut(name, ".")
	return quote(s.database(database)) + "." + quote(table)
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
