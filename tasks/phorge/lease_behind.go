package phorge

import "time"

const (
	// Looking behind the cursors costs no more than this while they find enough:
	// 50,000 rows a second, and a tenth of the time where reading is slow.
	perRow = time.Second / 50000
	rest   = 10

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

	next   time.Time // when to look again
	began  spot      // where the last sweep began
	looked int       // rows of the last look

	missed map[int64]entry     // due rows that were found
	locked map[int64]time.Time // until when rows are left alone
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

// ask asks for the next windows when it is time for them.
func (b *behind) ask(q *question, s *search) (asked bool) {
	now := time.Now()
	if now.Before(b.next) {
		return false
	}
	b.looked, b.began = 0, b.sweep
	b.scan(q, s, &b.sweep, entry.byID, sweepRows, fromSQL, b.sweep.id)
	b.scan(q, s, &b.recent, entry.byID, recentRows, fromSQL, max(b.recent.id, s.settled()+1))
	for n, l := range landings(s.now) {
		from := b.landings[n]
		if from.key < l.from {
			from = spot{l.from, 0}
		}
		b.scan(q, s, &b.landings[n], entry.byExpiry, landingRows, expiredSQL, l.before, from.key, from.id)
	}
	if ids := b.unlocked(now); len(ids) > 0 {
		q.ask(s.meetAll, "%s", withIDs(theseSQL, ids))
	}
	return true
}

// scan asks for a window. The next one begins behind it, or anew when this one
// is not full.
func (b *behind) scan(q *question, s *search, next *spot, at func(entry) spot, limit int, sql string, args ...any) {
	q.ask(func(rows []entry) {
		*next = spot{}
		if len(rows) == limit {
			*next = at(rows[limit-1]).next()
		}
		b.looked += len(rows)
		s.meetAll(rows)
	}, sql, append(args, limit)...)
}

// restFrom puts off the next look by what this one cost.
func (b *behind) restFrom(took time.Duration) {
	b.next = time.Now().Add(max(time.Duration(b.looked)*perRow, rest*took))
}

// whole reports whether the last sweep saw every row there is.
func (b *behind) whole() bool { return b.began == spot{} && b.sweep == spot{} }

// unlocked answers the rows that were left alone for long enough and forgets
// them.
func (b *behind) unlocked(now time.Time) (ids []int64) {
	for id, until := range b.locked {
		if !now.Before(until) {
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

func (s *search) meetAll(rows []entry) {
	for _, e := range rows {
		s.meet(e)
	}
}

// meet remembers a row that is due and lies behind the cursor of its class.
// Rows ahead of it are left for the cursor. When nobody wants the class now the
// cursor goes back, since it will look there anyway.
func (s *search) meet(e entry) {
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
