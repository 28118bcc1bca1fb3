package phorge

import (
	"context"
	"database/sql"
	"math"

	"github.com/phorge-gantry/gantry/tasks"
)

// outcomes collects what a transaction writes, in the order in which it
// writes: the archive, the rows that stay, the follow-ups.
type outcomes struct {
	now      int64
	archived []archived
	saved    []*row
	queued   []queued
}

// settle applies an outcome to a row that the caller holds. For a row that
// goes to the archive it answers the result.
func (o *outcomes) settle(r *row, s tasks.Settlement, ids []int64) (result int, archives bool) {
	if result, archives = s.Outcome.Kind.Result(); archives {
		a := tasks.Archive{Result: result, Epoch: o.now}
		if result == tasks.ResultSuccess {
			a.Duration = max(0, s.Outcome.Duration.Microseconds())
			o.queued = append(o.queued, newRows(s.Outcome.FollowUps, ids, r.Priority)...)
		}
		o.archived = append(o.archived, archived{r, a})
		return result, true
	}
	if s.Outcome.Kind == tasks.Retry || s.Outcome.Kind == tasks.Crashed {
		r.FailureCount = min(r.FailureCount+1, math.MaxUint32)
		r.FailureTime = &o.now
	}
	r.Place = s.Lease.PlaceAfter(s.Outcome, o.now)
	if s.Outcome.Kind != tasks.Released { // as leasing: nothing came of the task
		r.DateModified = o.now
	}
	o.saved = append(o.saved, r)
	return 0, false
}

// leftBy reports whether a row stands where this very settlement puts it. In
// doubt, when it may have been written a moment ago, owners tell enough that do
// not tell whose settlement it was.
func leftBy(s tasks.Settlement, at tasks.Place, doubt bool) bool {
	if _, archives := s.Outcome.Kind.Result(); !doubt || archives {
		return s.Left(at)
	}
	left := s.Lease.PlaceAfter(s.Outcome, 0).Owner
	if left == nil || at.Owner == nil {
		return left == nil && at.Owner == nil
	}
	return *left == *at.Owner
}

// trace is what an archived row says about the settlement that archived it.
type trace struct {
	owner  *string
	result int
}

const tracesSQL = `SELECT id, leaseOwner, result FROM worker_archivetask FORCE INDEX (PRIMARY) WHERE id IN (%ids)`

func readTraces(ctx context.Context, tx *sql.Tx, ids []int64) (map[int64]trace, error) {
	traces := map[int64]trace{}
	if len(ids) == 0 {
		return traces, nil
	}
	found, err := tx.QueryContext(ctx, withIDs(tracesSQL, ids))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var t trace
		if err := found.Scan(&id, &t.owner, &t.result); err != nil {
			return nil, err
		}
		traces[id] = t
	}
	return traces, found.Err()
}
