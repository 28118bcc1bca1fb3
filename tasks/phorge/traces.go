package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// The trace contexts of tasks are rows of the table traces of Gantry's own
// database. They are written in the transaction that queues the task, read by
// id once it is leased, and deleted in the transaction that archives it; those
// of tasks that others archived are deleted by age. All of it happens with
// Config.Traces alone, and the queue works on where the table is missing.

const (
	traceColumns = `taskID, traceparent, epoch`

	probeTraceparentsSQL = `INSERT INTO %s (` + traceColumns + `) SELECT ` + traceColumns + ` FROM %[1]s WHERE FALSE`

	// FORCE INDEX for the same reason as in lockSQL.
	traceparentsSQL = `SELECT taskID, traceparent FROM %s FORCE INDEX (PRIMARY) WHERE taskID IN (%%ids)`

	// As deleteSQL.
	forgetTracesSQL = `DELETE FROM %s WHERE taskID IN (%%ids) ORDER BY taskID LIMIT ?`

	trimTracesSQL = `DELETE FROM %s WHERE epoch < UNIX_TIMESTAMP() - ? ORDER BY epoch, taskID LIMIT ?`
)

// traceTable is what is known of the table.
type traceTable struct {
	wanted bool // Config.Traces
	trim   trimming

	mu      sync.Mutex
	problem error     // why it cannot be used, nil when it can
	checked time.Time // when that was found out
}

// checkTraces finds out whether trace contexts can be kept, if they are to be.
func (s *Store) checkTraces(ctx context.Context) {
	t := &s.gantry.traces
	if !t.wanted {
		return
	}
	if s.gantry.database == "" {
		s.noTraces(errors.New("the worker database is not called <namespace>_worker, so the name of Gantry's own database is unknown"))
		return
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(probeTraceparentsSQL, s.gantry.table("traces")))
	s.noTraces(err)
}

// noTraces notes why trace contexts cannot be kept; nil: they can.
func (s *Store) noTraces(err error) {
	t := &s.gantry.traces
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked, t.problem = s.gantry.now(), nil
	if err != nil {
		t.problem = fmt.Errorf("database %s: the trace contexts of tasks are not kept; %s: %w", s.gantry.database, remedyOf(err), err)
	}
}

// keepsTraces reports whether trace contexts are kept.
func (s *Store) keepsTraces() bool {
	t := &s.gantry.traces
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted && t.problem == nil
}

// lookForTraces looks again for a table that could not be used, when the last
// look was long ago. No transaction may be open: it takes a connection.
func (s *Store) lookForTraces(ctx context.Context) {
	t := &s.gantry.traces
	t.mu.Lock()
	due := t.problem != nil && s.gantry.now().Sub(t.checked) >= recheck
	t.mu.Unlock()
	if due {
		s.checkTraces(ctx)
	}
}

// tolerate passes over a refusal that has to do with the table: nothing was
// written then, and the transaction goes on without trace contexts.
func (s *Store) tolerate(err error) error {
	if !lasting(err) {
		return err
	}
	s.noTraces(err)
	return nil
}

// insertTraces writes the trace contexts of tasks that have one.
func (s *Store) insertTraces(ctx context.Context, tx *sql.Tx, rows []queued) error {
	// An id whose counter was lost can have been in use before.
	statement := bulk{
		head: `INSERT INTO ` + s.gantry.table("traces") + ` (` + traceColumns + `) VALUES `,
		row:  `(?,?,UNIX_TIMESTAMP())`,
		tail: ` ON DUPLICATE KEY UPDATE traceparent = VALUES(traceparent), epoch = VALUES(epoch)`,
	}
	var values []any
	for _, r := range rows {
		if r.Traceparent != "" {
			values = append(values, r.id, r.Traceparent)
		}
	}
	if len(values) == 0 || !s.keepsTraces() {
		return nil
	}
	for part := range slices.Chunk(values, 2*insertRows) {
		if _, err := statement.exec(ctx, tx, len(part)/2, part); err != nil {
			return s.tolerate(err)
		}
	}
	return nil
}

// forgetTraces deletes the trace contexts of tasks that go to the archive.
func (s *Store) forgetTraces(ctx context.Context, tx *sql.Tx, rows []archived) error {
	if len(rows) == 0 || !s.keepsTraces() {
		return nil
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	_, err := tx.ExecContext(ctx, withIDs(fmt.Sprintf(forgetTracesSQL, s.gantry.table("traces")), ids), len(ids))
	return s.tolerate(err)
}

// fillTraces gives leased tasks their trace contexts. When they cannot be read,
// the tasks go without.
func (s *Store) fillTraces(ctx context.Context, leased []tasks.Task) {
	s.lookForTraces(ctx)
	if len(leased) == 0 || !s.keepsTraces() {
		return
	}
	ids := make([]int64, len(leased))
	for i, t := range leased {
		ids[i] = t.ID
	}
	found, err := s.readTraceparents(ctx, ids)
	if err != nil {
		_ = s.tolerate(err)
		return
	}
	for i := range leased {
		leased[i].Traceparent = found[leased[i].ID]
	}
}

func (s *Store) readTraceparents(ctx context.Context, ids []int64) (map[int64]string, error) {
	rows, err := s.db.QueryContext(ctx, withIDs(fmt.Sprintf(traceparentsSQL, s.gantry.table("traces")), ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[int64]string{}
	for rows.Next() {
		var id int64
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			return nil, err
		}
		found[id] = tasks.Traceparent(text) // whoever wrote it
	}
	return found, rows.Err()
}

// trimTraces deletes old trace contexts when it is time, after new tasks. A
// failure is no matter: the next call deletes them.
func (s *Store) trimTraces(ctx context.Context, rows []queued) {
	s.lookForTraces(ctx)
	if !s.keepsTraces() {
		return
	}
	written := 0
	for _, r := range rows {
		if r.Traceparent != "" {
			written++
		}
	}
	if n := s.gantry.traces.trim.due(written, s.gantry.now()); n > 0 {
		_, _ = s.db.ExecContext(ctx, fmt.Sprintf(trimTracesSQL, s.gantry.table("traces")), int(keptFor/time.Second), n)
	}
}
