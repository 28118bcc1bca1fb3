package runtime

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// faulty is a store that fails while it is told to, and notes what it is asked.
type faulty struct {
	tasks.Store

	mu     sync.Mutex
	down   error
	leases []tasks.LeaseRequest
	settle int // calls
}

func (f *faulty) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *faulty) problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *faulty) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := f.problem(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.leases = append(f.leases, req)
	f.mu.Unlock()
	return f.Store.Lease(ctx, req)
}

func (f *faulty) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	if err := f.problem(); err != nil {
		return nil, err
	}
	return f.Store.Renew(ctx, renewals)
}

func (f *faulty) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if err := f.problem(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.settle++
	f.mu.Unlock()
	return f.Store.Settle(ctx, settlements)
}

func TestALongTaskKeepsItsLease(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		w := taking(3 * time.Hour)
		s.start(only("A", w))
		for range 100 {
			pass(time.Minute)
			if left := *s.row(id).Expires - time.Now().Unix(); left < 39 {
				t.Fatalf("%d s of the lease are left", left)
			}
		}
		pass(2 * time.Hour)
		s.isArchived(tasks.ResultSuccess, id)
		if w.runs(id) != 1 {
			t.Errorf("it ran %d times", w.runs(id))
		}
	})
}

func TestB03ALostLeaseIsLoggedOnceAndTheWorkerGoesOn(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		w := taking(time.Minute)
		r := s.start(only("A", w))
		pass(time.Second)
		theirs := tasks.Owner{Fence: 9, Nonce: "theirs"}.String()
		expires := time.Now().Unix() + 3600
		s.must(s.store.Place(id, tasks.Place{Owner: &theirs, Expires: &expires}))
		pass(2 * time.Minute)
		if s.owner(id) != theirs || s.row(id).FailureCount != 0 {
			t.Errorf("the second owner's row was touched: %+v", s.row(id))
		}
		if s.log.said("lease lost") != 1 {
			t.Errorf("it is to be said once:\n%s", s.log)
		}
		next := s.queue("A", 1)[0]
		pass(2 * time.Minute)
		s.isArchived(tasks.ResultSuccess, next)
		if got := r.Stats(); got.Lost != 1 || got.Held != 0 {
			t.Errorf("stats are %+v", got)
		}
	})
}

func TestB16ACancelledTaskIsStoppedAndStaysCancelled(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		stopped := make(chan error, 1)
		s.start(only("A", &worker{do: func(ctx context.Context, _ tasks.Task) tasks.Outcome {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "B", Data: []byte("1")}}}
		}}))
		pass(time.Second)
		_, err := s.store.Cancel(s.Context(), []int64{id})
		s.must(err)
		pass(time.Second)
		if cause := <-stopped; cause != errLost {
			t.Errorf("it was stopped because %v", cause)
		}
		s.isArchived(tasks.ResultCancelled, id)
		all, err := s.store.All()
		s.must(err)
		if len(all) != 1 {
			t.Errorf("the follow-up of a cancelled task was queued: %+v", all)
		}
	})
}

func TestB16ATaskCancelledBeforeItsStartDoesNotStart(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 3)
		w := taking(40 * time.Millisecond) // quick enough to lease ahead
		r := s.runtime(map[string]Class{"A": {Executor: w, Slots: 1}})
		s.must(r.Start())
		pass(10 * time.Millisecond)
		_, err := s.store.Cancel(s.Context(), ids[1:])
		s.must(err)
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids[0])
		s.isArchived(tasks.ResultCancelled, ids[1:]...)
		if w.total() != 1 {
			t.Errorf("%d tasks ran, want the first alone", w.total())
		}
	})
}

func TestASweptLeaseIsRevivedBeforeAStockConsumerTakesIt(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 8)
		w := taking(time.Minute)
		r := s.start(only("A", w))
		pass(time.Second)
		for _, id := range ids { // as `phd start` does
			row, now := s.row(id), time.Now().Unix()
			s.must(s.store.Place(id, tasks.Place{Owner: row.Owner, Expires: &now}))
		}
		pass(500 * time.Millisecond)
		for _, id := range ids {
			if *s.row(id).Expires <= time.Now().Unix() {
				t.Errorf("task %d was not revived within half a second", id)
			}
		}
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
		if got := r.Stats(); got.Revived != len(ids) || got.Lost != 0 || w.total() != len(ids) {
			t.Errorf("stats are %+v after %d executions", got, w.total())
		}
	})
}

func TestB17TheLeaseTimeOfAClassIsAppliedBeforeItsTasksStart(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("Slow", 1)[0]
		var left int64
		w := &worker{do: func(ctx context.Context, task tasks.Task) tasks.Outcome {
			left = *s.row(task.ID).Expires - time.Now().Unix()
			sleep(ctx, 30*time.Second)
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}
		s.start(map[string]Class{"Slow": {Executor: w, LeaseTime: time.Minute}}, func(c *Config) { c.LeaseTime = 10 * time.Second })
		idle := &worker{}
		s.start(only("Slow", idle), func(c *Config) { c.Store = s.other })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, id)
		if w.runs(id)+idle.runs(id) != 1 {
			t.Errorf("it ran %d and %d times", w.runs(id), idle.runs(id))
		}
		if w.runs(id) == 1 && left != 60 {
			t.Errorf("%d s of the lease were left at its start, want 60", left)
		}
	})
}

// requiring is an executor whose tasks ask for a longer lease.
type requiring struct {
	worker
	lease time.Duration
}

func (r *requiring) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	require(r.lease)
	return r.worker.Execute(ctx, task, require)
}

func TestB17ALeaseThatATaskRequiresIsInTheStoreBeforeTheWorkBegins(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		var left int64
		s.start(only("A", &requiring{lease: 24 * time.Hour, worker: worker{do: func(_ context.Context, task tasks.Task) tasks.Outcome {
			left = *s.row(task.ID).Expires - time.Now().Unix()
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}}))
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, id)
		if left != 24*3600 {
			t.Errorf("%d s of the lease were left when the work began", left)
		}
	})
}

func TestSlotsBoundWhatRunsAtTheSameTime(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 20)
		s.queue("B", 20)
		a, b := taking(time.Second), taking(time.Second)
		s.start(map[string]Class{"A": {Executor: a, Slots: 2}, "B": {Executor: b}}, func(c *Config) { c.Slots = 5 })
		pass(time.Minute)
		if a.total() != 20 || b.total() != 20 {
			t.Fatalf("%d and %d tasks ran", a.total(), b.total())
		}
		if a.top != 2 || b.top > 5 || b.top < 3 {
			t.Errorf("at most %d of A and %d of B ran at once", a.top, b.top)
		}
	})
}

func TestSlowTasksAreNotLeasedAheadOfTheirSlots(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 50)
		s.start(map[string]Class{"A": {Executor: taking(10 * time.Second), Slots: 3}})
		for range 20 {
			pass(2 * time.Second)
			stats, err := s.store.Stats(s.Context())
			s.must(err)
			for _, class := range stats.Classes {
				if class.Leased > 3 {
					t.Fatalf("%d tasks are leased for 3 slots", class.Leased)
				}
			}
		}
	})
}

func TestB07FreshMailIsNotHeldUpByHopelessTasks(t *testing.T) {
	play(t, func(s *scene) {
		hopeless := s.queue("Hopeless", 500)
		churn := answering(tasks.Outcome{Kind: tasks.Retry, Wait: time.Minute})
		mail := &worker{}
		s.start(map[string]Class{"Hopeless": {Executor: churn}, "Mail": {Executor: mail}})
		pass(10 * time.Minute)
		if churn.runs(hopeless[0]) < 5 {
			t.Fatalf("the hopeless task ran %d times", churn.runs(hopeless[0]))
		}
		ids := s.queue("Mail", 5)
		pass(200 * time.Millisecond)
		s.isArchived(tasks.ResultSuccess, ids...)
		for _, id := range hopeless {
			if runs := churn.runs(id); runs > 12 {
				t.Errorf("task %d ran %d times in ten minutes: its wait was not kept", id, runs)
			}
		}
	})
}

func TestThePollOfAnIdleQueueSlowsDownAndWakeIsHeardAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		store := &faulty{Store: s.store}
		w := &worker{}
		r := s.start(only("A", w), func(c *Config) { c.Store, c.IdlePoll = store, time.Hour })
		pass(24 * time.Hour)
		store.mu.Lock()
		polls := len(store.leases)
		store.mu.Unlock()
		if polls < 24 || polls > 60 {
			t.Errorf("an idle queue was looked at %d times in a day with a poll of an hour", polls)
		}
		id := s.queue("A", 1)[0]
		r.Wake()
		pass(10 * time.Millisecond)
		s.isArchived(tasks.ResultSuccess, id)
	})
}

func TestTheRequestSaysWhatEachClassWants(t *testing.T) {
	play(t, func(s *scene) {
		store := &faulty{Store: s.store}
		s.start(map[string]Class{
			"A": {Executor: &worker{}, Slots: 3, LeaseTime: time.Hour, PickupDelay: time.Second},
			"B": {Executor: &worker{}},
			"C": {Executor: &worker{ready: func(string) bool { return false }}},
		}, func(c *Config) { c.Store, c.Slots = store, 8 })
		pass(time.Second)
		store.mu.Lock()
		defer store.mu.Unlock()
		want := map[string]tasks.ClassRequest{
			"A": {Limit: 3, LeaseTime: time.Hour, PickupDelay: time.Second},
			"B": {Limit: 8, LeaseTime: DefaultLeaseTime},
		}
		req := store.leases[0]
		if req.Limit != 8 || len(req.Classes) != 2 || req.Classes["A"] != want["A"] || req.Classes["B"] != want["B"] || req.Others.Limit != 0 {
			t.Errorf("the request is %+v", req)
		}
	})
}

func TestAnOutageEndsNothingAndDoublesNothing(t *testing.T) {
	play(t, func(s *scene) {
		store := &faulty{Store: s.store}
		ids := s.queue("A", 20)
		w := taking(10 * time.Second)
		r := s.start(only("A", w), func(c *Config) { c.Store, c.Slots = store, 4 })
		pass(5 * time.Second)
		store.fail(tasks.ErrUnavailable)
		pass(10 * time.Minute) // ten times a lease
		if err := r.Ready(); err == nil {
			t.Error("it is ready although the store is down")
		}
		if n := s.log.said("cannot renew leases"); n < 1 || n > 30 {
			t.Errorf("the outage is said %d times in ten minutes", n)
		}
		store.fail(nil)
		pass(2 * time.Minute)
		s.must(r.Ready())
		s.isArchived(tasks.ResultSuccess, ids...)
		for _, id := range ids {
			if w.runs(id) != 1 {
				t.Errorf("task %d ran %d times", id, w.runs(id))
			}
		}
		if s.log.said("can renew leases again") != 1 {
			t.Errorf("the recovery is not said:\n%s", s.log)
		}
	})
}

func TestAnOutcomeWhoseLeaseWasTakenInAnOutageIsDropped(t *testing.T) {
	play(t, func(s *scene) {
		store := &faulty{Store: s.store}
		id := s.queue("A", 1)[0]
		r := s.start(only("A", taking(time.Second)), func(c *Config) { c.Store = store })
		pass(500 * time.Millisecond)
		store.fail(tasks.ErrUnavailable)
		pass(10 * time.Minute)
		taken, err := s.other.Lease(s.Context(), tasks.LeaseRequest{Limit: 1, Others: tasks.ClassRequest{Limit: 1, LeaseTime: time.Hour}})
		s.must(err)
		if len(taken) != 1 || taken[0].ID != id {
			t.Fatalf("the other process leased %+v", taken)
		}
		store.fail(nil)
		pass(time.Minute)
		if s.owner(id) != taken[0].Lease.Owner {
			t.Errorf("the new owner's row was touched: %s", s.owner(id))
		}
		if got := r.Stats(); got.Lost != 1 || got.Succeeded != 0 {
			t.Errorf("stats are %+v", got)
		}
	})
}

func TestOutcomesShareCommits(t *testing.T) {
	play(t, func(s *scene) {
		store := &faulty{Store: s.store}
		ids := s.queue("A", 2000)
		s.start(only("A", &worker{}), func(c *Config) { c.Store = store })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.settle > 200 {
			t.Errorf("%d settlements for %d tasks", store.settle, len(ids))
		}
		if sizes := slices.MaxFunc(store.leases, func(a, b tasks.LeaseRequest) int { return a.Limit - b.Limit }); sizes.Limit < leaseBatch/2 {
			t.Errorf("the largest lease asked for %d cheap tasks", sizes.Limit)
		}
	})
}
