package phorge

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func stands(owner string, expires int64) tasks.Place {
	return tasks.Place{Owner: &owner, Expires: &expires}
}

func unowned(expires int64) tasks.Place { return tasks.Place{Expires: &expires} }

// index is the rows of a queue. It answers windows as the statements do.
type index struct {
	now  int64
	last int64 // id
	rows []entry
}

func (x *index) window(t *trip) (rows []entry) {
	for _, e := range x.rows {
		if !t.leased && e.Owner != nil || t.leased && (e.Expires == nil || *e.Expires >= t.now) {
			continue
		}
		key, at := t.place(e)
		_, known := t.lanes[key]
		start, looked := t.starts[key]
		if !known || looked && !at.before(start) {
			rows = append(rows, e)
		}
	}
	slices.SortFunc(rows, func(a, b entry) int {
		keyA, atA := t.place(a)
		keyB, atB := t.place(b)
		return cmp.Or(cmp.Compare(keyA, keyB), cmp.Compare(atA.key, atB.key), cmp.Compare(atA.id, atB.id))
	})
	return rows[:min(len(rows), t.window)]
}

// call makes one call along both tracks. What it leases leaves the index.
func (x *index) call(t interface{ Fatalf(string, ...any) }, l *leaser, req tasks.LeaseRequest, budget int) (leased []entry, more bool) {
	l.now, l.large = x.now, true
	s := &search{leaser: l, req: req, candidates: map[int64]entry{}}
	fresh, expired := newTrip(s, &l.fresh, 4, budget), newTrip(s, &l.expired, 4, budget)
	for _, trip := range []*trip{expired, fresh} {
		looked := 0
		for trip.found < req.Limit && trip.next() {
			rows := x.window(trip)
			looked += len(rows)
			trip.pass(rows)
		}
		if looked > budget {
			t.Fatalf("%d rows were looked at, the budget is %d", looked, budget)
		}
	}
	more = fresh.end()
	more = expired.end() || more
	for id, e := range l.missed {
		if s.ready(e) {
			s.candidates[id] = e
		}
	}
	leased = choose(req, s.candidates)
	for _, e := range leased {
		delete(s.candidates, e.id)
		delete(l.missed, e.id)
		x.rows = slices.DeleteFunc(x.rows, func(o entry) bool { return o.id == e.id })
	}
	l.remember(s.candidates)
	return leased, more
}

// due answers the rows that the request should lease sooner or later.
func (x *index) due(req tasks.LeaseRequest) (ids []int64) {
	for _, e := range x.rows {
		if due(e.Place, x.now) && req.Want(e.class).Limit > 0 {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// add appends a row with the next id.
func (x *index) add(class string, priority int64, place tasks.Place) {
	x.last++
	x.rows = append(x.rows, entry{x.last, priority, class, place})
}

// grow lets time pass and appends rows, in runs of one class as they come in
// real queues, where no cursor can have been: the ids ascend, and no lease
// ended before the last call.
func (x *index) grow(t *rapid.T) {
	before := x.now
	x.now += 100
	class := ""
	for range rapid.IntRange(0, 60).Draw(t, "rows") {
		if class == "" || rapid.IntRange(0, 7).Draw(t, "end of the run") == 0 {
			class = rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "class")
		}
		x.add(class, rapid.SampledFrom([]int64{0, 1000, 2000, 2001}).Draw(t, "priority"), rapid.SampledFrom([]tasks.Place{
			{}, {}, {}, unowned(0), unowned(x.now - 1), unowned(x.now + 50), unowned(x.now + 500),
			stands("111:host", before), stands("111:host", x.now-1), stands("111:host", x.now),
			stands(tasks.YieldOwner, before+7), stands(tasks.YieldOwner, x.now+50), {Owner: new(string)},
		}).Draw(t, "place"))
	}
}

func drawRequest(t *rapid.T) tasks.LeaseRequest {
	limit := rapid.IntRange(0, 5)
	req := tasks.LeaseRequest{
		Limit:   rapid.IntRange(1, 20).Draw(t, "limit"),
		Others:  tasks.ClassRequest{Limit: limit.Draw(t, "others")},
		Classes: map[string]tasks.ClassRequest{},
	}
	for _, class := range []string{"A", "B"} {
		if rapid.Bool().Draw(t, "named "+class) {
			req.Classes[class] = tasks.ClassRequest{Limit: limit.Draw(t, class)}
		}
	}
	return req
}

// Whatever was wanted before, in whatever order rows came: calls that go on as
// long as there is more lease everything that is due and wanted.
func TestCursorsLeaveNothingBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := index{now: 1_000_000}
		var l leaser
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			x.grow(t)
			req, budget := drawRequest(t), rapid.IntRange(3, 40).Draw(t, "budget")
			for range rapid.IntRange(0, 5).Draw(t, "calls") {
				x.call(t, &l, req, budget)
			}
		}
		req, budget := drawRequest(t), rapid.IntRange(3, 40).Draw(t, "budget")
		for calls := 0; ; calls++ {
			leased, more := x.call(t, &l, req, budget)
			if len(leased) == 0 && !more {
				break
			}
			if calls > 1000 {
				t.Fatalf("the search does not end; left: %v", x.due(req))
			}
		}
		if left := x.due(req); len(left) > 0 {
			t.Fatalf("rows %v are due and were not found", left)
		}
	})
}

// Classes with long queues and few slots come first in every call. Calls that
// cannot look at all of them must not always look at the same ones.
func TestClassesWithLongQueuesAndFewSlotsDoNotHideOthers(t *testing.T) {
	x := index{now: 1_000_000}
	req := tasks.LeaseRequest{Limit: 100, Classes: map[string]tasks.ClassRequest{}}
	for class := range 20 {
		name := string(rune('A' + class))
		req.Classes[name] = tasks.ClassRequest{Limit: 1}
		for range 100 {
			place := tasks.Place{}
			if class%2 == 1 {
				place = stands("111:host", x.last)
			}
			x.add(name, 2000, place)
		}
	}
	var l leaser
	got := map[string]int{}
	for range 400 {
		leased, _ := x.call(t, &l, req, 16)
		for _, e := range leased {
			got[e.class]++
		}
	}
	for class := range req.Classes {
		if got[class] < 30 {
			t.Errorf("class %s was leased %d times in 400 calls", class, got[class])
		}
	}
}

func TestAPriorityNeverSeenIsFoundByTheNextCall(t *testing.T) {
	x := index{now: 1_000_000}
	x.add("A", 2000, tasks.Place{})
	x.add("B", 4000, tasks.Place{})
	var l leaser
	x.call(t, &l, storetest.But(8, "B"), 100)
	for _, priority := range []int64{0, 1000, 2001, 3999, 4001, 1<<32 - 1} {
		x.add("A", priority, tasks.Place{})
		if leased, _ := x.call(t, &l, storetest.But(8, "B"), 100); len(leased) != 1 || leased[0].priority != priority {
			t.Errorf("priority %d: leased %v", priority, leased)
		}
	}
}

func TestAClassThatIsWantedAgainIsLeasedFromWhereItStood(t *testing.T) {
	x := index{now: 1_000_000}
	for n := range 1000 {
		x.add([]string{"A", "B"}[n%2], 2000, tasks.Place{})
	}
	var l leaser
	for more := true; more; {
		var leased []entry
		leased, more = x.call(t, &l, storetest.But(500, "A"), 100)
		more = more || len(leased) > 0
	}
	leased, _ := x.call(t, &l, storetest.Only(3, "A"), 20)
	if len(leased) != 3 || leased[0].id != 1 || leased[2].id != 5 {
		t.Errorf("leased %v, want the first three of class A", leased)
	}
}
