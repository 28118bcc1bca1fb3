package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// insertRows and insertBytes bound one statement of many rows. Escaping can
	// double the bytes, and the result must stay below any max_allowed_packet
	// in use. A larger payload travels alone; when escaping makes it larger than
	// a packet, the driver sends it unescaped, in a prepared statement.
	insertRows  = 500
	insertBytes = 256 << 10
)

// queued is a task on its way into the queue.
type queued struct {
	tasks.NewTask
	id     int64
	dataID int64 // of the first of those that were inserted together; the others' follow from it
}

// Enqueue implements tasks.Store. All the rows are written in one transaction.
// When the answer of its COMMIT is lost, the rows are looked up by id, so that
// no task is queued twice.
func (s *Store) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if len(news) == 0 {
		return nil, nil
	}
	if err := s.validate(news); err != nil {
		return nil, err
	}
	var rows []queued
	err := s.withIDs(ctx, len(news), func(ids []int64) error {
		rows = newRows(news, ids, tasks.PriorityDefault)
		return s.enqueue(ctx, rows)
	})
	if refused(err) {
		err = fmt.Errorf("%w: %w", tasks.ErrInvalid, err)
	}
	if err != nil {
		return nil, fmt.Errorf("queue %d tasks: %w", len(news), err)
	}
	s.trimTraces(ctx, rows)
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	return ids, nil
}

// validate refuses what the tables or the server cannot hold.
func (s *Store) validate(news []tasks.NewTask) error {
	for _, n := range news {
		if err := n.Validate(); err != nil {
			return err
		}
		if len(n.Data) > s.server.maxPacket {
			return fmt.Errorf("%w: task of class %q: data has %d bytes and max_allowed_packet of the server is %d; store the content elsewhere and queue a reference, or raise it",
				&tasks.SizeError{Size: len(n.Data), Limit: s.server.maxPacket}, n.Class, len(n.Data), s.server.maxPacket)
		}
	}
	return nil
}

// withIDs runs write with n fresh task ids, and again with others when one of
// them turns out to be in use.
func (s *Store) withIDs(ctx context.Context, n int, write func(ids []int64) error) error {
	for range maxReservations {
		ids, err := s.takeIDs(ctx, n)
		if err != nil {
			return err
		}
		if err = write(ids); !duplicate(err) {
			return err
		}
		if err := s.dropIDs(ctx); err != nil {
			return err
		}
	}
	return errors.New("every id that the counter worker_activetask gave out was in use; find out what else inserts into worker_activetask")
}

// newRows gives tasks their ids, and a priority to those that have none.
func newRows(news []tasks.NewTask, ids []int64, priority int) []queued {
	rows := make([]queued, len(news))
	for i, n := range news {
		if n.Priority == nil {
			n.Priority = &priority
		}
		rows[i] = queued{NewTask: n, id: ids[i]}
	}
	return rows
}

func (s *Store) enqueue(ctx context.Context, rows []queued) error {
	return s.untilKnown(ctx, func(doubt bool) error {
		if doubt {
			done, err := s.exists(ctx, rows[0].id, rows[0].dataID)
			if done || err != nil {
				return err
			}
		}
		return s.transact(ctx, func(tx *sql.Tx) error { return s.insertTasks(ctx, tx, rows) })
	})
}

// exists reports whether a task is in the queue or in the archive with this
// very data. It waits for a COMMIT that is still under way.
func (s *Store) exists(ctx context.Context, id, dataID int64) (found bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		found = false
		for _, statement := range []string{
			`SELECT 1 FROM worker_activetask WHERE id = ? AND dataID = ? FOR UPDATE`,
			`SELECT 1 FROM worker_archivetask WHERE id = ? AND dataID = ?`,
		} {
			err := tx.QueryRowContext(ctx, statement, id, dataID).Scan(new(int))
			if !errors.Is(err, sql.ErrNoRows) {
				found = err == nil
				return err
			}
		}
		return nil
	})
	return found, err
}

var (
	dataRows = bulk{head: `INSERT INTO worker_taskdata (data) VALUES `, row: `(?)`}

	// The data rows of one INSERT have ids at the distance that the server says.
	// Clusters set it, and can change it while we run.
	taskRows = bulk{
		head: `INSERT INTO worker_activetask (` + activeColumns + `) VALUES `,
		row:  `(?,?,?,?,0,? + ? * @@auto_increment_increment,NULL,?,?,?,UNIX_TIMESTAMP(),UNIX_TIMESTAMP())`,
	}
)

// insertTasks writes data rows and task rows, in that order, as
// PhabricatorWorkerActiveTask::save, and trace contexts. It fills in the data id
// of the first row.
func (s *Store) insertTasks(ctx context.Context, tx *sql.Tx, rows []queued) error {
	if len(rows) == 0 {
		return nil
	}
	for part := range portions(rows) {
		first, err := insertData(ctx, tx, part)
		if err != nil {
			return err
		}
		part[0].dataID = first
		values := make([]any, 0, 9*len(part))
		for i, r := range part {
			var owner, expires any
			if r.DelayUntil > 0 {
				// An owner, because stock Phorge runs a row without one at once.
				owner, expires = tasks.DelayOwner, r.DelayUntil
			}
			values = append(values, r.id, r.Class, owner, expires, first, i, *r.Priority, r.ObjectPHID, r.ContainerPHID)
		}
		if _, err := taskRows.exec(ctx, tx, len(part), values); err != nil {
			return err
		}
	}
	return s.insertTraces(ctx, tx, rows)
}

// insertData answers the id of the first data row.
func insertData(ctx context.Context, tx *sql.Tx, rows []queued) (int64, error) {
	// Strings, because the driver marks []byte as binary.
	values := make([]any, len(rows))
	for i, r := range rows {
		values[i] = string(r.Data)
	}
	result, err := dataRows.exec(ctx, tx, len(rows), values)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// portions cuts rows into parts that fit one statement each. A payload above
// the bound is a part of its own.
func portions(rows []queued) func(yield func([]queued) bool) {
	return func(yield func([]queued) bool) {
		for len(rows) > 0 {
			n, bytes := 1, len(rows[0].Data)
			for n < min(len(rows), insertRows) && bytes+len(rows[n].Data) <= insertBytes {
				bytes += len(rows[n].Data)
				n++
			}
			if !yield(slices.Clip(rows[:n])) {
				return
			}
			rows = rows[n:]
		}
	}
}
