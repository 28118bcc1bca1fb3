package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// kept are tables that are not put back. The counter of task ids goes on: the
// store has reserved a block of them, and an id must not be given out twice.
var kept = []string{countTable}

// restore puts every table back that may differ from what it held when the
// stage was opened.
func (sc *scene) restore(ctx context.Context) error {
	s := sc.stage
	now, err := s.tally(ctx)
	if err != nil {
		return fmt.Errorf("put the tables back: %w", err)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("put the tables back: %w", err)
	}
	var problems []error
	for _, name := range s.written(sc.opened, now) {
		if slices.Contains(kept, name) {
			continue
		}
		if err := s.putBack(ctx, tx, name); err != nil {
			problems = append(problems, fmt.Errorf("put the table %s back: %w", name, err))
		}
	}
	problems = append(problems, tx.Commit())
	if sc.tally.rows != nil {
		for _, name := range s.written(sc.tally, now) {
			// Data rows have names instead of ids in an observation.
			if name != dataTable && !slices.Contains(kept, name) {
				problems = append(problems, s.restoreCounter(ctx, name))
			}
		}
	}
	// What somebody writes between two cases is put back after the next one.
	s.settled, err = s.tally(ctx)
	return errors.Join(append(problems, err)...)
}

const counterSQL = `SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`

// restoreCounter has the ids of a table go on at sideID again. Asking first is
// cheaper by far than writing, where the answer is not an old one: servers that
// do not count rows keep it for a day.
func (s *Stage) restoreCounter(ctx context.Context, name string) error {
	columns, err := s.columnsOf(ctx, name)
	if err != nil || !slices.ContainsFunc(columns, func(c column) bool { return c.auto }) {
		return err
	}
	if s.counts {
		var next sql.NullInt64
		database, table, _ := strings.Cut(name, ".")
		if err := s.db.QueryRowContext(ctx, counterSQL, s.database(database), table).Scan(&next); err != nil || next.Int64 == sideID {
			return err
		}
	}
	return s.resetCounter(ctx, name)
}

// putBack makes a table hold what it held when the stage was opened.
func (s *Stage) putBack(ctx context.Context, tx *sql.Tx, name string) error {
	was := s.tables[name]
	is, err := s.reread(ctx, name)
	if err != nil {
		return err
	}
	if slices.EqualFunc(is.rows, was.rows, slices.Equal) {
		return nil
	}
	// Two rows of a table without a key can be equal, and one of them gone.
	if len(was.rows) == 0 || len(was.key) == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+s.quoted(name)); err != nil {
			return err
		}
		return s.replace(ctx, tx, name, was, was.rows)
	}
	old := map[string][]sql.NullString{}
	for _, row := range was.rows {
		old[was.keyOf(row)] = row
	}
	for _, row := range is.rows {
		key := is.keyOf(row)
		before, there := old[key]
		if there && slices.Equal(before, row) {
			delete(old, key)
		}
		if there {
			continue
		}
		if err := s.remove(ctx, tx, name, is, row); err != nil {
			return err
		}
	}
	var lost [][]sql.NullString
	for _, row := range old {
		lost = append(lost, row)
	}
	return s.replace(ctx, tx, name, was, lost)
}

func (s *Stage) remove(ctx context.Context, tx *sql.Tx, name string, t *table, row []sql.NullString) error {
	var where []string
	for _, i := range t.key {
		where = append(where, quote(t.columns[i])+" = ?")
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM "+s.quoted(name)+" WHERE "+strings.Join(where, " AND "), arguments(t.keyValues(row))...)
	return err
}

// replaceRows bounds one statement.
const replaceRows = 100

func (s *Stage) replace(ctx context.Context, tx *sql.Tx, name string, t *table, rows [][]sql.NullString) error {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", len(t.columns)), ",") + ")"
	for part := range slices.Chunk(rows, replaceRows) {
		var values []any
		for _, row := range part {
			values = append(values, arguments(row)...)
		}
		all := strings.TrimSuffix(strings.Repeat(one+",", len(part)), ",")
		if _, err := tx.ExecContext(ctx, "REPLACE INTO "+s.quoted(name)+" VALUES "+all, values...); err != nil {
			return err
		}
	}
	return nil
}

func arguments(row []sql.NullString) []any {
	var values []any
	for _, value := range row {
		if value.Valid {
			values = append(values, []byte(value.String))
		} else {
			values = append(values, nil)
		}
	}
	return values
}
