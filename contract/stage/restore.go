package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract/rows"
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
		if err := s.db.QueryRowContext(ctx, counterSQL, s.names.Database(database), table).Scan(&next); err != nil || next.Int64 == sideID {
			return err
		}
	}
	return s.resetCounter(ctx, name)
}

// putBack makes a table hold what it held when the stage was opened.
func (s *Stage) putBack(ctx context.Context, tx *sql.Tx, name string) error {
	was, quoted := s.tables[name], s.names.Quoted(name)
	is, err := s.reread(ctx, name)
	if err != nil {
		return err
	}
	if is.Same(was) {
		return nil
	}
	// Two rows of a table without a key can be equal, and one of them gone.
	if len(was.Rows) == 0 || len(was.Key) == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+quoted); err != nil {
			return err
		}
		return was.Put(ctx, tx, quoted, was.Rows)
	}
	old := map[string]rows.Row{}
	for _, row := range was.Rows {
		old[was.KeyOf(row)] = row
	}
	for _, row := range is.Rows {
		key := is.KeyOf(row)
		before, there := old[key]
		if there && slices.Equal(before, row) {
			delete(old, key)
		}
		if there {
			continue
		}
		if err := is.Remove(ctx, tx, quoted, row); err != nil {
			return err
		}
	}
	var lost []rows.Row
	for _, row := range old {
		lost = append(lost, row)
	}
	return was.Put(ctx, tx, quoted, lost)
}
