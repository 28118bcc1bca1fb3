package stage

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
)

// countsWritten reports whether the server counts the rows that are written.
// MariaDB does when it was started with --userstat=1; others do not, and then
// every table is read. Nobody is asked to begin: that would hold for the whole
// server, and for longer than the stage where that is killed. Rows that were
// rolled back count, which costs a look and hides nothing.
func countsWritten(ctx context.Context, db *sql.DB) bool {
	var on bool
	if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.userstat").Scan(&on); err != nil || !on {
		return false
	}
	return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TABLE_STATISTICS").Scan(new(int)) == nil
}

// tally is how many rows of each table were written, ever. Statements that write
// without writing rows are counted as one, under their own name: whoever
// empties or changes a table so has every table read.
type tally struct {
	rows    map[string]int64
	unnamed int64
}

const (
	writtenSQL = `SELECT TABLE_SCHEMA, TABLE_NAME, ROWS_CHANGED FROM information_schema.TABLE_STATISTICS WHERE TABLE_SCHEMA LIKE ?`

	unnamedSQL = `SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN
('COM_TRUNCATE', 'COM_ALTER_TABLE', 'COM_CREATE_TABLE', 'COM_DROP_TABLE', 'COM_RENAME_TABLE', 'COM_DROP_DB', 'COM_CREATE_DB')`
)

func (s *Stage) tally(ctx context.Context) (tally, error) {
	t := tally{rows: map[string]int64{}}
	if !s.counts {
		return t, nil
	}
	if err := s.db.QueryRowContext(ctx, unnamedSQL).Scan(&t.unnamed); err != nil {
		return t, err
	}
	found, err := s.db.QueryContext(ctx, writtenSQL, s.names.Like())
	if err != nil {
		return t, err
	}
	for found.Next() {
		var database, name string
		var rows int64
		if err := found.Scan(&database, &name, &rows); err != nil {
			return t, errors.Join(err, found.Close())
		}
		t.rows[s.names.Name(database, name)] = rows
	}
	return t, errors.Join(found.Err(), found.Close())
}

// written answers the tables that may have been written since, sorted.
func (s *Stage) written(before, now tally) []string {
	if !s.counts || now.unnamed != before.unnamed {
		return slices.Sorted(maps.Keys(s.tables))
	}
	var names []string
	for name, rows := range now.rows {
		if rows != before.rows[name] && s.tables[name] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
