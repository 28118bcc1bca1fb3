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
	// listWindow is how many rows one List call looks at when its filter can
	// pass over rows.
	listWindow = 1000

	// statsBound is how many rows of a class are counted.
	statsBound = 10000
)

// Now implements tasks.Operator.
func (s *Store) Now(ctx context.Context) (now int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&now)
	return now, s.server.explain(err)
}

const (
	// Active and archived rows in one shape, so that one statement, and with it
	// one snapshot, finds a task wherever it is at that moment.
	activeRecords = `SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, failureTime, priority,
objectPHID, containerPHID, dateCreated, dateModified, NULL AS result, NULL AS duration, NULL AS archivedEpoch
FROM worker_activetask`

	archivedRecords = `SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, NULL AS failureTime, priority,
objectPHID, containerPHID, dateCreated, dateModified, result, duration, archivedEpoch FROM worker_archivetask`

	getSQL = activeRecords + ` WHERE id = ? UNION ALL ` + archivedRecords + ` WHERE id = ?`
)

// Get implements tasks.Operator.
func (s *Store) Get(ctx context.Context, id int64) (tasks.Record, error) {
	found, err := s.records(ctx, getSQL, id, id)
	if err != nil {
		return tasks.Record{}, fmt.Errorf("look for task %d: %w", id, err)
	}
	if len(found) == 0 {
		return tasks.Record{}, fmt.Errorf("task %d: %w", id, tasks.ErrNotFound)
	}
	if err := s.fillData(ctx, found[:1]); err != nil {
		return tasks.Record{}, fmt.Errorf("read the data of task %d: %w", id, err)
	}
	return found[0].Record, nil
}

const (
	listActiveSQL   = activeRecords + ` FORCE INDEX (PRIMARY) WHERE id > ? ORDER BY id LIMIT ?`
	listArchivedSQL = archivedRecords + ` FORCE INDEX (PRIMARY) WHERE id > ? ORDER BY id LIMIT ?`

	// InnoDB appends the primary key to every index, so this needs no sort. The
	// archive has no such index.
	listClassSQL = activeRecords + ` FORCE INDEX (taskClass) WHERE taskClass = ? AND id > ? ORDER BY id LIMIT ?`
)

// List implements tasks.Operator. A call reads one window of rows by ascending
// id and filters them here, so that a filter which matches little is no scan
// of the table.
func (s *Store) List(ctx context.Context, f tasks.Filter) (tasks.Page, error) {
	if err := f.Check(); err != nil {
		return tasks.Page{}, err
	}
	window := max(f.Limit, listWindow)
	statement, args := listActiveSQL, []any{f.After, window}
	switch {
	case f.State == tasks.Archived:
		statement = listArchivedSQL
	case f.Class != "":
		statement, args = listClassSQL, []any{f.Class, f.After, window}
	}
	found, err := s.records(ctx, statement, args...)
	if err != nil {
		return tasks.Page{}, fmt.Errorf("list tasks: %w", err)
	}
	var page tasks.Page
	if len(found) == window {
		page.Next = found[window-1].ID
	}
	found = slices.DeleteFunc(found, func(r record) bool { return !f.Matches(r.Record) })
	if len(found) > f.Limit {
		found = found[:f.Limit]
		page.Next = found[f.Limit-1].ID
	}
	if !f.WithoutData {
		if err := s.fillData(ctx, found); err != nil {
			return tasks.Page{}, fmt.Errorf("list tasks: %w", err)
		}
	}
	for _, r := range found {
		page.Tasks = append(page.Tasks, r.Record)
	}
	return page, nil
}

// record is a tasks.Record on its way out.
type record struct {
	tasks.Record
	dataID int64
}

// records reads rows of the shape of activeRecords, without their data.
func (s *Store) records(ctx context.Context, statement string, args ...any) ([]record, error) {
	found, err := s.db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, s.server.explain(err)
	}
	defer found.Close()
	var all []record
	for found.Next() {
		var r row
		var result, duration, epoch sql.NullInt64
		if err := found.Scan(append(r.fields(), &result, &duration, &epoch)...); err != nil {
			return nil, s.server.explain(err)
		}
		one := record{tasks.Record{Task: r.Task}, r.dataID}
		if result.Valid {
			one.Archive = &tasks.Archive{Result: int(result.Int64), Duration: duration.Int64, Epoch: epoch.Int64}
		}
		all = append(all, one)
	}
	return all, s.server.explain(found.Err())
}

func (s *Store) fillData(ctx context.Context, records []record) error {
	if len(records) == 0 {
		return nil
	}
	ids := make([]int64, len(records))
	for i, r := range records {
		ids[i] = r.dataID
	}
	data, err := s.readData(ctx, ids)
	if err != nil {
		return s.server.explain(err)
	}
	for i := range records {
		records[i].Data = data[records[i].dataID]
	}
	return nil
}

const (
	// The next class in the index; one for each class is all that is read.
	nextClassSQL = `SELECT taskClass FROM worker_activetask FORCE INDEX (taskClass)
WHERE taskClass > ? ORDER BY taskClass LIMIT 1`

	// Leased is what somebody holds: an owner that is no mark in parentheses.
	countClassSQL = `SELECT COUNT(*), COALESCE(SUM(future AND held), 0), COALESCE(SUM(future AND NOT held), 0),
COALESCE(SUM(failureCount > 0), 0) FROM (
SELECT failureCount, COALESCE(leaseExpires >= UNIX_TIMESTAMP(), 0) AS future,
COALESCE(leaseOwner <> '' AND leaseOwner NOT LIKE '(%', 0) AS held
FROM worker_activetask FORCE INDEX (taskClass) WHERE taskClass = ? LIMIT ?) AS bounded`
)

// Stats implements tasks.Operator. It counts at most statsBound tasks a class,
// found by the index, so its cost does not grow with the queue.
func (s *Store) Stats(ctx context.Context) (tasks.Stats, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return tasks.Stats{}, fmt.Errorf("count tasks: %w", err)
	}
	stats := tasks.Stats{Now: now}
	for class := ""; ; {
		err := s.db.QueryRowContext(ctx, nextClassSQL, class).Scan(&class)
		if errors.Is(err, sql.ErrNoRows) {
			return stats, nil
		}
		if err != nil {
			return tasks.Stats{}, fmt.Errorf("count tasks: %w", s.server.explain(err))
		}
		c := tasks.ClassStats{Class: class}
		err = s.db.QueryRowContext(ctx, countClassSQL, class, statsBound+1).Scan(&c.Active, &c.Leased, &c.Waiting, &c.Failing)
		if err != nil {
			return tasks.Stats{}, fmt.Errorf("count tasks of class %s: %w", class, s.server.explain(err))
		}
		if c.More = c.Active > statsBound; c.More {
			c.Active = statsBound
		}
		if c.Active > 0 { // else the last one just left
			stats.Classes = append(stats.Classes, c)
		}
	}
}
