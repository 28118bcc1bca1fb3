package embedded

import (
	"context"
	"fmt"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// Cancel implements tasks.Operator, as `bin/worker cancel`.
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.changeActive(ctx, ids, func(c *change, t *tasks.Task) error {
		t.Place = tasks.Place{Expires: &c.now}
		delete(c.active, t.ID)
		c.past[t.ID] = &tasks.Record{Task: *t, Archive: &tasks.Archive{Result: tasks.ResultCancelled}}
		c.failed = c.archive(t, tasks.ResultCancelled, 0)
		return nil
	})
}

// Free implements tasks.Operator, as `bin/worker free`.
func (s *Store) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.changeActive(ctx, ids, func(c *change, t *tasks.Task) error {
		if t.Owner == nil {
			return tasks.ErrNotLeased
		}
		t.Place = tasks.Place{Expires: &c.now}
		c.modify(t)
		return nil
	})
}

// Delay implements tasks.Operator.
func (s *Store) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	if err := tasks.CheckDelay(until); err != nil {
		return nil, err
	}
	return s.changeActive(ctx, ids, func(c *change, t *tasks.Task) error {
		delayed, err := t.Delayed(until)
		if err != nil {
			return err
		}
		t.Place = delayed
		c.modify(t)
		return nil
	})
}

// Priority implements tasks.Operator, as `bin/worker priority`.
func (s *Store) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	if err := tasks.CheckPriority(priority); err != nil {
		return nil, err
	}
	return s.changeActive(ctx, ids, func(c *change, t *tasks.Task) error {
		if t.Priority == priority {
			return tasks.ErrUnchanged
		}
		t.Priority = priority
		c.modify(t)
		return nil
	})
}

const (
	unarchiveSQL = `DELETE FROM archive WHERE id = ?`

	requeueSQL = `INSERT INTO task (id, taskClass, leaseExpires, failureCount, priority, objectPHID, containerPHID, dateCreated,
dateModified) SELECT id, taskClass, 0, 0, priority, objectPHID, containerPHID, dateCreated, ? FROM archive WHERE id = ?`
)

// Retry implements tasks.Operator, as `bin/worker retry`: the task keeps its
// id and its data, and comes as one that was never leased.
func (s *Store) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	return s.change(ctx, ids, func(c *change, id int64) (string, error) {
		if t := c.active[id]; t != nil {
			return t.Class, tasks.ErrActive
		}
		p := c.past[id]
		switch {
		case p == nil:
			return "", tasks.ErrNotFound
		case p.Result == tasks.ResultSuccess && !repeat:
			return p.Class, tasks.ErrSucceeded
		}
		if c.failed = c.exec(requeueSQL, c.now, id); c.failed == nil {
			c.failed = c.exec(unarchiveSQL, id)
			c.archived--
		}
		c.active[id] = &p.Task
		delete(c.past, id)
		return p.Class, nil
	})
}

const awakenSQL = `UPDATE task SET leaseExpires = ? WHERE id IN (SELECT value FROM json_each(?))
AND leaseOwner = ? AND leaseExpires > ? AND failureCount = 0`

// Awaken implements tasks.Operator. dateModified stays, as in Phorge.
func (s *Store) Awaken(ctx context.Context, ids []int64) (int, error) {
	count := 0
	for part := range slices.Chunk(ids, settleRows) {
		var n int64
		err := s.write(ctx, func(tx *txn) (err error) {
			past := tx.now - tasks.AwakenedBy
			n, err = tx.changed(awakenSQL, past, list(part), tasks.YieldOwner, past)
			return err
		})
		if err != nil {
			return count, fmt.Errorf("awaken %d tasks: %w", len(part), err)
		}
		count += int(n)
	}
	return count, nil
}

// change is what an operator does in one transaction: the rows as they stand,
// and whether writing failed.
type change struct {
	*txn
	active map[int64]*tasks.Task
	past   map[int64]*tasks.Record
	failed error
}

func (c *change) modify(t *tasks.Task) {
	t.DateModified = c.now
	c.failed = c.save(t)
}

// changeActive applies an operation that archived tasks refuse.
func (s *Store) changeActive(ctx context.Context, ids []int64, apply func(*change, *tasks.Task) error) ([]tasks.Changed, error) {
	return s.change(ctx, ids, func(c *change, id int64) (string, error) {
		if t := c.active[id]; t != nil {
			return t.Class, apply(c, t)
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
	for part := range slices.Chunk(ids, settleRows) {
		answers := make([]tasks.Changed, len(part))
		err := s.write(ctx, func(tx *txn) (err error) {
			c := &change{txn: tx}
			if c.active, err = tx.active(part); err != nil {
				return err
			}
			if c.past, err = tx.archivedAmong(part, c.active); err != nil {
				return err
			}
			for i, id := range part {
				class, err := apply(c, id)
				if c.failed != nil {
					return c.failed
				}
				if err != nil {
					err = fmt.Errorf("task %d: %w", id, err)
				}
				answers[i] = tasks.Changed{ID: id, Class: class, Err: err}
			}
			return nil
		})
		if err != nil {
			return changed, fmt.Errorf("change %d tasks: %w", len(part), err)
		}
		changed = append(changed, answers...)
	}
	return changed, nil
}
