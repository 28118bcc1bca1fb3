package embedded

import (
	"context"
	"fmt"
	"maps"
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
	err = s.read(ctx, func(_ *conn, at int64) error {
		now = at
		return nil
	})
	return now, err
}

const getSQL = activeRecords + ` WHERE id = ?1 UNION ALL ` + archivedRecords + ` WHERE id = ?1`

// Get implements tasks.Operator.
func (s *Store) Get(ctx context.Context, id int64) (tasks.Record, error) {
	var found []tasks.Record
	err := s.read(ctx, func(c *conn, _ int64) (err error) {
		if found, err = c.records(getSQL, id); err != nil {
			return err
		}
		return c.fillData(found)
	})
	switch {
	case err != nil:
		return tasks.Record{}, fmt.Errorf("look for task %d: %w", id, err)
	case len(found) == 0:
		return tasks.Record{}, fmt.Errorf("task %d: %w", id, tasks.ErrNotFound)
	}
	return found[0], nil
}

const (
	listActiveSQL   = activeRecords + ` WHERE id > ? ORDER BY id LIMIT ?`
	listArchivedSQL = archivedRecords + ` WHERE id > ? ORDER BY id LIMIT ?`
)

// List implements tasks.Operator. A call reads one window of rows by ascending
// id and filters them here, so that a filter which matches little is no scan
// of the table.
func (s *Store) List(ctx context.Context, f tasks.Filter) (tasks.Page, error) {
	if err := f.Check(); err != nil {
		return tasks.Page{}, err
	}
	query := listActiveSQL
	if f.State == tasks.Archived {
		query = listArchivedSQL
	}
	window := max(f.Limit, listWindow)
	var page tasks.Page
	err := s.read(ctx, func(c *conn, _ int64) error {
		found, err := c.records(query, f.After, window)
		if err != nil {
			return err
		}
		page = tasks.Page{}
		if len(found) == window {
			page.Next = found[window-1].ID
		}
		found = slices.DeleteFunc(found, func(r tasks.Record) bool { return !f.Matches(r) })
		if len(found) > f.Limit {
			found = found[:f.Limit]
			page.Next = found[f.Limit-1].ID
		}
		page.Tasks = found
		if f.WithoutData {
			return nil
		}
		return c.fillData(found)
	})
	if err != nil {
		return tasks.Page{}, fmt.Errorf("list tasks: %w", err)
	}
	return page, nil
}

// countSQL counts the rows of a class lane by lane, up to a bound in each.
// Leased is what somebody holds: an owner that is no mark in parentheses.
const countSQL = `SELECT COUNT(*), COALESCE(SUM(future AND mine), 0), COALESCE(SUM(future AND NOT mine), 0),
COALESCE(SUM(failureCount > 0), 0) FROM (
SELECT * FROM (SELECT failureCount, 0 AS future, 0 AS mine
	FROM task INDEXED BY fresh WHERE lane = 0 AND taskClass = ?1 LIMIT ?3)
UNION ALL SELECT * FROM (SELECT failureCount, leaseExpires >= ?2, 0
	FROM task INDEXED BY unripeClass WHERE lane = 1 AND taskClass = ?1 LIMIT ?3)
UNION ALL SELECT * FROM (SELECT failureCount, COALESCE(leaseExpires >= ?2, 0), leaseOwner <> '' AND leaseOwner NOT GLOB '(*'
	FROM task INDEXED BY parked WHERE lane = 2 AND taskClass = ?1 LIMIT ?3)
UNION ALL SELECT * FROM (SELECT failureCount, COALESCE(leaseExpires >= ?2, 0), 1
	FROM task INDEXED BY held WHERE lane = 3 AND taskClass = ?1 LIMIT ?3))`

// Stats implements tasks.Operator. It counts at most statsBound tasks a class,
// so its cost does not grow with the queue.
func (s *Store) Stats(ctx context.Context) (tasks.Stats, error) {
	var stats tasks.Stats
	err := s.read(ctx, func(c *conn, now int64) error {
		stats = tasks.Stats{Now: now}
		names := map[string]bool{}
		for _, l := range []lane{fresh, unripe, parked, held} {
			for after, more := "", true; more; {
				var some []string
				var err error
				if some, more, err = c.classes(l, after); err != nil {
					return err
				}
				for _, name := range some {
					names[name], after = true, name
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			n := tasks.ClassStats{Class: name}
			err := c.row(countSQL, []any{name, now, statsBound + 1}, &n.Active, &n.Leased, &n.Waiting, &n.Failing)
			if err != nil {
				return err
			}
			if n.More = n.Active > statsBound; n.More {
				n.Active = statsBound
			}
			stats.Classes = append(stats.Classes, n)
		}
		return nil
	})
	if err != nil {
		return tasks.Stats{}, fmt.Errorf("count tasks: %w", err)
	}
	return stats, nil
}
