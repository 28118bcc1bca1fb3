package phorge

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// What one call may look at, in rows. Together with the rows of a batch of 64,
// which are then locked, updated and read, it stays below 2,000 index entries.
const (
	newBudget     = 550
	expiredBudget = 350
	sweepRows     = 500 // also the size from which a queue is large
	recentRows    = 400
	landingRows   = 200

	// smallWindow is the least worth a round trip.
	smallWindow = 32
)

// tooSlow is how long a look at a small queue may take. Two longer ones mean that
// deleted rows are not purged, because somebody holds a snapshot open, and that
// cursors are needed to get past them.
const tooSlow = 25 * time.Millisecond

// search is one call's search for due tasks.
type search struct {
	*leaser
	req        tasks.LeaseRequest
	candidates map[int64]entry
	small      bool // the queue turned out to be small again
	refused    bool // candidates could not be locked, or were no longer due
}

// ripe answers the highest id of a class that is old enough to be picked up.
func (s *search) ripe(class string) int64 {
	if delay := s.req.Want(class).PickupDelay; delay > 0 {
		return s.ids.older(delay, time.Now())
	}
	return math.MaxInt64
}

// ready reports whether a row that may lie anywhere can be leased.
func (s *search) ready(e entry) bool {
	return due(e.Place, s.now) && s.req.Want(e.class).Limit > 0 && e.id <= s.ripe(e.class) && !s.resting(e.id)
}

// find collects candidates. It reports whether there are rows which it did not
// look at.
func (s *Store) find(ctx context.Context, sr *search) (more bool, err error) {
	if !sr.large {
		if err := s.findInSmall(ctx, sr); err != nil || !sr.large {
			return false, err
		}
	}
	return s.findInLarge(ctx, sr)
}

// findInSmall looks at every row, unless there turn out to be too many.
func (s *Store) findInSmall(ctx context.Context, sr *search) error {
	began := time.Now()
	all, err := s.look(ctx, fmt.Sprintf(fromSQL, 0, sweepRows))
	if err != nil {
		return err
	}
	again := sr.slow
	sr.slow = time.Since(began) > tooSlow
	if sr.large = len(all) == sweepRows || again && sr.slow; sr.large {
		sr.behind = behind{locked: sr.locked}
		return nil
	}
	sr.ids.add(time.Now(), sr.top)
	for _, e := range all {
		if sr.ready(e) {
			sr.candidates[e.id] = e
		}
	}
	sr.unlocked(time.Now())
	return nil
}

// findInLarge goes along both tracks until the batch is full or the budgets
// are spent, and looks behind the cursors when it is time.
func (s *Store) findInLarge(ctx context.Context, sr *search) (more bool, err error) {
	if err := s.lookBehind(ctx, sr); err != nil {
		return false, err
	}
	limit := sr.req.Limit
	fresh := newTrip(sr, &sr.fresh, max(smallWindow, limit), newBudget)
	expired := newTrip(sr, &sr.expired, max(smallWindow, kept(limit)), expiredBudget)
	err = s.walk(ctx, expired, kept(limit))
	if err == nil {
		err = s.walk(ctx, fresh, limit)
	}
	if err == nil {
		err = s.walk(ctx, expired, limit-fresh.found)
	}
	for id, e := range sr.missed {
		if sr.ready(e) {
			sr.candidates[id] = e
		}
	}
	more = fresh.end()
	return expired.end() || more, err
}

// walk reads windows until so many tasks are found.
func (s *Store) walk(ctx context.Context, t *trip, wanted int) error {
	for t.found < wanted && t.next() {
		statement := fmt.Sprintf(newSQL, newRanges(t), t.window)
		if t.leased {
			statement = fmt.Sprintf(expiredSQL, clockNow, t.starts[0].key, t.starts[0].id, t.window)
		}
		rows, err := s.look(ctx, statement)
		if err != nil {
			return err
		}
		t.pass(rows)
	}
	return nil
}
