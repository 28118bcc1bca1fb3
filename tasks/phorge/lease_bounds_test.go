package phorge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// maxEntries is what one call may read, all phases together.
const maxEntries = 2000

// A queue of a million rows in which everything that can stand in front of due
// work does: delayed rows at the head, a class of nine tenths of all rows that
// is not wanted, and rows freed by bin/worker retry in front of all expired
// ones. What is due lies behind them.
func TestBadQueuesAreSearchedInBoundedCalls(t *testing.T) {
	n := int64(1_000_000)
	if testing.Short() {
		n = 100_000
		t.Logf("NOT PROVEN at 1,000,000 rows because of -short: %d rows only", n)
	}
	q := newQueue(t)
	q.fill(
		rows{from: 1, to: n / 10, class: "'Delayed'", priority: "1000", expires: "UNIX_TIMESTAMP() + 86400"},
		rows{from: n/10 + 1, to: 7 * n / 10, class: "'Excluded'"},
		rows{from: 7*n/10 + 1, to: n, class: "'Excluded'", priority: "3000", expires: "0"},
		rows{from: n + 1, to: n + 1000, class: "CONCAT('C', seq % 100)", priority: "4000"},
		rows{from: n + 1001, to: n + 2000, class: "CONCAT('E', seq % 100)", owner: "'111:host'", expires: "UNIX_TIMESTAMP() - 100"},
	)
	for _, c := range []struct {
		name  string
		req   tasks.LeaseRequest
		want  string // class of what is found, or how it begins
		calls int64  // until then
	}{
		{"freed rows stand before the expired ones", storetest.Only(64, "E7"), "E7", n / 300},
		{"a tenth is delayed at the head", storetest.But(64, "E7"), "Excluded", n / 10 / 400},
		{"nine tenths are of an excluded class", storetest.But(64, "Excluded", "E7"), "C", n / 400},
		{"one class of a hundred is wanted", storetest.Only(64, "C7"), "C7", n / 400},
		{"an absent class is wanted", storetest.Only(64, "Absent"), "", n / 400},
	} {
		t.Run(c.name, func(t *testing.T) { q.search(t, c.req, c.want, c.calls) })
	}
}

// search calls until something of the class is leased, or nothing more is to
// be searched.
func (q *queue) search(t *testing.T, req tasks.LeaseRequest, want string, limit int64) {
	s, entries := q.open(), q.entries()
	var calls, sum, worst int64
	var took time.Duration
	for {
		var leased []tasks.Task
		var err error
		n := entries(func() {
			began := time.Now()
			leased, err = s.Lease(context.Background(), req)
			took += time.Since(began)
		})
		calls, sum, worst = calls+1, sum+n, max(worst, n)
		if err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(leased, func(task tasks.Task) bool { return strings.HasPrefix(task.Class, want) })
		if found || err == nil && len(leased) == 0 {
			if found == (want == "") {
				t.Errorf("found: %v, wanted class: %q", found, want)
			}
			break
		}
	}
	t.Logf("%d calls, %d entries a call, at most %d; %.2f ms a call", calls, sum/calls, worst, took.Seconds()*1000/float64(calls))
	if worst > maxEntries {
		t.Errorf("a call read %d index entries", worst)
	}
	if calls > limit+20 {
		t.Errorf("%d calls were needed, more than %d", calls, limit+20)
	}
}

// Deleted rows stay in the indexes for as long as somebody holds a snapshot
// open, as a dump does. Cursors and due work are behind them soon.
func TestASnapshotHeldOpenHidesNoWork(t *testing.T) {
	const count = 100_000
	q := newQueue(t)
	q.fill(rows{from: 1, to: count}, rows{from: count + 1, to: count + 600, class: "'B'", priority: "3000"},
		rows{from: count + 601, to: count + 700, class: "'E'", owner: "'111:host'", expires: "UNIX_TIMESTAMP() - 100"})
	s := q.open()
	lease(t, s, storetest.Any(64))
	dump, err := q.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	for _, statement := range []string{"SET tx_isolation = 'REPEATABLE-READ'", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := dump.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	q.exec("DELETE FROM worker_activetask WHERE taskClass = 'A'")
	var worst int64
	entries := q.entries()
	began, left, calls := time.Now(), 700, 0
	for ; left > 64; calls++ {
		worst = max(worst, entries(func() { left -= len(lease(t, s, storetest.Any(64))) }))
	}
	t.Logf("%d calls, at most %d entries, %.2f ms a call", calls, worst, time.Since(began).Seconds()*1000/float64(calls))
	if worst > maxEntries || calls > 20 {
		t.Errorf("%d calls read up to %d index entries each", calls, worst)
	}
	if _, err := dump.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

func TestNoStatementOfALeaseScansOrSortsAtDepth(t *testing.T) {
	q := newQueue(t)
	q.fill(rows{from: 1, to: 100_000, class: "IF(seq % 2, 'A', 'B')", priority: "1000 * (1 + seq % 3)",
		owner: "IF(seq % 4, NULL, 'held')", expires: "IF(seq % 4, NULL, seq)"})
	q.exec("ANALYZE TABLE worker_activetask")
	ids := make([]int64, 64)
	for i := range ids {
		ids[i] = int64(50_000 + 17*i)
	}
	var l leaser
	l.fresh.lane(1000).seen = spot{0, 70_000}
	l.fresh.lane(3000).seen = spot{0, 90_000}
	fresh := newTrip(&search{leaser: &l, req: storetest.Any(64), candidates: map[int64]entry{}}, &l.fresh, 64, 64)
	fresh.next()
	for _, c := range []struct{ name, statement, key string }{
		{"the sample", sampleSQL, "PRIMARY"},
		{"rows from an id", fmt.Sprintf(fromSQL, 50_000, 500), "PRIMARY"},
		{"a window of new tasks", fmt.Sprintf(newSQL, newRanges(fresh), 64), "key_owner"},
		{"a window of expired rows", fmt.Sprintf(expiredSQL, clockNow, 50_000, 50_000, 64), "leaseExpires"},
		{"rows by id", withIDs(theseSQL, ids), "PRIMARY"},
		{"the lock", withIDs(lockDueSQL, ids), "PRIMARY"},
		{"the lease", strings.NewReplacer("?, l", "'x', l", "= ?", "= 5").Replace(withIDs(takeSQL, ids)), "PRIMARY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range q.explain(c.statement) {
				ranged := p.access == "range" || p.access == "const"
				if !ranged || p.key != c.key || strings.Contains(p.extra, "filesort") || strings.Contains(p.extra, "temporary") {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}
