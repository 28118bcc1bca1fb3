package phorge

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	heldSQL = `SELECT id, leaseOwner, leaseExpires, UNIX_TIMESTAMP()
FROM worker_activetask FORCE INDEX (PRIMARY) WHERE id IN (%ids) ORDER BY id`

	extendSQL = `UPDATE worker_activetask FORCE INDEX (PRIMARY) SET leaseExpires = ? WHERE id IN (%ids)`
)

// Renew implements tasks.Store. Most calls only look: one read by primary key,
// which locks nothing. What needs it is extended in one transaction.
//
// A lease is never found lost by counting changed rows: a renewal within the
// same second changes none.
func (s *Store) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	answers := make([]tasks.Renewed, len(renewals))
	if len(renewals) == 0 {
		return answers, nil
	}
	ids := make([]int64, len(renewals))
	for i, r := range renewals {
		ids[i] = r.ID
	}
	found, err := s.db.QueryContext(ctx, withIDs(heldSQL, ids))
	if err != nil {
		return nil, fmt.Errorf("look at %d leases: %w", len(ids), s.server.explain(err))
	}
	held, err := scanLeases(found)
	if err != nil {
		return nil, fmt.Errorf("look at %d leases: %w", len(ids), s.server.explain(err))
	}
	short := map[int64]bool{}
	for i, r := range renewals {
		if answers[i] = held.answer(r); answers[i].Err == nil && held.needs(r) {
			short[r.ID] = true
		}
	}
	if len(short) == 0 {
		return answers, nil
	}
	looked := slices.Clone(answers)
	err = s.transact(ctx, func(tx *sql.Tx) error {
		copy(answers, looked)
		return s.extend(ctx, tx, renewals, short, answers)
	})
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(short), err)
	}
	return answers, nil
}

// extend extends the leases of the tasks in short, as far as they are still
// held. Of several renewals of one task each sees what the ones before it did.
//
// A row that somebody else has locked keeps the answer of the look: the next
// call comes soon, and waiting for one row would let all the other leases run
// out.
func (s *Store) extend(ctx context.Context, tx *sql.Tx, renewals []tasks.Renewal, short map[int64]bool, answers []tasks.Renewed) error {
	ids := slices.Sorted(maps.Keys(short))
	locking := heldSQL + " FOR UPDATE"
	if s.server.skipLocked {
		locking += " SKIP LOCKED"
	}
	found, err := tx.QueryContext(ctx, withIDs(locking, ids))
	if err != nil {
		return err
	}
	held, err := scanLeases(found)
	if err != nil {
		return err
	}
	expires := map[int64]int64{} // of the tasks to be extended
	for i, r := range renewals {
		_, got := held.places[r.ID]
		if !short[r.ID] || !got && s.server.skipLocked {
			continue
		}
		if answers[i] = held.answer(r); answers[i].Err == nil && held.needs(r) {
			answers[i].Expires, _ = r.Renew(held.places[r.ID], held.now)
			expires[r.ID] = answers[i].Expires
			p := held.places[r.ID]
			held.places[r.ID] = tasks.Place{Owner: p.Owner, Expires: &answers[i].Expires}
		}
	}
	until := map[int64][]int64{} // ids by epoch: one UPDATE for each lease time
	for _, id := range ids {
		if at, ok := expires[id]; ok {
			until[at] = append(until[at], id)
		}
	}
	for expires, ids := range until {
		if _, err := tx.ExecContext(ctx, withIDs(extendSQL, ids), expires); err != nil {
			return err
		}
	}
	return nil
}

// leases is where the rows of held tasks stand.
type leases struct {
	now    int64
	places map[int64]tasks.Place
}

func scanLeases(found *sql.Rows) (leases, error) {
	defer found.Close()
	held := leases{places: map[int64]tasks.Place{}}
	for found.Next() {
		var id int64
		var p tasks.Place
		if err := found.Scan(&id, &p.Owner, &p.Expires, &held.now); err != nil {
			return held, err
		}
		held.places[id] = p
	}
	return held, found.Err()
}

// answer answers a renewal that extends nothing.
func (l leases) answer(r tasks.Renewal) tasks.Renewed {
	p, ok := l.places[r.ID]
	if !ok || p.Owner == nil || *p.Owner != r.Owner {
		return tasks.Renewed{ID: r.ID, Err: fmt.Errorf("task %d is no longer held by %s: %w", r.ID, r.Owner, tasks.ErrLeaseLost)}
	}
	answer := tasks.Renewed{ID: r.ID, Revived: true}
	if p.Expires != nil {
		answer.Expires = *p.Expires
		answer.Revived = *p.Expires <= l.now
	}
	return answer
}

// needs reports whether less than two thirds of the lease time are left.
func (l leases) needs(r tasks.Renewal) bool {
	_, extend := r.Renew(l.places[r.ID], l.now)
	return extend
}
