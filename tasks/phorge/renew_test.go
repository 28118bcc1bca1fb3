package phorge

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// standing makes the clock of a store's sessions stand, which UNIX_TIMESTAMP()
// follows: whatever happens, it happens within one second.
func standing(t testing.TB) func(*Config) {
	return func(c *Config) {
		cfg, err := mysql.ParseDSN(c.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Params = map[string]string{"timestamp": "2000000000"}
		c.DSN = cfg.FormatDSN()
	}
}

func TestB26ZeroChangedRowsIsNotALostLease(t *testing.T) {
	q := newQueue(t)
	s := q.open(standing(t))
	enqueue(t, s, news(2, "A")...)
	held := lease(t, s, storetest.Any(2))
	renewals := []tasks.Renewal{
		{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: time.Hour},
		{ID: held[1].ID, Owner: held[1].Lease.Owner, LeaseTime: time.Hour},
	}
	for i := range 3 {
		if i == 2 {
			// Somebody took the second one.
			q.exec("UPDATE worker_activetask SET leaseOwner = 'thief' WHERE id = ?", held[1].ID)
		}
		answers, err := s.Renew(t.Context(), renewals)
		if err != nil {
			t.Fatal(err)
		}
		if answers[0].Err != nil || answers[0].Expires != 2000000000+3600 {
			t.Errorf("renewal %d: %+v", i, answers[0])
		}
		if lost := errors.Is(answers[1].Err, tasks.ErrLeaseLost); lost != (i == 2) {
			t.Errorf("renewal %d of the second task: lost %t, %v", i, lost, answers[1].Err)
		}
		// To the same second once more, as a call whose answer was lost.
		q.exec("UPDATE worker_activetask SET leaseExpires = 2000000000 + 1200 WHERE id = ?", held[0].ID)
	}
	if got := q.number("SELECT leaseExpires FROM worker_activetask WHERE id = ?", held[1].ID); got != 2000000000+3600 {
		t.Errorf("the thief's lease ends at %d", got)
	}
}

// The UPDATE of a renewal finds its row although it changes nothing.
func TestB26ExtendingToTheSameSecondIsNoError(t *testing.T) {
	q := newQueue(t)
	s := q.open(standing(t))
	enqueue(t, s, news(1, "A")...)
	held := lease(t, s, storetest.Any(1))[0]
	q.exec("UPDATE worker_activetask SET leaseExpires = NULL") // NULL needs extending, whatever else
	renewal := tasks.Renewal{ID: held.ID, Owner: held.Lease.Owner, LeaseTime: time.Minute}
	answers, err := s.Renew(t.Context(), []tasks.Renewal{renewal, renewal})
	if err != nil || answers[0].Err != nil || answers[1].Err != nil || !answers[0].Revived || answers[1].Expires != 2000000060 {
		t.Errorf("%+v, %v", answers, err)
	}
}

// What a task asks for is not ours to choose, and one task must not cost the
// others of its batch their leases.
func TestLeaseTimesBeyondTheColumnAreCutOff(t *testing.T) {
	q := newQueue(t)
	s := q.open(standing(t))
	enqueue(t, s, news(3, "A")...)
	held := lease(t, s, storetest.Any(3))
	var renewals []tasks.Renewal
	for i, lasting := range []time.Duration{time.Hour, 200 * 365 * 24 * time.Hour, math.MaxInt64} {
		renewals = append(renewals, tasks.Renewal{ID: held[i].ID, Owner: held[i].Lease.Owner, LeaseTime: lasting})
	}
	answers, err := s.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{2000003600, math.MaxUint32, math.MaxUint32} {
		stored := q.number("SELECT leaseExpires FROM worker_activetask WHERE id = ?", held[i].ID)
		if answers[i].Err != nil || answers[i].Expires != want || stored != want {
			t.Errorf("%s: answered %+v and stored %d, want %d", renewals[i].LeaseTime, answers[i], stored, want)
		}
	}
}

func TestB26AwakeningTwiceAwakensOnce(t *testing.T) {
	q := newQueue(t)
	s := q.open(standing(t))
	ids := enqueue(t, s, news(1, "A")...)
	held := lease(t, s, storetest.Any(1))
	settled(t, s, []tasks.Settlement{{ID: held[0].ID, Lease: *held[0].Lease, Outcome: tasks.Outcome{Kind: tasks.Yielded, Wait: time.Hour}}})
	for i, want := range []int{1, 0} {
		if n, err := s.Awaken(t.Context(), append(ids, ids...)); n != want || err != nil {
			t.Errorf("call %d awakened %d, %v; want %d", i, n, err, want)
		}
	}
	if got := lease(t, s, storetest.Any(1)); len(got) != 1 {
		t.Errorf("the awakened task was not leased: %v", got)
	}
}
