package phorge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// leaser is what a Store remembers of the queue between Lease calls.
//
// A scan from the head of the queue, as stock Phorge makes it, reads the whole
// backlog when the head holds rows that must be passed over: delayed ones,
// classes that nobody wants here, rows deleted but not purged. A Lease call
// looks at a bounded number of rows instead. It works like this:
//
//  1. A small queue, below 500 rows, is read whole. Nothing is remembered, and
//     the choice is exact. All of the rest is for large ones.
//  2. Cursors, one for each class in each lane (lease_lane.go), remember how
//     far the two orders of lease_choose.go were looked through. Windows of
//     rows are read from the cursors on (lease_track.go), plainly, without
//     locks, and unsuitable rows are passed over here, not in SQL.
//  3. Cursors only move on. Rows that become due behind them are found by
//     scans that go round and round (lease_behind.go).
//  4. What was found are candidates; some are chosen. The others are looked at
//     again: their class's cursor goes back to the first of them.
//  5. The chosen are locked by id, as far as nobody else has them locked, and
//     taken if they are still due (lease_take.go).
//
// What was decided without a lock decides nothing, so a forgotten or outdated
// memory costs time and never a task.
type leaser struct {
	mu sync.Mutex

	large bool // the queue was too large to be read whole
	slow  bool // reading it whole took long

	// cursorsOnly treats every queue as a large one and puts nothing off. It is
	// for tests.
	cursorsOnly bool

	now            int64 // by the clock of the database
	ids            ring
	fresh, expired track
	behind
	returned
	idle idle

	// undelivered are tasks that were leased and not answered, because the
	// COMMIT was not answered or their data could not be read, by the name of
	// the caller they were leased for.
	undelivered map[string][]*row
}

// settled answers the highest id below which no task is expected to become
// visible any more.
func (l *leaser) settled() int64 { return l.ids.settled(time.Now()) }

// Lease implements tasks.Store. Calls of one Store wait for each other.
func (s *Store) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	return s.leaseFor(ctx, "", req)
}

// leaseFor leases for a caller of that name, or for this Gantry when it is
// empty.
func (s *Store) leaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	l := &s.leaser
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.undelivered[name]) > 0 {
		if leased, err := s.deliverLate(ctx, name); len(leased) > 0 || err != nil {
			return leased, err
		}
	}
	req.Limit = min(req.Limit, batchRows)
	if !req.WantsAny() {
		return nil, nil
	}
	sr := &search{leaser: l, name: name, req: req, candidates: map[int64]entry{}}
	more, err := s.find(ctx, sr)
	if err == nil {
		err = s.take(ctx, sr)
	}
	l.remember(sr.candidates)
	if sr.small && !l.cursorsOnly {
		l.fresh, l.expired, l.missed, l.large = track{}, track{}, nil, false
	}
	if err != nil {
		return nil, err
	}
	if len(l.undelivered[name]) > 0 {
		return s.deliver(ctx, name)
	}
	if more || sr.refused {
		return nil, fmt.Errorf("%w: no task was due among those looked at so far", tasks.ErrSearching)
	}
	return nil, nil
}

// remember makes sure that candidates which were not leased are found again.
func (l *leaser) remember(left map[int64]entry) {
	if !l.large {
		return
	}
	for id, e := range left {
		if _, missed := l.missed[id]; missed {
			continue
		}
		t, key, at := l.place(e)
		t.lane(key).hold(e.class, at)
	}
}

// place answers where a row stands among those that become due.
func (l *leaser) place(e entry) (t *track, lane int64, at spot) {
	if e.Owner == nil {
		return &l.fresh, e.priority, e.byID()
	}
	return &l.expired, 0, e.byExpiry()
}
