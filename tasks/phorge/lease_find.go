package phorge

import (
	"context"
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
	var all []entry
	var q question
	q.ask(func(rows []entry) { all = rows }, fromSQL, 0, sweepRows)
	took, err := s.look(ctx, q)
	if err != nil {
		return err
	}
	again := sr.slow
	sr.slow = took > tooSlow
	if sr.large = len(all) == sweepRows || again && sr.slow; sr.large {
		sr.sweep, sr.recent, sr.landings, sr.next = spot{}, spot{}, [3]spot{}, time.Time{}
		return nil
	}
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
	fresh := newTrip(sr, &sr.fresh, max(smallWindow, sr.req.Limit), newBudget)
	expired := newTrip(sr, &sr.expired, max(smallWindow, kept(sr.req.Limit)), expiredBudget)
	var q question
	behind := sr.behind.ask(&q, sr)
	for err == nil {
		if expired.found < kept(sr.req.Limit) || fresh.done && fresh.found+expired.found < sr.req.Limit {
			expired.ask(&q)
		}
		if fresh.found < sr.req.Limit {
			fresh.ask(&q)
		}
		if len(q) == 0 {
			break
		}
		var took time.Duration
		if took, err = s.look(ctx, q); behind && err == nil {
			sr.restFrom(took)
			sr.small = sr.whole() && took <= tooSlow
		}
		q, behind = nil, false
	}
	for id, e := range sr.missed {
		if sr.ready(e) {
			sr.candidates[id] = e
		}
	}
	more = fresh.end()
	return expired.end() || more, err
}
