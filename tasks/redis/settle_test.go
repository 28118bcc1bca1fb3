package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// heldFrom queues a task, puts it in a place, and leases it from there.
func heldFrom(t *testing.T, s *Store, place tasks.Place) tasks.Task {
	t.Helper()
	id := must(s.Enqueue(t.Context(), some(1)))[0]
	if err := rowsOf(s).Place(id, place); err != nil {
		t.Fatal(err)
	}
	leased, err := s.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(leased) != 1 || leased[0].ID != id {
		t.Fatalf("leased %v (%v), want task %d", leased, err, id)
	}
	return leased[0]
}

// A place without a fence does not tell who left it.
func TestARepeatedReturnToAPlaceWithoutAFenceIsALostLease(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	yield, past := tasks.YieldOwner, int64(1)
	task := heldFrom(t, s, tasks.Place{Owner: &yield, Expires: &past})
	back := []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Released}}}
	settled, err := s.Settle(t.Context(), back)
	if err != nil || settled[0].Err != nil {
		t.Fatal(settled, err)
	}
	record, err := s.Get(t.Context(), task.ID)
	if err != nil || *record.Owner != yield || *record.Expires != past {
		t.Errorf("it went back to %v (%v)", record.Place, err)
	}
	if settled, err = s.Settle(t.Context(), back); err != nil || !errors.Is(settled[0].Err, tasks.ErrLeaseLost) {
		t.Errorf("repeated, it is answered %v (%v)", settled, err)
	}
}

func TestWaitsEndAtEpochsThatPhorgeCanHold(t *testing.T) {
	s := open(t, Config{URL: serve(t), clock: func() int64 { return epoch }})
	for wait, want := range map[time.Duration]int64{
		0:                                   epoch,
		1999 * time.Millisecond:             epoch + 1,
		-1999 * time.Millisecond:            epoch - 1,
		-2_100_000_000 * time.Second:        0,
		-5_000_000_000 * time.Second:        0,
		2_100_000_000 * time.Second:         epoch + 2_100_000_000,
		5_000_000_000 * time.Second:         4294967295,
		time.Duration(1<<63 - 1):            4294967295,
		time.Duration(-1 << 63):             0,
		time.Duration(epoch) * -time.Second: 0,
		time.Duration(epoch) * time.Second:  2 * epoch,
		(epoch - 1) * -time.Second:          1,
		(4294967294 - epoch) * time.Second:  4294967295 - 1,
		(4294967295 - epoch) * time.Second:  4294967295,
		(4294967296 - epoch) * time.Second:  4294967295,
		(1 << 31) * time.Second * -1:        0,
		((1 << 31) - epoch) * time.Second:   1 << 31,
	} {
		for _, kind := range []tasks.Kind{tasks.Retry, tasks.Crashed} {
			task := heldFrom(t, s, tasks.Place{})
			_, err := s.Settle(t.Context(), []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: kind, Wait: wait}}})
			if err != nil {
				t.Fatal(err)
			}
			record, err := s.Get(t.Context(), task.ID)
			if err != nil || *record.Expires != want || *record.Expires != *task.Lease.PlaceAfter(tasks.Outcome{Kind: kind, Wait: wait}, epoch).Expires {
				t.Errorf("after a wait of %s it is due at %d (%v), want %d", wait, *record.Expires, err, want)
			}
			if _, err := s.Cancel(t.Context(), []int64{task.ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
