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

// Cheap tasks flow first, so that the slow ones behind them are leased ahead:
// what bounds those is not the lease but the slots.
func TestSlotsBoundWhatRunsAtTheSameTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		total   int
		ofClass int
	}{
		{"in total", 2, 8},
		{"in each class", 8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(s *scene) {
				w := byData()
				for _, d := range []string{`"0s"`, `"1s"`} {
					for range 20 {
						s.queueData("A", d)
						s.queueData("B", d)
					}
				}
				class := Class{Executor: w, Slots: c.ofClass}
				r := s.start(map[string]Class{"A": class, "B": class}, func(config *Config) { config.Slots = c.total })
				pass(time.Minute)
				if w.top != 2 {
					t.Errorf("%d tasks ran at once, want 2", w.top)
				}
				if done := r.Stats().Succeeded; done != 80 {
					t.Errorf("%d of 80 tasks are done", done)
				}
			})
		})
	}
}

func TestTasksThatAreLeasedAheadRunInTheOrderOfTheQueue(t *testing.T) {
	play(t, func(s *scene) {
		w := &worker{}
		interleaved := func(n int) (ids []int64) {
			for range n {
				ids = append(ids, s.queue("B", 1)...)
				ids = append(ids, s.queue("A", 1)...)
			}
			return ids
		}
		interleaved(2) // now both classes have a pace
		r := s.start(map[string]Class{"A": {Executor: w}, "B": {Executor: w}}, func(c *Config) { c.Slots = 1 })
		synctest.Wait()
		ids := interleaved(50)
		r.Wake()
		synctest.Wait()
		if got := w.order(); len(got) < 100 || !slices.Equal(got[4:], ids) {
			t.Errorf("tasks ran in the order %v", got)
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

// Not the next poll brings the next task, nor the settlement of the last one.
func TestASlotThatBecomesFreeIsFilledAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 10)
		s.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
			tasks.Pause(ctx, 5*time.Second)
			return s.store.Settle(ctx, settlements)
		}
		r := s.start(map[string]Class{"A": {Executor: taking(100 * time.Millisecond), Slots: 1}, "B": {Executor: &worker{}}},
			func(c *Config) { c.IdlePoll = time.Hour })
		pass(950 * time.Millisecond)
		if started := r.Stats().Started; started != 10 {
			t.Errorf("%d of 10 tasks of 100 ms were started in time", started)
		}
	})
}

func TestSettlingThatFallsBehindHoldsUpLeasing(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 5000)
		s.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
			tasks.Pause(ctx, time.Second)
			return s.store.Settle(ctx, settlements)
		}
		r := s.start(only("A", &worker{}))
		for range 10 {
			synctest.Wait()
			if held := r.Stats().Held; held > DefaultSlots+maxBacklog {
				t.Fatalf("%d tasks are held", held)
			}
			pass(time.Second)
		}
		if done := r.Stats().Succeeded; done < 4000 {
			t.Errorf("%d tasks were settled by %d settlers in ten calls each", done, settlers)
		}
	})
}

// It may have skipped rows that somebody had locked.
func TestAStoreThatAnswersLessThanItWasAskedForIsAskedAgainAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			req.Limit = (req.Limit + 1) / 2
			return s.store.Lease(ctx, req)
		}
		ids := s.queue("A", 1000)
		s.start(only("A", &worker{}), func(c *Config) { c.IdlePoll = time.Hour })
		synctest.Wait() // no time passes
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}

func TestLeasingThatFailsIsTriedEverMoreSeldom(t *testing.T) {
	play(t, func(s *scene) {
		s.faults.fail(lease)
		r := s.start(only("A", &worker{}))
		pass(10 * time.Minute)
		if n := s.faults.count(lease); n < 100 || n > 250 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if n := s.log.said("cannot lease tasks"); n < 10 || n > 21 {
			t.Errorf("the failure is said %d times in ten minutes", n)
		}
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "cannot lease tasks since") {
			t.Errorf("Ready answers %v", err)
		}
		s.faults.mend()
		pass(10 * time.Second)
		s.must(r.Ready())
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

// A server that came back as an older copy of itself may have forgotten the
// leases: whoever asks for tasks first would run them beside those.
func TestAfterAnyFailureTheLeasesAreLookedAtBeforeMoreAreTaken(t *testing.T) {
	play(t, func(s *scene) {
		r := s.start(only("A", until()))
		pass(350 * time.Millisecond) // the second renewal is due at 400 ms
		id := s.queue("A", 1)[0]
		r.Wake()
		pass(10 * time.Millisecond)
		s.faults.fail()
		r.Wake()
		pass(20 * time.Millisecond)
		s.faults.mend()
		s.must(s.store.Place(id, tasks.Place{}))
		r.Wake()
		pass(100 * time.Millisecond)
		if calls := s.faults.history(); len(calls) < 2 || calls[0] != renew || calls[1] != lease {
			t.Errorf("the calls after the failure were %v", calls)
		}
		s.has(r, Stats{Leased: 2, Started: 2, Lost: 1, Held: 1, Running: 1})
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
		pass(DefaultIdlePoll + lingerLeast)
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
