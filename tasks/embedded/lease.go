package embedded

import (
	"context"
	"fmt"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// leaseRows bounds what one call leases.
	leaseRows = 500

	// ripeRows bounds the rows that one call finds to be due after their wait.
	ripeRows = 500
)

// Lease implements tasks.Store. An empty queue costs a read, which waits for
// nobody.
//
// What a call looks at is bounded by the number of classes and by the limit of
// the request, never by the number of tasks: lanes.go finds the first due task
// of each class by an index, and merges them.
func (s *Store) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	return s.leaseFor(ctx, "", req)
}

// leaseFor leases for a caller of that name, or for this Gantry.
func (s *Store) leaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	req.Limit = min(req.Limit, leaseRows)
	if !req.WantsAny() {
		return nil, nil
	}
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	due, until, err := s.anyDue(ctx, req, after)
	if err != nil {
		return nil, fmt.Errorf("look for due tasks: %w", err)
	}
	more := false
	var leased []tasks.Task
	if due {
		err := s.write(ctx, func(tx *txn) (err error) {
			sr := &search{conn: tx.conn, req: req, now: tx.now, after: after}
			leased, more, err = tx.lease(name, sr)
			until = sr.until
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("lease up to %d tasks: %w", req.Limit, err)
		}
	}
	s.mu.Lock()
	s.after = until
	s.mu.Unlock()
	if len(leased) == 0 && (more || until != "") {
		return nil, fmt.Errorf("%w: no task was due among those looked at so far", tasks.ErrSearching)
	}
	return leased, nil
}

const anyUnripeSQL = `SELECT EXISTS (SELECT 1 FROM task INDEXED BY unripe WHERE lane = 1 AND leaseExpires < ?)`

// anyDue reports whether there is something to write: a task to be leased, or
// other work that is due.
func (s *Store) anyDue(ctx context.Context, req tasks.LeaseRequest, after string) (due bool, until string, err error) {
	req.Limit = 1
	err = s.read(ctx, func(c *conn, now int64) error {
		if due = s.trimDue(now); due {
			return nil
		}
		if err := c.row(anyUnripeSQL, []any{now}, &due); err != nil || due {
			return err
		}
		sr := &search{conn: c, req: req, now: now, after: after}
		chosen, err := sr.choose()
		due, until = len(chosen) > 0, sr.until
		return err
	})
	return due, until, err
}

const (
	ripenSQL = `UPDATE task SET ripe = leaseExpires
WHERE id IN (SELECT id FROM task INDEXED BY unripe WHERE lane = 1 AND leaseExpires < ? ORDER BY leaseExpires LIMIT ?)`

	// dateModified stays, as in PhabricatorWorkerLeaseQuery.
	takeSQL = `UPDATE task SET leaseOwner = ?, leaseExpires = ? WHERE id IN (SELECT value FROM json_each(?))`
)

// lease takes the tasks that are to be leased. Nobody else writes meanwhile, so
// what was found due is.
func (tx *txn) lease(name string, sr *search) (leased []tasks.Task, more bool, err error) {
	var due bool
	if err := tx.row(anyUnripeSQL, []any{tx.now}, &due); err != nil {
		return nil, false, err
	}
	if due {
		ripe, err := tx.changed(ripenSQL, tx.now, ripeRows)
		if err != nil {
			return nil, false, err
		}
		more = ripe == ripeRows
	}
	chosen, err := sr.choose()
	if err != nil || len(chosen) == 0 {
		return nil, more, err
	}
	return chosen, more, tx.take(chosen, name, sr.req)
}

// take leases tasks under the next fence, for a caller of that name. Rows of one
// owner and expiry share an UPDATE.
func (tx *txn) take(chosen []tasks.Task, name string, req tasks.LeaseRequest) error {
	// Fences stay ahead of those that an older copy of the file may have given
	// out.
	tx.fence = max(tx.fence+1, tx.now<<16)
	type stamp struct {
		owner   string
		expires int64
	}
	stamped := map[stamp][]int64{}
	ids := make([]int64, len(chosen))
	for i := range chosen {
		t := &chosen[i]
		if holder, dead := tasks.DeadHolder(t.Owner, tx.store.nonce); dead {
			if err := tx.record(tasks.LostAttempt(*t, holder, tx.now)); err != nil {
				return err
			}
		}
		crashes := tasks.CrashesOnceTaken(t.Owner, tx.store.nonce)
		st := stamp{tx.store.ownerFor(name, tx.fence, crashes), tx.now + max(1, tasks.WholeSeconds(req.Want(t.Class).LeaseTime))}
		t.Lease = &tasks.Lease{Owner: st.owner, Fence: tx.fence, Crashes: crashes, Expires: st.expires, Prior: t.Place}
		t.Place = tasks.Place{Owner: &st.owner, Expires: &st.expires}
		stamped[st] = append(stamped[st], t.ID)
		ids[i] = t.ID
	}
	for st, ids := range stamped {
		if err := tx.exec(takeSQL, st.owner, st.expires, list(ids)); err != nil {
			return err
		}
	}
	data, err := tx.data(ids)
	for i := range chosen {
		p := data[chosen[i].ID]
		chosen[i].Data, chosen[i].Traceparent = p.data, p.traceparent
	}
	return err
}

// choose answers the tasks to be leased: new ones by (priority, id), then those
// leased before, oldest expiry first. The latter choose first within their
// share, or they would starve behind a class that new work keeps at its limit.
func (sr *search) choose() ([]tasks.Task, error) {
	sr.left = map[string]int{}
	expired, err := sr.merge(parked, held)
	if err != nil {
		return nil, err
	}
	reserved, err := sr.pick(expired, tasks.ReservedOf(sr.req.Limit))
	if err != nil {
		return nil, err
	}
	if len(reserved) == sr.req.Limit {
		return reserved, nil
	}
	news, err := sr.merge(fresh)
	if err != nil {
		return nil, err
	}
	picked, err := sr.pick(news, sr.req.Limit-len(reserved))
	if err != nil {
		return nil, err
	}
	picked = append(picked, reserved...)
	rest, err := sr.pick(expired, sr.req.Limit-len(picked))
	return slices.Concat(picked, rest), err
}

// pick takes up to n tasks, as far as the limits of their classes go.
func (sr *search) pick(m *merge, n int) (picked []tasks.Task, err error) {
	for len(picked) < n {
		task, ok, err := m.next(func(class string) bool { return sr.remaining(class) > 0 })
		if err != nil || !ok {
			return picked, err
		}
		sr.left[task.Class]--
		picked = append(picked, task)
	}
	return picked, nil
}

// remaining answers how many tasks of a class may still be leased.
func (sr *search) remaining(class string) int {
	if _, seen := sr.left[class]; !seen {
		sr.left[class] = sr.req.Want(class).Limit
	}
	return sr.left[class]
}
