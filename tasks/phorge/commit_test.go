package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// cuts are the ways in which the answer to a COMMIT gets lost.
var cuts = map[string]cut{
	"the server never got it":          neverSent,
	"the answer got lost":              notAnswered,
	"the network vanished in mid-call": silence,
}

// impatient makes connections of a store give a silent server up at once.
func impatient(t *testing.T, s *Store, p *proxy, q *queue) *Store {
	t.Helper()
	cfg, err := configure(q.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Net, cfg.Addr, cfg.ReadTimeout = "tcp", p.listen.Addr().String(), 3*time.Second
	db, err := s.server.open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s.db.Close()
	s.db = db
	return s
}

func news(n int, class string) []tasks.NewTask {
	all := make([]tasks.NewTask, n)
	for i := range all {
		all[i] = tasks.NewTask{Class: class, Data: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return all
}

func enqueue(t testing.TB, s *Store, all ...tasks.NewTask) []int64 {
	t.Helper()
	ids, err := s.Enqueue(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestB27EnqueueWhoseCommitIsNotAnsweredQueuesOnce(t *testing.T) {
	for name, how := range cuts {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d tasks", name, n), func(t *testing.T) {
				t.Parallel()
				q, p := newQueue(t), newProxy(t)
				s := impatient(t, p.through(q), p, q)
				var told repetitions
				s.repeated = told.add
				p.arm(how)
				ids := enqueue(t, s, news(n, "A")...)
				p.fired()
				told.are(t, "connection")
				if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != int64(n) {
					t.Errorf("%d tasks are queued, want %d", got, n)
				}
				if got := q.number("SELECT COUNT(*) FROM worker_taskdata"); got != int64(n) {
					t.Errorf("%d data rows, want %d", got, n)
				}
				for i, id := range ids {
					r, err := s.Get(t.Context(), id)
					if err != nil || string(r.Data) != fmt.Sprintf(`{"n":%d}`, i) {
						t.Errorf("task %d has the data %s, %v", id, r.Data, err)
					}
				}
			})
		}
	}
}

// A task can be gone from the queue before its COMMIT is looked up.
func TestB27EnqueueFindsATaskThatWasArchivedMeanwhile(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	ids := enqueue(t, s, news(1, "A")...)
	dataID := q.number("SELECT dataID FROM worker_activetask")
	if _, err := s.Cancel(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if found, err := s.exists(t.Context(), ids[0], dataID); !found || err != nil {
		t.Errorf("archived task is found: %t, %v", found, err)
	}
	if found, err := s.exists(t.Context(), ids[0], dataID+1); found || err != nil {
		t.Errorf("a task of the same id with other data is found: %t, %v", found, err)
	}
}

func TestB27SettleWhoseCommitIsNotAnsweredSettlesOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome tasks.Outcome
		want    string // WHERE of the row it leaves
	}{
		{"success with follow-ups", tasks.Outcome{Kind: tasks.Succeeded, FollowUps: news(2, "Child")}, "result = 0"},
		{"permanent failure", tasks.Outcome{Kind: tasks.Failed}, "result = 1 AND failureCount = 0"},
		{"retry", tasks.Outcome{Kind: tasks.Retry, Wait: time.Minute}, "leaseOwner LIKE '(retry):%' AND failureCount = 1"},
		{"crash", tasks.Outcome{Kind: tasks.Crashed, Wait: time.Minute}, "leaseOwner LIKE '(retry):%:1' AND failureCount = 1"},
		{"yield", tasks.Outcome{Kind: tasks.Yielded, Wait: time.Minute}, "leaseOwner = '(yield)' AND failureCount = 0"},
		{"release", tasks.Outcome{Kind: tasks.Released}, "leaseOwner IS NULL AND leaseExpires IS NULL AND failureCount = 0"},
	} {
		for name, how := range cuts {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()
				q, p := newQueue(t), newProxy(t)
				s := impatient(t, p.through(q), p, q)
				id := enqueue(t, s, news(1, "A")...)[0]
				held := lease(t, s, storetest.Any(1))
				p.arm(how)
				answers, err := s.Settle(t.Context(), []tasks.Settlement{{ID: id, Lease: *held[0].Lease, Outcome: c.outcome}})
				p.fired()
				if err != nil || answers[0].Err != nil {
					t.Fatal(err, answers)
				}
				table := "worker_activetask"
				if _, archives := c.outcome.Kind.Result(); archives {
					table = "worker_archivetask"
				}
				if q.number("SELECT COUNT(*) FROM "+table+" WHERE id = ? AND "+c.want, id) != 1 {
					t.Errorf("no row of %s has %s", table, c.want)
				}
				children := slices.Sorted(maps.Keys(q.column("SELECT id FROM worker_activetask WHERE taskClass = 'Child'")))
				if !slices.Equal(children, answers[0].FollowUps) || len(children) != len(c.outcome.FollowUps) {
					t.Errorf("the follow-ups %v are queued, answered %v, want %d", children, answers[0].FollowUps, len(c.outcome.FollowUps))
				}
			})
		}
	}
}

// column answers the numbers that a statement selects.
func (q *queue) column(statement string, args ...any) map[int64]bool {
	q.t.Helper()
	found, err := q.db.Query(statement, args...)
	if err != nil {
		q.t.Fatal(err)
	}
	defer found.Close()
	all := map[int64]bool{}
	for found.Next() {
		var n int64
		if err := found.Scan(&n); err != nil {
			q.t.Fatal(err)
		}
		all[n] = true
	}
	if err := found.Err(); err != nil {
		q.t.Fatal(err)
	}
	return all
}

func TestB27LeaseWhoseCommitIsNotAnsweredLeasesOnceAndCountsNoCrash(t *testing.T) {
	for name, how := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, p := newQueue(t), newProxy(t)
			s := impatient(t, p.through(q), p, q)
			enqueue(t, s, news(5, "A")...)
			p.arm(how)
			seen := map[int64]string{}
			harness.Eventually(t, "all tasks are leased", func() bool {
				leased, err := s.Lease(t.Context(), storetest.Any(5))
				if err != nil && !errors.Is(err, tasks.ErrUnavailable) && !errors.Is(err, tasks.ErrSearching) {
					t.Fatal(err)
				}
				for _, task := range leased {
					if _, twice := seen[task.ID]; twice || task.Lease.Crashes != 0 || len(task.Data) == 0 {
						t.Errorf("task %d: leased before: %t, crashes %d, data %q", task.ID, twice, task.Lease.Crashes, task.Data)
					}
					seen[task.ID] = task.Lease.Owner
				}
				return len(seen) == 5
			})
			p.fired()
			for id, owner := range seen {
				if q.number("SELECT COUNT(*) FROM worker_activetask WHERE id = ? AND leaseOwner = ?", id, owner) != 1 {
					t.Errorf("task %d is not held by %s", id, owner)
				}
			}
		})
	}
}

// When the server stays away nobody can tell, and the error says so.
func TestB27AnUnknownCommitIsNotCalledAFailure(t *testing.T) {
	q, p := newQueue(t), newProxy(t)
	s := p.through(q)
	p.arm(notAnswered)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.untilKnown(ctx, func(doubt bool) error {
		if doubt {
			cancel()
			return fmt.Errorf("%w: the server is gone", tasks.ErrUnavailable)
		}
		return s.transact(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DO 1")
			return err
		})
	})
	p.fired()
	if err == nil || !errors.Is(err, tasks.ErrUnavailable) || !contains(err, "it is not known whether this took effect") {
		t.Errorf("error %v", err)
	}
}

// COMMIT is not sent under a context that has ended: that is no unknown
// outcome, and nothing is looked up.
func TestATransactionWhoseContextEndsIsRolledBack(t *testing.T) {
	for name, answersDone := range map[string]bool{"after its last statement": false, "after the rollback": true} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			s := q.open()
			ctx, cancel := context.WithCancel(t.Context())
			err := s.transact(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO worker_taskdata (data) VALUES ('1')")
				cancel()
				if answersDone {
					harness.Eventually(t, "the transaction is over", func() bool { return tx.Rollback() != nil })
				}
				return err
			})
			if !errors.Is(err, context.Canceled) || errors.Is(err, errCommitUnknown) {
				t.Errorf("error %v", err)
			}
			if q.number("SELECT COUNT(*) FROM worker_taskdata") != 0 {
				t.Error("the row was committed")
			}
		})
	}
}

func TestB27ConnectionsKilledWhileIdleAreReplacedUnnoticed(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	burst := func() {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 25 {
					if _, err := s.Enqueue(t.Context(), news(1, "A")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	burst()
	mine := q.column("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
	if len(mine) < 2 {
		t.Fatalf("the store has %d connections; the test needs several", len(mine))
	}
	for id := range mine {
		q.exec(fmt.Sprintf("KILL %d", id))
	}
	harness.Eventually(t, "the server has ended the connections", func() bool {
		for id := range q.column("SELECT id FROM information_schema.processlist") {
			if mine[id] {
				return false
			}
		}
		return true
	})
	burst()
	if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != 400 {
		t.Errorf("%d tasks are queued, want 400", got)
	}
}
