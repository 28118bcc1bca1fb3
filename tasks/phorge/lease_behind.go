package phorge

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// Looking behind the cursors costs no more than this while they find enough:
	// 50,000 rows a second, and a tenth of the time where reading is slow.
	perRow = time.Second / 50000
	rest   = 10

	// longestRest is for a look that took long because somebody had the table
	// locked: it says nothing of what the next one costs.
	longestRest = time.Second

	// lockedPause is how long a row is left alone that could not be locked.
	lockedPause = 100 * time.Millisecond

	// maxMissed bounds the due rows that are remembered. Others are found again
	// by the sweep.
	maxMissed = 1000
)

// behind finds rows that are due where the cursors have been: tasks that became
// visible late, whose priority was changed, that were freed, delayed, awakened
// or given back, that were locked, or that a dead Gantry held. Its scans go
// round and round, a window a time: the sweep through all rows, which in the
// end finds every one of these; another one through the latest ids; and three
// through the expiries that programs write to make a row due.
type behind struct {
	sweep, recent spot
	landings      [3]spot

	next time.Time // when to look again

	missed map[int64]entry     // due rows that were found
	locked map[int64]time.Time // until when rows are left alone; then they are looked at
}

// returned are the ids of tasks that this process gave back. They are looked at
// with the next call, because they were first in line.
type returned struct {
	mu  sync.Mutex
	ids []int64
}

// lookAgain notes the tasks that wait for nothing after they were settled.
func (r *returned) lookAgain(settlements []tasks.Settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range settlements {
		_, archives := s.Outcome.Kind.Result()
		if !archives && s.Outcome.Kind != tasks.Yielded && s.Outcome.Wait <= 0 && len(r.ids) < maxMissed {
			r.ids = append(r.ids, s.ID)
		}
	}
}

func (r *returned) take() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := r.ids
	r.ids = nil
	return ids
}

// landing is a range of expiries. It holds rows that were written up to the
// settling time ago, since the clock is read before the COMMIT.
type landing struct {
	from   int64
	before string
}

func landings(now int64) [3]landing {
	settling := int64(settling / time.Second)
	return [...]landing{
		{0, `1`}, // bin/worker retry
		{now - 3600 - settling, `UNIX_TIMESTAMP() - 3599`}, // PhabricatorWorker::awakenTaskIDs
		{now - settling, clockNow},                         // bin/worker free, phd start, and time itself
	}
}

// scan is one window of a scan.
type scan struct {
	next      *spot // where the next window begins: behind this one, or anew when it is not full
	at        func(entry) spot
	limit     int
	statement string
}

// lookBehind reads the next window of each scan when it is time for them.
func (s *Store) lookBehind(ctx context.Context, sr *search) error {
	began, from := time.Now(), sr.sweep
	if began.Before(sr.next) && !sr.cursorsOnly {
		return nil
	}
	for _, w := range sr.scans() {
		rows, err := s.look(ctx, w.statement)
		if err != nil {
			return err
		}
		*w.next = spot{}
		if len(rows) == w.limit {
			*w.next = w.at(rows[w.limit-1]).next()
		}
		sr.looked += len(rows)
		if w.next == &sr.sweep {
			// What lies in this window is known again below; the rest is gone.
			maps.DeleteFunc(sr.missed, func(id int64, _ entry) bool {
				return id >= from.id && (sr.sweep == spot{} || id < sr.sweep.id)
			})
		}
		for _, e := range rows {
			sr.meet(e)
		}
	}
	took := time.Since(began)
	sr.small = from == spot{} && sr.sweep == spot{} && took <= tooSlow
	sr.next = began.Add(took + restAfter(sr.looked, took))
	return nil
}

// restAfter answers for how long nothing is looked at behind the cursors after
// a look that read so many rows.
func restAfter(rows int, took time.Duration) time.Duration {
	return min(max(time.Duration(rows)*perRow, took*rest), longestRest)
}

func (s *search) scans() []scan {
	scans := []scan{{&s.sweep, entry.byID, sweepRows, fmt.Sprintf(fromSQL, s.sweep.id, sweepRows)}}
	if settled := s.settled(); settled < s.ids.newest {
		from := max(s.recent.id, settled+1)
		scans = append(scans, scan{&s.recent, entry.byID, recentRows, fmt.Sprintf(fromSQL, from, recentRows)})
	}
	for n, l := range landings(s.now) {
		from := s.landings[n]
		if from.key < l.from {
			from = spot{l.from, 0}
		}
		scans = append(scans, scan{&s.landings[n], entry.byExpiry, landingRows,
			fmt.Sprintf(expiredSQL, l.before, from.key, from.id, landingRows)})
	}
	if ids := append(s.returned.take(), s.unlocked(time.Now())...); len(ids) > 0 {
		scans = append(scans, scan{new(spot), entry.byID, len(ids), withIDs(theseSQL, ids)})
	}
	return scans
}

// unlocked answers the rows that were left alone for long enough and forgets
// them.
func (b *behind) unlocked(now time.Time) (ids []int64) {
	for id, until := range b.locked {
		if !now.Before(until) && len(ids) < batchRows {
			ids = append(ids, id)
			delete(b.locked, id)
		}
	}
	return ids
}

// resting reports whether a row is still to be left alone.
func (b *behind) resting(id int64) bool { return time.Now().Before(b.locked[id]) }

// leaveAlone notes a row that could not be locked.
func (b *behind) leaveAlone(id int64) {
	if b.locked == nil {
		b.locked = map[int64]time.Time{}
	}
	b.locked[id] = time.Now().Add(lockedPause)
}

// meet remembers a row that is due and lies behind the cursor of its class.
// Rows ahead of it are left for the cursor. When nobody wants the class now the
// cursor goes back, since it will look there anyway.
func (s *search) meet(e entry) {
	delete(s.missed, e.id) // as it was
	if !due(e.Place, s.now) {
		return
	}
	t, key, at := s.place(e)
	ln := t.lanes[key]
	switch {
	case ln == nil, !at.before(ln.cursor(e.class)):
	case s.req.Want(e.class).Limit <= 0:
		ln.hold(e.class, at)
	case s.ready(e) && len(s.missed) < maxMissed:
		if s.missed == nil {
			s.missed = map[int64]entry{}
		}
		s.missed[e.id] = e
	}
}
