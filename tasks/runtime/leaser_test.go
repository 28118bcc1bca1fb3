package runtime

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

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
		ids := s.queue("A", 50)
		r := s.start(map[string]Class{"A": {Executor: taking(10 * time.Second), Slots: 3}})
		pass(time.Second) // so as never to look while outcomes are on their way
		for range 100 {
			pass(2 * time.Second)
			if held := r.Stats().Held; held > 3 {
				t.Fatalf("%d tasks are held for 3 slots", held)
			}
		}
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}

func TestCheapTasksAreLeasedAheadInLargeBatches(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 5000)
		s.start(only("A", &worker{}), func(c *Config) { c.Slots, c.IdlePoll = 4, time.Hour })
		synctest.Wait()
		s.isArchived(tasks.ResultSuccess, ids...)
		// 5000 are 20 full batches; the first ones are small.
		if n := s.faults.count(lease); n > 40 {
			t.Errorf("%d leases for %d tasks", n, len(ids))
		}
		for _, req := range s.faults.asked() {
			if req.Limit > leaseBatch {
				t.Errorf("a lease asked for %d tasks", req.Limit)
			}
		}
	})
}

// Cheap tasks flow and many are leased ahead. Then a slow one takes the only
// slot: they are not kept behind it.
func TestATaskThatWaitsTooLongLeasedIsGivenBackToItsPlace(t *testing.T) {
	play(t, func(s *scene) {
		w := byData()
		cheap := s.queueData("A", slices.Repeat([]string{`"0s"`}, 20)...)
		slow := s.queueData("A", `"10s"`)
		behind := s.queueData("A", slices.Repeat([]string{`"0s"`}, 5)...)
		r := s.start(only("A", w), func(c *Config) { c.Slots = 1 })
		pass(500 * time.Millisecond)
		s.isArchived(tasks.ResultSuccess, cheap...)
		if held := r.Stats().Held; held != 6 {
			t.Fatalf("%d tasks are held; five are to be leased behind the slow one", held)
		}
		pass(time.Second)
		s.isBack(behind...)
		pass(5 * time.Second)
		s.has(r, Stats{Leased: 26, Started: 21, Succeeded: 20, Released: 5, Held: 1, Running: 1})
		pass(5 * time.Second)
		s.isArchived(tasks.ResultSuccess, append(slow, behind...)...)
		if got, want := w.order(), slices.Concat(cheap, slow, behind); !slices.Equal(got, want) {
			t.Errorf("tasks ran in the order %v, want %v", got, want)
		}
	})
}

// The answer of a poll that had no room for a class says nothing about it.
func TestASlotThatBecomesFreeIsFilledWithoutWaitingForThePoll(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 10)
		r := s.start(map[string]Class{"A": {Executor: taking(100 * time.Millisecond), Slots: 1}, "B": {Executor: &worker{}}},
			func(c *Config) { c.IdlePoll = time.Hour })
		pass(time.Second)
		if done := r.Stats().Succeeded; done < 9 {
			t.Errorf("%d of 10 tasks of 100 ms were done in a second", done)
		}
	})
}

func TestAStoreThatIsStillSearchingIsAskedAgainAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		searches := 0
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			if searches++; searches <= 1000 {
				return nil, tasks.ErrSearching
			}
			return s.store.Lease(ctx, req)
		}
		id := s.queue("A", 1)[0]
		r := s.start(only("A", &worker{}))
		synctest.Wait() // no time passes
		s.isArchived(tasks.ResultSuccess, id)
		s.must(r.Ready())
	})
}

// While the leases of running tasks are forgotten by everybody, their rows look
// like anybody's expired ones, and there are free slots here.
func TestAfterAnOutageNothingThatIsStillHeldIsLeasedAgain(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 5)
		w := taking(2 * time.Minute)
		r := s.start(only("A", w), func(c *Config) { c.LeaseTime = 10 * time.Second })
		pass(time.Second)
		s.faults.fail()
		pass(time.Minute)
		s.faults.mend()
		pass(10 * time.Second)
		calls := s.faults.history()
		if len(calls) == 0 || calls[0] != renew || !slices.Contains(calls, lease) {
			t.Errorf("the first calls after the outage were %v", calls)
		}
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
		s.has(r, Stats{Leased: 5, Started: 5, Succeeded: 5, Revived: 5})
	})
}

// A renewal that hangs has not failed, but nobody knows what became of the
// leases meanwhile.
func TestNothingIsLeasedWhileARenewalHangs(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 1)
		r := s.start(only("A", taking(time.Minute)))
		pass(50 * time.Millisecond)
		release := s.faults.hang()
		defer release()
		pass(3 * time.Second)
		before := s.faults.count(lease)
		pass(3 * time.Second)
		if n := s.faults.count(lease) - before; n != 0 {
			t.Errorf("%d leases while a renewal hangs", n)
		}
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "last looked at") {
			t.Errorf("Ready answers %v while a renewal hangs", err)
		}
		release()
		pass(time.Second)
		if s.faults.count(lease) == before {
			t.Error("leasing did not resume")
		}
		s.must(r.Ready())
	})
}

func TestB07FreshMailIsNotHeldUpByHopelessTasks(t *testing.T) {
	play(t, func(s *scene) {
		hopeless := s.queue("Hopeless", 500)
		churn := answering(tasks.Outcome{Kind: tasks.Retry, Wait: time.Minute, Reason: "the branch is gone"})
		s.start(map[string]Class{"Hopeless": {Executor: churn}, "Mail": {Executor: &worker{}}})
		pass(3 * time.Minute)
		mail := s.queue("Mail", 5)
		pass(DefaultIdlePoll + linger)
		s.isArchived(tasks.ResultSuccess, mail...)
		for _, id := range hopeless {
			if runs := churn.runs(id); runs != 3 {
				t.Errorf("task %d ran %d times in three minutes although its class waits for one", id, runs)
			}
		}
		stats, err := s.store.Stats(s.Context())
		s.must(err)
		if got := stats.Classes[0]; got.Class != "Hopeless" || got.Failing != len(hopeless) {
			t.Errorf("the queue shows %+v", got)
		}
		if n := s.log.said("Hopeless", "the branch is gone"); n != 3*len(hopeless) {
			t.Errorf("%d of %d failures are logged", n, 3*len(hopeless))
		}
		_, err = s.store.Cancel(s.Context(), hopeless)
		s.must(err)
		pass(10 * time.Minute)
		s.isArchived(tasks.ResultCancelled, hopeless...)
		if n := churn.total(); n != 3*len(hopeless) {
			t.Errorf("%d runs after the tasks were cancelled", n-3*len(hopeless))
		}
	})
}

func TestThePollOfAnIdleQueueSlowsDownAndWakeIsHeardAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		w := &worker{}
		r := s.start(only("A", w), func(c *Config) { c.IdlePoll = time.Hour })
		pass(4 * time.Hour)
		if polls := s.faults.count(lease); polls < 4 || polls > 30 {
			t.Errorf("an idle queue was looked at %d times in four hours with a poll of an hour", polls)
		}
		id := s.queue("A", 1)[0]
		r.Wake()
		synctest.Wait() // no time passes
		s.isArchived(tasks.ResultSuccess, id)
	})
}

func TestTheRequestSaysWhatEachClassWants(t *testing.T) {
	play(t, func(s *scene) {
		s.start(map[string]Class{
			"A": {Executor: &worker{}, Slots: 3, LeaseTime: time.Hour, PickupDelay: time.Second},
			"B": {Executor: &worker{}},
			"C": {Executor: &worker{ready: func(string) bool { return false }}},
		}, func(c *Config) { c.Slots = 8 })
		pass(time.Second)
		want := map[string]tasks.ClassRequest{
			"A": {Limit: 3, LeaseTime: time.Hour, PickupDelay: time.Second},
			"B": {Limit: 8, LeaseTime: DefaultLeaseTime},
		}
		req := s.faults.asked()[0]
		if req.Limit != 8 || len(req.Classes) != 2 || req.Classes["A"] != want["A"] || req.Classes["B"] != want["B"] || req.Others.Limit != 0 {
			t.Errorf("the request is %+v", req)
		}
	})
}
