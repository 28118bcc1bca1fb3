package phorge

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// What one call may look at, in rows. Together with the rows of a batch of 64,
// which are then locked, updated and read, it stays below 2,000 index entries.
const (
	callRows    = 1600 // in all
	alongRows   = 900  // along the tracks
	sweepRows   = 500  // also the size from which a queue is large
	recentRows  = 400
	landingRows = 200

	// smallWindow is the least worth a round trip.
	smallWindow = 32
)

// tooSlow is how long a look at a small queue may take. Two longer ones mean that
// deleted rows are not purged, because somebody holds a snapshot open, and that
// cursors are needed to get past them.
var tooSlow = 25 * time.Millisecond

// lately is how long a row that becomes visible after its id was given out is
// waited for with every call, and not only with the next second.
const lately = 2 * time.Second

// search is one call's search for due tasks.
type search struct {
	*leaser
	name       string // of the caller, empty for this Gantry
	req        tasks.LeaseRequest
	candidates map[int64]entry
	looked     int  // rows, without those along the tracks
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
	if sr.large = len(all) == sweepRows || again && sr.slow || sr.cursorsOnly; sr.large {
		// Nothing is behind the cursors yet, and the sweep has begun. It goes on
		// within this very call when reading is slow, so this counts too.
		sr.looked = len(all)
		sr.behind = behind{next: began.Add(time.Duration(len(all)) * perRow)}
		if n := len(all); n > 0 {
			sr.sweep = all[n-1].byID().next()
		}
		return nil
	}
	sr.ids.add(time.Now())
	for _, e := range all {
		if sr.ready(e) {
			sr.candidates[e.id] = e
		}
	}
	sr.unlocked(time.Now())
	sr.returned.take()
	return nil
}

// findInLarge looks behind the cursors when it is time, and then goes along
// both tracks until the batch is full or the budgets are spent.
func (s *Store) findInLarge(ctx context.Context, sr *search) (more bool, err error) {
	if err := s.sample(ctx); err != nil {
		return false, err
	}
	if err := s.lookBehind(ctx, sr); err != nil {
		return false, err
	}
	if calm := sr.calm(); !calm || !sr.idle.knows(sr.req, sr.now) {
		if more, err = s.goAlong(ctx, sr); err != nil {
			return false, err
		}
		if calm && !more && len(sr.candidates) == 0 {
			sr.idle.add(sr.req, sr.now)
		} else {
			sr.idle = idle{}
		}
	}
	for id, e := range sr.missed {
		if _, found := sr.candidates[id]; !found && sr.ready(e) {
			sr.candidates[id] = e
		}
	}
	return more, nil
}

// sample reads the clock of the database and how high the task ids stand.
func (s *Store) sample(ctx context.Context) error {
	var counter int64
	if err := s.db.QueryRowContext(ctx, sampleSQL).Scan(&s.leaser.now, &counter); err != nil {
		return fmt.Errorf("look for due tasks: %w", s.server.explain(err))
	}
	s.leaser.ids.see(counter)
	s.leaser.ids.add(time.Now())
	return nil
}

// idle is what calls asked for that found nothing within one second. As long as
// it lasts and all is calm, nothing can become due ahead of the cursors, and an
// idle queue is asked no more than the sample. A runtime asks in turn for the
// classes that run here and those that run there, hence more than one.
type idle struct {
	now   int64
	asked []tasks.LeaseRequest
}

// maxIdle is more than the requests that a runtime makes in turn.
const maxIdle = 8

func (i *idle) knows(req tasks.LeaseRequest, now int64) bool {
	return i.now == now && slices.ContainsFunc(i.asked, func(asked tasks.LeaseRequest) bool {
		return asked.Others == req.Others && maps.Equal(asked.Classes, req.Classes)
	})
}

func (i *idle) add(req tasks.LeaseRequest, now int64) {
	if i.now != now || len(i.asked) == maxIdle {
		*i = idle{now: now}
	}
	req.Classes = maps.Clone(req.Classes)
	i.asked = append(i.asked, req)
}

// calm reports whether every id was given out so long ago that its row is there
// and old enough for everybody.
func (l *leaser) calm() bool {
	return l.ids.newest == l.ids.older(max(lately, l.ids.keep), time.Now())
}

// goAlong goes along both tracks. Expired rows come first within their share,
// and last beyond it.
func (s *Store) goAlong(ctx context.Context, sr *search) (more bool, err error) {
	limit, rows := sr.req.Limit, min(alongRows, callRows-sr.looked)
	fresh := newTrip(sr, &sr.fresh, max(smallWindow, limit), rows*3/5)
	expired := newTrip(sr, &sr.expired, max(smallWindow, tasks.ReservedOf(limit)), rows*2/5)
	err = s.walk(ctx, expired, func() bool { return expired.found >= tasks.ReservedOf(limit) })
	if err == nil {
		err = s.walk(ctx, fresh, func() bool { return fresh.found >= limit })
	}
	if err == nil && fresh.found < limit {
		// What was found may count for less, since both share the limits of classes.
		err = s.walk(ctx, expired, func() bool { return len(choose(sr.req, sr.candidates)) >= limit })
	}
	more = fresh.end()
	return expired.end() || more, err
}

// walk reads windows until there is enough.
func (s *Store) walk(ctx context.Context, t *trip, enough func() bool) error {
	for !enough() && t.next() {
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
