package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
)

// Ids of rows. A world names small ones, rows that name none count from
// unnamedID, and what a side inserts counts from sideID: so a side gets the same
// ids whatever the tables held before.
const (
	unnamedID = 500_000
	sideID    = 1_000_000
)

// column is what matters of a column to a row that does not name it.
type column struct {
	name     string
	empty    any  // the empty value of its type
	optional bool // it has a default, NULL or another
	auto     bool // AUTO_INCREMENT
}

const columnsSQL = `
SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE = 'YES' OR COLUMN_DEFAULT IS NOT NULL, EXTRA LIKE '%auto_increment%'
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`

// numbers are the types whose empty value is 0. Of all others it is "".
var numbers = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"}

// columnsOf answers the columns of a table.
func (s *Stage) columnsOf(ctx context.Context, name string) ([]column, error) {
	if known, ok := s.columns[name]; ok {
		return known, nil
	}
	if s.tables[name] == nil {
		return nil, fmt.Errorf("there is no table %s in the namespace; tables are named database.table, without the namespace, and where there is no Phorge only those exist that were recorded", name)
	}
	database, tableName, _ := strings.Cut(name, ".")
	found, err := s.db.QueryContext(ctx, columnsSQL, s.names.Database(database), tableName)
	if err != nil {
		return nil, err
	}
	var columns []column
	for found.Next() {
		var c column
		var kind string
		if err := found.Scan(&c.name, &kind, &c.optional, &c.auto); err != nil {
			return nil, errors.Join(err, found.Close())
		}
		c.empty = ""
		if slices.Contains(numbers, kind) {
			c.empty = 0
		}
		columns = append(columns, c)
	}
	s.columns[name] = columns
	return columns, errors.Join(found.Err(), found.Close())
}

// insertWorld puts the rows of a world into their tables.
func (s *Stage) insertWorld(ctx context.Context, tx *sql.Tx, world contract.World) error {
	for _, name := range slices.Sorted(maps.Keys(world.Rows)) {
		columns, err := s.columnsOf(ctx, name)
		if err != nil {
			return err
		}
		for i, row := range world.Rows[name] {
			if err := s.insertRow(ctx, tx, name, columns, row, unnamedID+i); err != nil {
				return fmt.Errorf("row %d of %s: %w", i+1, name, err)
			}
		}
	}
	return nil
}

func (s *Stage) insertRow(ctx context.Context, tx *sql.Tx, name string, columns []column, row contract.Row, id int) error {
	var names []string
	var values []any
	for _, c := range columns {
		value, named := row[c.name]
		switch {
		case named:
			v, err := sqlValue(value)
			if err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
			values = append(values, v)
		case c.auto:
			values = append(values, id)
		case c.optional:
			continue
		default:
			values = append(values, c.empty)
		}
		names = append(names, rows.Quote(c.name))
	}
	for _, unknown := range slices.Sorted(maps.Keys(row)) {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name == unknown }) {
			return fmt.Errorf("the table has no column %q; it has %s", unknown, columnNames(columns))
		}
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(values)), ",")
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.names.Quoted(name)+" ("+strings.Join(names, ",")+") VALUES ("+marks+")", values...)
	return err
}

func columnNames(columns []column) string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// sqlValue answers a value of a row as the server takes it.
func sqlValue(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case int, int64, uint64:
		return v, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return nil, fmt.Errorf("%v is a %T; a row holds text, whole numbers, true, false and null: put it in quotation marks", value, value)
}

// raiseCounters makes every AUTO_INCREMENT go on at sideID, and the ids of
// tasks there or above.
func (s *Stage) raiseCounters(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO "+s.names.Quoted(countTable)+" (counterName, counterValue) VALUES ('worker_activetask', ?)"+
		" ON DUPLICATE KEY UPDATE counterValue = GREATEST(counterValue, VALUES(counterValue))", sideID)
	if err != nil {
		return fmt.Errorf("set the next id of a task: %w", err)
	}
	found, err := s.db.QueryContext(ctx, `
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA LIKE ? AND AUTO_INCREMENT IS NOT NULL AND AUTO_INCREMENT < ?`, s.names.Like(), sideID)
	if err != nil {
		return err
	}
	var names []string
	for found.Next() {
		var database, name string
		if err := found.Scan(&database, &name); err != nil {
			return errors.Join(err, found.Close())
		}
		names = append(names, s.names.Name(database, name))
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.resetCounter(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stage) resetCounter(ctx context.Context, name string) error {
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", s.names.Quoted(name), sideID)); err != nil {
		return fmt.Errorf("set the next id of %s: %w", name, err)
	}
	return nil
}
