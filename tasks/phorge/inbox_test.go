package phorge

import (
	"errors"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestB27EnqueueOnceWhoseCommitIsNotAnsweredQueuesOnce(t *testing.T) {
	for name, how := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, p := newQueue(t), newProxy(t)
			q.upgrade()
			s := impatient(t, p.through(q), p, q)
			once := tasks.Once{Key: "k", Keep: time.Hour}
			p.arm(how)
			ids, duplicate, err := s.EnqueueOnce(t.Context(), once, news(3, "A"))
			p.fired()
			if err != nil || duplicate || len(ids) != 3 {
				t.Fatal(ids, duplicate, err)
			}
			again, duplicate, err := s.EnqueueOnce(t.Context(), once, news(3, "A"))
			if err != nil || !duplicate || again[0] != ids[0] {
				t.Errorf("the repetition answered %v, %t, %v; the first %v", again, duplicate, err, ids)
			}
			if got := q.number("SELECT COUNT(*) FROM worker_activetask"); got != 3 {
				t.Errorf("%d tasks are queued", got)
			}
		})
	}
}

func TestExpiredKeysAreDeleted(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open()
	if _, err := q.db.Exec("INSERT INTO " + name + ".inbox SELECT CONCAT('old', seq), REPEAT('x', 32), '[]', UNIX_TIMESTAMP() - 7200 FROM seq_1_to_700"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.EnqueueOnce(t.Context(), tasks.Once{Key: "new", Keep: time.Hour}, news(1, "A")); err != nil {
		t.Fatal(err)
	}
	if got := q.number("SELECT COUNT(*) FROM " + name + ".inbox"); got != 1 {
		t.Errorf("%d keys are kept, want the new one", got)
	}
}

// What was leased for one caller without an answer is not given to another.
func TestB27LeaseWhoseCommitIsNotAnsweredIsAnsweredToItsCallerOnly(t *testing.T) {
	q, p := newQueue(t), newProxy(t)
	s := impatient(t, p.through(q), p, q)
	enqueue(t, s, news(5, "A")...)
	p.arm(notAnswered)
	ask := func(name string) []tasks.Task {
		leased, err := s.LeaseFor(t.Context(), name, storetest.Any(5))
		if err != nil && !errors.Is(err, tasks.ErrUnavailable) && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		return leased
	}
	if leased := ask("first"); len(leased) > 0 {
		t.Fatalf("leased %v although the answer was lost", idsOf(leased))
	}
	p.fired()
	var second, first []tasks.Task
	enqueue(t, s, news(1, "A")...)
	harness.Eventually(t, "the second caller gets what is left", func() bool {
		second = append(second, ask("second")...)
		return len(second) == 1
	})
	harness.Eventually(t, "the first caller gets what it leased", func() bool {
		first = append(first, ask("first")...)
		return len(first) == 5
	})
	for _, task := range first {
		if c, ok := tasks.ParseCaller(task.Lease.Owner); !ok || c.Name != "first" {
			t.Errorf("task %d is held by %s", task.ID, task.Lease.Owner)
		}
	}
}
