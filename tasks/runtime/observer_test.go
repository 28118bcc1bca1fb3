package runtime

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// tally counts what an observer is told.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	long   []time.Duration // lease times
}

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what] += n
}

func (t *tally) all() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

func (t *tally) Leased(task tasks.Task, leaseTime time.Duration) {
	t.add("leased "+task.Class, 1)
	t.mu.Lock()
	t.long = append(t.long, leaseTime)
	t.mu.Unlock()
}

func (t *tally) Ended(class, route string, kind tasks.Kind, took time.Duration) {
	t.add(class+" "+route+" "+string(kind), 1)
}

func (t *tally) Revived(n int) { t.add("revived", n) }

func (t *tally) StoreFailed(call string) { t.add("failed "+call, 1) }

// watched is a runtime of one class whose observer is t.
func (s *scene) watched(t *tally, executor tasks.Executor) *Runtime {
	s.Helper()
	return s.start(map[string]Class{"A": {Executor: executor, Route: "plugin"}}, func(c *Config) { c.Observer = t })
}

// told checks what an observer was told.
func (s *scene) told(t *tally, want map[string]int) {
	s.Helper()
	if got := t.all(); !maps.Equal(got, want) {
		s.Errorf("the observer was told %v,\nwant %v", got, want)
	}
}

func TestObserverIsToldOfLeasesAndHowTheyEnded(t *testing.T) {
	for kind, count := range map[tasks.Kind]int{
		tasks.Succeeded: 1, tasks.Failed: 1, tasks.Yielded: 1, tasks.Retry: 1, tasks.Crashed: 1,
	} {
		play(t, func(s *scene) {
			seen := &tally{}
			s.queue("A", count)
			s.watched(seen, answering(tasks.Outcome{Kind: kind, Wait: time.Hour}))
			pass(time.Minute)
			s.told(seen, map[string]int{"leased A": count, "A plugin " + string(kind): count})
			if seen.long[0] != DefaultLeaseTime {
				t.Errorf("the lease is told to last %v", seen.long[0])
			}
		})
	}
}

func TestObserverIsToldOnceOfALostLease(t *testing.T) {
	play(t, func(s *scene) {
		seen := &tally{}
		id := s.queue("A", 1)[0]
		s.watched(seen, until())
		pass(time.Second)
		_, err := s.store.Cancel(s.Context(), []int64{id})
		s.must(err)
		pass(time.Second)
		s.told(seen, map[string]int{"leased A": 1, "A plugin lost": 1})
	})
}

func TestObserverIsToldOfRevivedLeases(t *testing.T) {
	play(t, func(s *scene) {
		seen := &tally{}
		ids := s.queue("A", 3)
		s.watched(seen, until())
		pass(time.Second)
		for _, id := range ids {
			place := s.row(id).Place
			s.must(s.store.Place(id, tasks.Place{Owner: place.Owner, Expires: new(time.Now().Unix())}))
		}
		pass(time.Second)
		s.told(seen, map[string]int{"leased A": 3, "revived": 3})
	})
}

func TestObserverIsToldOfCallsThatFailed(t *testing.T) {
	play(t, func(s *scene) {
		seen := &tally{}
		s.queue("A", 1)
		s.faults.fail(lease)
		s.watched(seen, &worker{})
		pass(time.Second)
		failed := s.faults.count(lease)
		if failed == 0 {
			t.Fatal("nothing was leased in vain")
		}
		s.faults.mend()
		pass(time.Minute)
		s.told(seen, map[string]int{"failed lease": failed, "leased A": 1, "A plugin succeeded": 1})
	})
}

func TestStatsHaveTheSlotsOfEveryLimit(t *testing.T) {
	play(t, func(s *scene) {
		r := s.start(map[string]Class{
			"A": {Executor: &worker{}},
			"B": {Executor: &worker{}, Limit: &Limit{Slots: func() int { return 3 }}},
		}, func(c *Config) { c.Slots = 5 })
		pass(time.Second)
		if n := r.Stats().Slots; n != 8 {
			t.Errorf("there are %d slots, want 8", n)
		}
	})
}

func TestFollowUpsInheritTheTraceOfTheirTask(t *testing.T) {
	const mine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const own = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
	play(t, func(s *scene) {
		var settled []tasks.Settlement
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			found, err := s.store.Lease(ctx, req)
			for i := range found {
				found[i].Traceparent = mine
			}
			return found, err
		}
		s.faults.settle = func(ctx context.Context, all []tasks.Settlement) ([]tasks.Settled, error) {
			settled = append(settled, all...)
			return s.store.Settle(ctx, all)
		}
		s.queue("A", 1)
		s.start(only("A", answering(tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{
			{Class: "B", Data: []byte("1")}, {Class: "B", Data: []byte("2"), Traceparent: own},
		}})))
		pass(time.Second)
		if len(settled) != 1 {
			t.Fatalf("%d settlements", len(settled))
		}
		for i, want := range []string{mine, own} {
			if got := settled[0].Outcome.FollowUps[i].Traceparent; got != want {
				t.Errorf("follow-up %d has the trace context %q, want %q", i, got, want)
			}
		}
	})
}
