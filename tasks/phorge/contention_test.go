package phorge

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// begin answers a transaction of somebody else, rolled back when the test ends.
func (q *queue) begin() *sql.Tx {
	q.t.Helper()
	tx, err := q.db.Begin()
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec("SET innodb_lock_wait_timeout = 60"); err != nil {
		q.t.Fatal(err)
	}
	return tx
}

// lockRow locks a task in a transaction of somebody else.
func lockRow(t testing.TB, tx *sql.Tx, table string, id int64) {
	t.Helper()
	if err := tx.QueryRow("SELECT id FROM "+table+" WHERE id = ? FOR UPDATE", id).Scan(&id); err != nil {
		t.Fatal(err)
	}
}

func succeeded(held []tasks.Task) []tasks.Settlement {
	all := make([]tasks.Settlement, len(held))
	for i, task := range held {
		all[i] = tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}
	}
	return all
}

// settled fails the test unless every settlement took effect.
func settled(t testing.TB, s *Store, all []tasks.Settlement) {
	t.Helper()
	answers, err := s.Settle(t.Context(), all)
	if err != nil {
		t.Error(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			t.Error(a.Err)
		}
	}
}

func TestB23ManyWorkersSettleBesidePHPAndEachTaskIsArchivedOnce(t *testing.T) {
	const count, workers = 10_000, 16
	q := newQueue(t)
	q.fill(rows{from: 1, to: count})
	s := q.open(func(c *Config) { c.MaxConns = workers })
	var left atomic.Int64
	left.Store(count)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for left.Load() > 0 && !t.Failed() {
				held, err := s.Lease(t.Context(), storetest.Any(40))
				if err != nil && !errors.Is(err, tasks.ErrSearching) {
					t.Error(err)
				}
				rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				settled(t, s, succeeded(held))
				left.Add(-int64(len(held)))
			}
		})
	}
	for worker := range 2 {
		group.Go(func() {
			for left.Load() > 0 && !t.Failed() {
				done, err := q.phpWork(fmt.Sprintf("%d:1:php:1", worker))
				if err != nil && !contended(err) { // PHP's own loss: its overseer starts it again
					t.Error(err)
				}
				left.Add(-int64(done))
			}
		})
	}
	group.Wait()
	if got := q.number("SELECT COUNT(*) FROM worker_archivetask WHERE result = 0 AND failureCount = 0"); got != count {
		t.Errorf("%d tasks are archived as successes without a failure, want %d", got, count)
	}
	if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != 0 {
		t.Errorf("%d tasks are left", got)
	}
	if php := q.number("SELECT COUNT(*) FROM worker_archivetask WHERE leaseOwner LIKE '%php%'"); php == 0 || php == count {
		t.Errorf("PHP had %d of %d tasks; the test wants both at work", php, count)
	}
}

// phpWork takes and archives one task as a taskmaster does.
func (q *queue) phpWork(owner string) (done int, err error) {
	var id int64
	err = q.db.QueryRow("SELECT id FROM worker_activetask WHERE leaseOwner IS NULL ORDER BY priority, id LIMIT 1").Scan(&id)
	if err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return 0, err
	}
	result, err := q.db.Exec(`UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = UNIX_TIMESTAMP() + 7200
WHERE leaseOwner IS NULL AND id = ?`, owner, id)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); n == 0 || err != nil {
		return 0, err
	}
	for { // the task is ours, so a lost deadlock must not lose it
		err := q.phpArchive(id)
		if !contended(err) {
			return 1, err
		}
	}
}

func (q *queue) phpArchive(id int64) error {
	tx, err := q.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range []string{
		"DELETE FROM worker_activetask WHERE id = ?",
		`INSERT INTO worker_archivetask (id, taskClass, leaseOwner, failureCount, dataID, result, duration, dateCreated, dateModified, priority)
VALUES (?, 'A', '1:1:php:1', 0, 1, 0, 0, 1, 1, 2000)`,
	} {
		if _, err := tx.Exec(statement, id); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// A deadlock of the server's own making: the other transaction has written
// more, so ours is the one that is sacrificed.
func TestB23ASettlementThatLosesADeadlockIsRepeated(t *testing.T) {
	q := newQueue(t)
	var told repetitions
	s := q.open(func(c *Config) { c.Repeated = told.add })
	enqueue(t, s, news(2, "A")...)
	held := lease(t, s, storetest.Any(2))
	before := q.status("Innodb_deadlocks")
	other := q.begin()
	if _, err := other.Exec("INSERT INTO worker_taskdata (data) SELECT 'x' FROM seq_1_to_1000"); err != nil {
		t.Fatal(err)
	}
	lockRow(t, other, "worker_activetask", held[1].ID)
	var group sync.WaitGroup
	group.Go(func() { settled(t, s, succeeded(held)) }) // locks the first, waits for the second
	harness.Eventually(t, "the settlement waits", func() bool { return q.status("Innodb_row_lock_current_waits") == 1 })
	lockRow(t, other, "worker_activetask", held[0].ID)
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if q.status("Innodb_deadlocks") == before {
		t.Error("there was no deadlock; the test shows nothing")
	}
	told.are(t, "deadlock")
	if got := q.number("SELECT COUNT(*) FROM worker_archivetask WHERE result = 0 AND failureCount = 0"); got != 2 {
		t.Errorf("%d tasks are archived, want 2", got)
	}
}

// repetitions are the reasons why transactions were tried again.
type repetitions struct {
	mu      sync.Mutex
	reasons []string
}

func (r *repetitions) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, reason)
}

// are checks that there were some, and all for that reason.
func (r *repetitions) are(t *testing.T, reason string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := slices.Compact(slices.Clone(r.reasons)); !slices.Equal(got, []string{reason}) {
		t.Errorf("the store tells of the repetitions %q, want %s", r.reasons, reason)
	}
}

// status answers a counter of the server.
func (q *queue) status(name string) int64 {
	q.t.Helper()
	return q.number("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = ?", name)
}

// A lock wait timeout in the midst of the transaction, after rows were deleted:
// MySQL has undone only the statement.
func TestB23ASettlementWhoseLockWaitEndsIsRepeatedAsAWhole(t *testing.T) {
	q := newQueue(t)
	var told repetitions
	s := q.open(func(c *Config) { c.Repeated = told.add })
	enqueue(t, s, news(2, "A")...)
	held := lease(t, s, storetest.Any(2))
	id := held[0].ID
	q.exec(`INSERT INTO worker_archivetask (id, taskClass, failureCount, dataID, result, duration, dateCreated, dateModified, priority)
VALUES (?, 'Old', 0, 1, 1, 0, 1, 1, 2000)`, id)
	other := q.begin()
	lockRow(t, other, "worker_archivetask", id)
	before := q.status("Innodb_row_lock_waits")
	var group sync.WaitGroup
	group.Go(func() {
		all := succeeded(held)
		all[0].Outcome.FollowUps = news(3, "Child")
		settled(t, s, all)
	})
	harness.Eventually(t, "it has given up and waits again", func() bool { return q.status("Innodb_row_lock_waits") >= before+2 })
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	told.are(t, "lock_wait")
	if got := q.number("SELECT COUNT(*) FROM worker_archivetask WHERE result = 0 AND failureCount = 0 AND taskClass = 'A'"); got != 2 {
		t.Errorf("%d tasks are archived, want 2", got)
	}
	if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != 3 {
		t.Errorf("%d follow-ups, want 3", got)
	}
}

// For many ids the optimizer prefers to scan a small table.
func TestB23SettlementsInASmallQueueDoNotWaitForOthersRows(t *testing.T) {
	for _, count := range []int{3, 70, 130, 400} {
		t.Run(fmt.Sprintf("%d tasks", count), func(t *testing.T) {
			q := newQueue(t)
			s := q.open()
			enqueue(t, s, news(count, "A")...)
			q.exec("ANALYZE TABLE worker_activetask")
			held := lease(t, s, storetest.Any(count))
			slices.SortFunc(held, func(a, b tasks.Task) int { return int(a.ID - b.ID) })
			// All but the last, which another has locked; the last id is higher,
			// so that only a scan meets it.
			other := q.begin()
			last := held[count-1]
			lockRow(t, other, "worker_activetask", last.ID)
			n := min(count-1, 64)
			settled(t, s, succeeded(held[:n]))
			if err := other.Rollback(); err != nil {
				t.Fatal(err)
			}
			if got := q.number("SELECT COUNT(*) FROM worker_archivetask"); got != int64(n) {
				t.Errorf("%d tasks are archived, want %d", got, n)
			}
			if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != int64(count-n) {
				t.Errorf("%d tasks are left, want %d", got, count-n)
			}
		})
	}
}

func TestALockedTaskKeepsNoOtherLeaseFromBeingRenewed(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	enqueue(t, s, news(3, "A")...)
	held := lease(t, s, storetest.Any(3))
	q.exec("UPDATE worker_activetask SET leaseExpires = leaseExpires - 50")
	other := q.begin()
	lockRow(t, other, "worker_activetask", held[1].ID)
	renewals := make([]tasks.Renewal, len(held))
	for i, task := range held {
		renewals[i] = tasks.Renewal{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: time.Minute}
	}
	before, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers, err := s.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if extended := a.Expires >= before+60; a.Err != nil || extended != (i != 1) {
			t.Errorf("task %d: extended %t, %v", a.ID, extended, a.Err)
		}
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if answers, err = s.Renew(t.Context(), renewals); err != nil || answers[1].Err != nil || answers[1].Expires < before+60 {
		t.Errorf("after the lock is gone: %v, %v", answers, err)
	}
}
