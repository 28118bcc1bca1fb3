package phorge

import "math"

// track is one of the two orders in which tasks become due: new ones by
// (priority, id), with a lane for each priority, and those that were leased
// before by (leaseExpires, id), with the lane 0 alone.
type track struct {
	lanes map[int64]*lane

	// served are the classes that had their fill when the last call ran out of
	// rows to look at; the next one passes over them. Otherwise classes with
	// long queues and few slots would hide all the others.
	served map[string]bool
}

func (t *track) lane(key int64) *lane {
	ln := t.lanes[key]
	if ln == nil {
		if t.lanes == nil {
			t.lanes = map[int64]*lane{}
		}
		ln = &lane{}
		t.lanes[key] = ln
	}
	return ln
}

// trip is the way of one call along a track, window by window.
type trip struct {
	*track
	*search
	leased bool // along which of the two

	window int            // rows of the next window
	budget int            // rows that may still be looked at
	starts map[int64]spot // of the window under way, by lane
	done   bool           // there is nothing more

	found int
	count map[string]int // found, by class
	stops map[stop]bool
}

// stop is where a trip takes no more tasks: in one lane, of one class.
type stop struct {
	lane  *lane
	class string
}

func newTrip(s *search, t *track, window, budget int) *trip {
	return &trip{
		track: t, search: s, leased: t == &s.expired, window: window, budget: budget,
		count: map[string]int{}, stops: map[stop]bool{},
	}
}

// active reports whether more tasks of a class may come from a lane.
func (t *trip) active(ln *lane, class string) bool {
	return !t.stops[stop{ln, class}] && !t.served[class] && t.count[class] < t.req.Want(class).Limit
}

// next prepares the next window and answers false when there is none.
func (t *trip) next() bool {
	t.window = min(t.window, t.budget)
	if t.done || t.window <= 0 {
		return false
	}
	if t.leased {
		t.lane(0)
	}
	t.starts = map[int64]spot{}
	for key, ln := range t.lanes {
		if start, ok := t.start(ln); ok {
			t.starts[key] = start
		}
	}
	t.done = t.leased && len(t.starts) == 0
	return !t.done
}

// start answers the first spot of a lane that an active class has not passed.
func (t *trip) start(ln *lane) (first spot, ok bool) {
	unnamed := t.req.Others.Limit > 0
	for class := range t.req.Classes {
		if _, named := ln.at[class]; !named && t.active(ln, class) {
			unnamed = true
		}
	}
	return ln.start(func(class string) bool { return t.active(ln, class) }, unnamed)
}

// pass enters the rows of a window, in their order: due ones of active classes
// are found, and the cursors of active classes move past the window.
func (t *trip) pass(rows []entry) {
	last := int64(math.MaxInt64) // the lane in which the window ended
	t.done = len(rows) < t.window
	if !t.done {
		last, _ = t.place(rows[len(rows)-1])
	}
	t.budget -= len(rows)
	t.window *= 2
	hits, ends := t.judge(rows)
	for key := range t.starts {
		ln, end := t.lanes[key], ends[key]
		if key < last && end.before(t.tail()) {
			end = t.tail()
		}
		ln.advance(end, func(class string) bool { return t.active(ln, class) })
	}
	for _, e := range hits {
		t.hit(e)
	}
}

// place answers where a row of a window stands. The index of expiries also
// holds new tasks that were freed or delayed.
func (t *trip) place(e entry) (lane int64, at spot) {
	if t.leased {
		return 0, e.byExpiry()
	}
	return e.priority, e.byID()
}

// tail is where cursors go in a lane that holds nothing more: as far as nothing
// can come, so that the rows which others lease and delete there until it is
// purged need not be crossed.
func (t *trip) tail() spot {
	if t.leased {
		return spot{t.now, 0}
	}
	return spot{0, t.settled() + 1}
}

// judge answers the rows that can be leased, and where each lane ends behind
// its last row.
func (t *trip) judge(rows []entry) (hits []entry, ends map[int64]spot) {
	ends = map[int64]spot{}
	for _, e := range rows {
		key, at := t.place(e)
		if _, known := t.lanes[key]; !known {
			t.starts[key] = spot{}
		}
		ln := t.lane(key)
		ends[key] = at.next()
		switch {
		case t.leased && e.Owner == nil:
			t.meet(e)
		case !t.active(ln, e.class):
			ln.hold(e.class, at)
		case due(e.Place, t.now):
			hits = append(hits, e)
		}
	}
	return hits, ends
}

// hit takes a due row for this call; or stops at it, when its class has its
// fill or it is too young, as those behind it are then.
func (t *trip) hit(e entry) {
	key, at := t.place(e)
	ln := t.lane(key)
	if !t.active(ln, e.class) || e.id > t.ripe(e.class) {
		t.stops[stop{ln, e.class}] = true
		ln.hold(e.class, at)
		return
	}
	t.count[e.class]++
	t.found++
	t.candidates[e.id] = e
}

// end reports whether due tasks may have been left out: because the budget ran
// out, and then it notes who had their fill, or because some had had theirs.
func (t *trip) end() (more bool) {
	if t.done || t.budget > 0 || t.found >= t.req.Limit {
		more = t.served != nil
		t.served = nil
		return more
	}
	if t.served == nil {
		t.served = map[string]bool{}
	}
	for s := range t.stops {
		t.served[s.class] = true
	}
	return true
}
