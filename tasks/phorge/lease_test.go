package phorge

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// ballast makes a queue large: with rows that are never due.
func (q *queue) ballast(from, to int64) {
	q.t.Helper()
	q.fill(rows{from: from, to: to, class: "'Ballast'", expires: "4000000000"})
}

// leaseAll calls until there is nothing more to be leased or searched, and
// answers the ids, sorted.
func leaseAll(t testing.TB, s *Store, req tasks.LeaseRequest) (ids []int64) {
	t.Helper()
	for {
		leased, err := s.Lease(t.Context(), req)
		if err == nil && len(leased) == 0 {
			slices.Sort(ids)
			return ids
		}
		if err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		ids = append(ids, idsOf(leased)...)
	}
}

// Each of these rows becomes due where the cursors have been. A row that comes
// where others put rows as well is found by the next call, any other one within
// a round of the sweep.
func TestRowsThatBecomeDueBehindTheCursorsAreFound(t *testing.T) {
	const count, next, round = 3000, 1, 3000/sweepRows + 1
	set := func(owner, expires string) string {
		return fmt.Sprintf("UPDATE worker_activetask SET leaseOwner = %s, leaseExpires = %s WHERE id = 1700", owner, expires)
	}
	held := set("'111:host'", "4000000000")
	for _, c := range []struct {
		name          string
		before, after string
		calls         int
	}{
		{"retried by bin/worker", held, set("NULL", "0"), next},
		{"freed", held, set("NULL", "UNIX_TIMESTAMP() - 1"), next},
		{"delayed until now", set("NULL", "4000000000"), set("NULL", "UNIX_TIMESTAMP() - 1"), next},
		{"swept by phd start", held, set("leaseOwner", "UNIX_TIMESTAMP() - 1"), next},
		{"awakened", set("'(yield)'", "4000000000"), set("'(yield)'", "UNIX_TIMESTAMP() - 3600"), next},
		{"held by a Gantry that died", set("'gantry:1:0:other:host'", "UNIX_TIMESTAMP() - 1"),
			set("leaseOwner", "UNIX_TIMESTAMP() - 6"), next},
		{"failed with a negative wait", held, set("'(retry):1:0'", "UNIX_TIMESTAMP() - 60"), round},
		{"given back to its place", held, set("NULL", "NULL"), round},
		{"visible late", "DELETE FROM worker_activetask WHERE id = 1700", `INSERT INTO worker_activetask
(id, taskClass, failureCount, dataID, priority, dateCreated, dateModified) VALUES (1700, 'A', 0, 0, 2000, 0, 0)`, round},
		{"made more urgent", "UPDATE worker_activetask SET taskClass = 'B', leaseExpires = NULL WHERE id = 1700",
			"UPDATE worker_activetask SET taskClass = 'A', priority = 1000 WHERE id = 1700", round},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t)
			s := q.open()
			UseCursors(s)
			q.ballast(1, count)
			q.exec("UPDATE worker_activetask SET taskClass = 'A' WHERE id = 1700")
			q.exec(c.before)
			if ids := leaseAll(t, s, storetest.Only(8, "A")); len(ids) > 0 {
				t.Fatalf("leased %v too early", ids)
			}
			q.exec(c.after)
			for range c.calls {
				if leased := lease(t, s, storetest.Only(8, "A")); len(leased) > 0 {
					return
				}
			}
			t.Errorf("%d calls did not find the row", c.calls)
		})
	}
}

// A task that was given back was first in line and is so again, before the
// sweep gets to it.
func TestTasksThatWereGivenBackAreFirstInLine(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	q.ballast(1, 3000)
	q.fill(rows{from: 3001, to: 3100})
	var first []tasks.Task
	for len(first) == 0 {
		first = lease(t, s, storetest.Any(4))
	}
	lease(t, s, storetest.Any(40))
	settlements := succeeded(first)
	for i := range settlements {
		settlements[i].Outcome = tasks.Outcome{Kind: tasks.Released}
	}
	settled(t, s, settlements)
	s.leaser.next, s.leaser.sweep = time.Time{}, spot{0, 5000}
	if again := lease(t, s, storetest.Any(4)); len(first) != 4 || !slices.Equal(idsOf(again), idsOf(first)) {
		t.Errorf("leased %v, want %v again", idsOf(again), idsOf(first))
	}
}

// A class that has no slot at the moment keeps what becomes due behind its
// cursor until it is wanted again.
func TestWhatIsFoundOfAnUnwantedClassIsNotForgotten(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	UseCursors(s)
	q.ballast(1, 3000)
	q.exec("UPDATE worker_activetask SET taskClass = 'A', leaseOwner = 'x' WHERE id = 1700")
	leaseAll(t, s, storetest.Any(8))
	q.exec("UPDATE worker_activetask SET leaseOwner = NULL, leaseExpires = NULL WHERE id = 1700")
	for range 3000/sweepRows + 1 {
		if leased := lease(t, s, storetest.But(8, "A")); len(leased) > 0 {
			t.Fatalf("leased %v", idsOf(leased))
		}
	}
	s.leaser.cursorsOnly = false // and so the sweep rests
	s.leaser.next = time.Now().Add(time.Hour)
	if ids := leaseAll(t, s, storetest.Any(8)); !slices.Equal(ids, []int64{1700}) {
		t.Errorf("leased %v, want the row that was found", ids)
	}
}

// Rows that somebody else has locked keep nobody waiting and are leased once
// they are free. Without SKIP LOCKED as with it the queue does not look empty.
func TestB24LockedRowsKeepNoOthersFromBeingLeased(t *testing.T) {
	for name, configure := range map[string]func(*Config){
		"with SKIP LOCKED":    func(*Config) {},
		"without SKIP LOCKED": func(c *Config) { c.WithoutSkipLocked = true },
	} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, large queue: %t", name, large), func(t *testing.T) {
				q := newQueue(t)
				s := q.open(configure)
				q.fill(rows{from: 1, to: 20})
				if large {
					q.ballast(21, 1000)
				}
				tx := q.begin()
				for _, id := range []int64{1, 2, 3, 10, 20} {
					lockRow(t, tx, "worker_activetask", id)
				}
				waits := q.number(rowLockWaits)
				if ids := leaseAll(t, s, storetest.Any(20)); len(ids) != 15 || slices.Contains(ids, 10) {
					t.Errorf("leased %v, want all but the locked rows", ids)
				}
				if n := q.number(rowLockWaits) - waits; n > 0 && s.server.skipLocked {
					t.Errorf("the server counts %d waits for row locks", n)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				var ids []int64
				harness.Eventually(t, "the rows that were locked are leased", func() bool {
					ids = append(ids, idsOf(lease(t, s, storetest.Any(20)))...)
					return len(ids) >= 5
				})
				if slices.Sort(ids); !slices.Equal(ids, []int64{1, 2, 3, 10, 20}) {
					t.Errorf("leased %v", ids)
				}
			})
		}
	}
}

const rowLockWaits = `SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_row_lock_waits'`

// What was due when it was read need not be due when it is locked.
func TestCandidatesThatAreNoLongerDueAreNotLeased(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	q.fill(rows{from: 1, to: 6})
	for id, place := range []string{
		"NULL, leaseExpires = UNIX_TIMESTAMP() + 60", "'111:host', leaseExpires = UNIX_TIMESTAMP() + 60",
		"'gantry:1:0:other:host', leaseExpires = UNIX_TIMESTAMP() - 2", "'111:host'", "''",
	} {
		q.exec("UPDATE worker_activetask SET leaseOwner = "+place+" WHERE id = ?", id+1)
	}
	sr := &search{leaser: &s.leaser, req: storetest.Any(8), candidates: map[int64]entry{}}
	for id := range int64(8) {
		sr.candidates[id] = entry{id: id, class: "A"}
	}
	if err := s.take(t.Context(), sr); err != nil {
		t.Fatal(err)
	}
	leased, err := s.deliver(t.Context(), "")
	if err != nil || !slices.Equal(idsOf(leased), []int64{6}) || !sr.refused {
		t.Errorf("leased %v, %v; want task 6 alone and to know that others could not be had", idsOf(leased), err)
	}
}

// A lock on the data does not keep the task from being leased with its data.
func TestTasksWhoseDataIsLockedComeWithTheirData(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	q.fill(rows{from: 1, to: 2})
	lockRow(t, q.begin(), "worker_taskdata", 1)
	leased := lease(t, s, storetest.Any(2))
	if len(leased) != 2 || string(leased[0].Data) != `{"n":1}` {
		t.Errorf("leased %+v", leased)
	}
}

func TestB17EveryClassHasItsOwnLeaseTime(t *testing.T) {
	q := newQueue(t)
	s := q.open(standing(t))
	q.fill(rows{from: 1, to: 3, class: "ELT(seq, 'A', 'B', 'C')"})
	req := storetest.Any(3)
	req.Others.LeaseTime = 10 * time.Second
	req.Classes = map[string]tasks.ClassRequest{
		"A": {Limit: 1, LeaseTime: time.Minute}, "B": {Limit: 1, LeaseTime: 1500 * time.Millisecond},
	}
	want := map[string]int64{"A": 60, "B": 2, "C": 10}
	leased := lease(t, s, req)
	for _, task := range leased {
		got := task.Lease.Expires - 2_000_000_000
		row := q.number("SELECT leaseExpires FROM worker_activetask WHERE id = ?", task.ID) - 2_000_000_000
		if got != want[task.Class] || row != got {
			t.Errorf("the lease of class %s lasts %d s, in the row %d s, want %d s", task.Class, got, row, want[task.Class])
		}
	}
	if len(leased) != 3 {
		t.Errorf("%d tasks were leased, want 3", len(leased))
	}
}

// Polling an idle queue writes nothing and takes no fence. A small queue costs
// one read a poll, and a large one in which nothing can be due no window along
// the cursors.
func TestIdlePollsAreCheap(t *testing.T) {
	inTurn := []tasks.LeaseRequest{storetest.Any(8), {Limit: 8, Classes: map[string]tasks.ClassRequest{"A": {Limit: 8}}}}
	statements := func(q *queue, s *Store, polls int) int64 {
		selects := `SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Com_select'`
		own := q.number(selects)
		own -= q.number(selects)
		before := q.number(selects) - own
		for i := range polls {
			if leased, err := s.Lease(t.Context(), inTurn[i%2]); err != nil || len(leased) > 0 {
				t.Fatalf("leased %v, %v", leased, err)
			}
		}
		return q.number(selects) - before
	}
	q := newQueue(t)
	s := q.open()
	q.ballast(1, 400)
	if n := statements(q, s, 20); n != 20 {
		t.Errorf("20 polls of a small queue were %d reads", n)
	}
	q.ballast(401, 3000)
	for calm := false; !calm; calm = len(s.leaser.idle.asked) > 0 {
		leaseAll(t, s, storetest.Any(8))
	}
	s.leaser.next = time.Now().Add(time.Hour) // the scans behind the cursors rest
	harness.Eventually(t, "a second in which nothing happens", func() bool {
		for _, req := range inTurn {
			lease(t, s, req)
		}
		return statements(q, s, 10) == 10
	})
	if n := q.number("SELECT COUNT(*) FROM lisk_counter WHERE counterName = 'gantry_fence'"); n != 0 {
		t.Error("a fence was taken")
	}
}

// A new task is leased by the first call after it is visible, also when all has
// been calm before.
func TestFreshTasksAreLeasedByTheNextCall(t *testing.T) {
	for _, size := range []int64{0, 400, 3000} {
		t.Run(fmt.Sprintf("in a queue of %d", size), func(t *testing.T) {
			q := newQueue(t)
			s := q.open()
			if size > 0 {
				q.ballast(1, size)
			}
			leaseAll(t, s, storetest.Any(8))
			if size >= sweepRows {
				harness.Eventually(t, "all is calm", func() bool {
					leaseAll(t, s, storetest.Any(8))
					return len(s.leaser.idle.asked) > 0
				})
			}
			for range 5 {
				id := enqueue(t, s, news(1, "A")...)[0]
				if leased := lease(t, s, storetest.Any(8)); !slices.Equal(idsOf(leased), []int64{id}) {
					t.Errorf("leased %v, want %d", idsOf(leased), id)
				}
			}
		})
	}
}

// Small queues are read whole, large ones are not, and back again.
func TestAQueueGrowsAndShrinks(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	for round := range int64(3) {
		first := 10_000*round + 1
		q.ballast(first, first+1999)
		q.fill(rows{from: first + 2000, to: first + 2009})
		if ids := leaseAll(t, s, storetest.Any(8)); len(ids) != 10 {
			t.Errorf("leased %v, want 10 tasks", ids)
		}
		if !s.leaser.large {
			t.Error("a queue of 2,000 rows was read whole")
		}
		q.exec("DELETE FROM worker_activetask WHERE id < ?", first+2005)
		harness.Eventually(t, "the queue is read whole", func() bool {
			leaseAll(t, s, storetest.Any(8))
			return !s.leaser.large
		})
		if s.leaser.fresh.lanes != nil || len(s.leaser.missed) > 0 {
			t.Error("cursors are left")
		}
	}
}
