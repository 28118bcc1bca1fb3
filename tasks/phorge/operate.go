package phorge

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// Cancel implements tasks.Operator, as `bin/worker cancel`.
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.changeActive(ctx, ids, func(c *change, r *row) error {
		r.Place = tasks.Place{Expires: &c.now}
		c.archived = append(c.archived, archived{r, tasks.Archive{Result: tasks.ResultCancelled, Epoch: c.now}})
		delete(c.rows, r.ID)
		c.past[r.ID] = &past{row: *r, result: tasks.ResultCancelled}
		return nil
	})
}

// Free implements tasks.Operator, as `bin/worker free`.
func (s *Store) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.changeActive(ctx, ids, func(c *change, r *row) error {
		if r.Owner == nil {
			return tasks.ErrNotLeased
		}
		r.Place = tasks.Place{Expires: &c.now}
		c.save(r)
		return nil
	})
}

// Delay implements tasks.Operator. `bin/worker delay` leaves the owner NULL; see
// tasks.Place.Delayed.
func (s *Store) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	if err := tasks.CheckDelay(until); err != nil {
		return nil, err
	}
	return s.changeActive(ctx, ids, func(c *change, r *row) error {
		delayed, err := r.Delayed(until)
		if err != nil {
			return err
		}
		r.Place = delayed
		c.save(r)
		return nil
	})
}

// Priority implements tasks.Operator, as `bin/worker priority`.
func (s *Store) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	if err := tasks.CheckPriority(priority); err != nil {
		return nil, err
	}
	return s.changeActive(ctx, ids, func(c *change, r *row) error {
		if r.Priority == priority {
			return tasks.ErrUnchanged
		}
		r.Priority = priority
		c.save(r)
		return nil
	})
}

// Retry implements tasks.Operator, as `bin/worker retry`: the task keeps its
// id and its data, and comes as one that was never leased.
func (s *Store) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	return s.change(ctx, ids, func(c *change, id int64) (string, error) {
		if r := c.rows[id]; r != nil {
			return r.Class, tasks.ErrActive
		}
		p := c.past[id]
		switch {
		case p == nil:
			return "", tasks.ErrNotFound
		case p.result == tasks.ResultSuccess && !repeat:
			return p.Class, tasks.ErrSucceeded
		}
		r := &p.row
		r.Place = tasks.Place{Expires: new(int64)}
		r.FailureCount = 0
		c.save(r)
		c.unarchived = append(c.unarchived, id)
		c.rows[id] = r
		delete(c.past, id)
		return r.Class, nil
	})
}

const awakenSQL = `UPDATE worker_activetask FORCE INDEX (PRIMARY) SET leaseExpires = UNIX_TIMESTAMP() - ?
WHERE id IN (%ids) AND leaseOwner = ? AND leaseExpires > UNIX_TIMESTAMP() - ? AND failureCount = 0`

// Awaken implements tasks.Operator. dateModified stays, as in Phorge.
func (s *Store) Awaken(ctx context.Context, ids []int64) (int, error) {
	count := 0
	for part := range slices.Chunk(ids, batchRows) {
		var n int64
		err := s.transact(ctx, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, withIDs(awakenSQL, part), tasks.AwakenedBy, tasks.YieldOwner, tasks.AwakenedBy)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return count, fmt.Errorf("awaken %d tasks: %w", len(part), err)
		}
		count += int(n)
	}
	return count, nil
}

// change is one transaction of an operator: the rows as they stand, and what
// becomes of them.
type change struct {
	rows map[int64]*row  // active
	past map[int64]*past // archived
	outcomes
	unarchived []int64
}

// past is a row of worker_archivetask.
type past struct {
	row
	result int
}

func (c *change) save(r *row) {
	r.DateModified = c.now
	c.saved = append(c.saved, r)
}

// changeActive applies an operation that archived tasks refuse.
func (s *Store) changeActive(ctx context.Context, ids []int64, apply func(*change, *row) error) ([]tasks.Changed, error) {
	return s.change(ctx, ids, func(c *change, id int64) (string, error) {
		if r := c.rows[id]; r != nil {
			return r.Class, apply(c, r)
		}
		if p := c.past[id]; p != nil {
			return p.Class, tasks.ErrArchived
		}
		return "", tasks.ErrNotFound
	})
}

// change applies an operation to each id, as many in one transaction as fit.
// An id that is named twice is changed by the first and met so by the second.
func (s *Store) change(ctx context.Context, ids []int64, apply func(c *change, id int64) (class string, err error)) ([]tasks.Changed, error) {
	changed := make([]tasks.Changed, 0, len(ids))
	for part := range slices.Chunk(ids, batchRows) {
		var answers []tasks.Changed
		err := s.transact(ctx, func(tx *sql.Tx) error {
			c, err := lockAnywhere(ctx, tx, part)
			if err != nil {
				return err
			}
			answers = make([]tasks.Changed, len(part))
			for i, id := range part {
				answers[i].ID = id
				if answers[i].Class, err = apply(c, id); err != nil {
					answers[i].Err = fmt.Errorf("task %d: %w", id, err)
				}
			}
			return c.write(ctx, tx)
		})
		if err != nil {
			return changed, fmt.Errorf("change %d tasks: %w", len(part), err)
		}
		changed = append(changed, answers...)
	}
	return changed, nil
}

const lockPastSQL = `SELECT ` + archiveColumns + ` FROM worker_archivetask FORCE INDEX (PRIMARY)
WHERE id IN (%ids) ORDER BY id FOR UPDATE`

// lockAnywhere locks tasks, the active ones first.
func lockAnywhere(ctx context.Context, tx *sql.Tx, ids []int64) (*change, error) {
	c := &change{past: map[int64]*past{}}
	if err := tx.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&c.now); err != nil {
		return nil, err
	}
	var err error
	if c.rows, _, err = lock(ctx, tx, ids); err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return c.rows[id] != nil })
	if len(missing) == 0 {
		return c, nil
	}
	found, err := tx.QueryContext(ctx, withIDs(lockPastSQL, missing))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var p past
		var duration, epoch sql.NullInt64
		err := found.Scan(&p.ID, &p.Class, &p.Owner, &p.Expires, &p.FailureCount, &p.dataID, &p.Priority,
			&p.ObjectPHID, &p.ContainerPHID, &p.DateCreated, &p.DateModified, &p.result, &duration, &epoch)
		if err != nil {
			return nil, err
		}
		c.past[p.ID] = &p
	}
	return c, found.Err()
}

// As deleteSQL.
const deletePastSQL = `DELETE FROM worker_archivetask WHERE id IN (%ids) ORDER BY id LIMIT ?`

func (c *change) write(ctx context.Context, tx *sql.Tx) error {
	if err := archive(ctx, tx, c.archived); err != nil {
		return err
	}
	if err := save(ctx, tx, c.saved); err != nil {
		return err
	}
	if len(c.unarchived) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, withIDs(deletePastSQL, c.unarchived), len(c.unarchived))
	return err
}
