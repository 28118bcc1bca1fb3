package runtime

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func slots(n int) *Limit { return &Limit{Slots: func() int { return n }} }

func TestClassesWithOneLimitShareItsSlots(t *testing.T) {
	play(t, func(s *scene) {
		w, limit := taking(time.Second), slots(3)
		for range 20 {
			s.queue("A", 1)
			s.queue("B", 1)
			s.queue("C", 1)
		}
		class := Class{Executor: w, Limit: limit}
		r := s.start(map[string]Class{"A": class, "B": class}, func(c *Config) { c.Others = &class })
		pass(500 * time.Millisecond)
		if held := r.Stats().Held; held != 3 {
			t.Errorf("%d tasks are held for three slots, and each takes a second", held)
		}
		pass(time.Minute)
		if w.top != 3 || w.total() != 60 {
			t.Errorf("%d tasks ran, %d at once; want 60 and 3", w.total(), w.top)
		}
	})
}

// Cheap tasks flow first, so that many are leased ahead; what is queued behind
// a slow one must not count against anybody else.
func TestSlowTasksThatFillTheirLimitLeaveOtherClassesTheirSlots(t *testing.T) {
	play(t, func(s *scene) {
		php, plugin := byData(), taking(100*time.Millisecond)
		for range 200 {
			s.queueData("Php", `"1ms"`)
		}
		s.queueData("Php", `"1h"`, `"1h"`)
		for range 2000 {
			s.queueData("Php", `"1ms"`)
		}
		r := s.start(map[string]Class{"Plugin": {Executor: plugin}},
			func(c *Config) { c.Others, c.Slots = &Class{Executor: php, Limit: slots(2)}, 10 })
		pass(time.Second / 2)
		if held := r.Stats().Held; held < 20 || php.now != 2 {
			t.Fatalf("%d tasks are held and %d run; the scene wants many to wait behind two slow ones", held, php.now)
		}
		s.queue("Plugin", 100)
		began := time.Now()
		for plugin.total() < 100 {
			pass(time.Millisecond)
		}
		if took := time.Since(began); took > time.Second || plugin.top != 10 {
			t.Errorf("100 tasks of 100 ms took %v with %d at once; ten slots need 900 ms to start them", took, plugin.top)
		}
	})
}

func TestOtherClassesThatFillTheirSlotsLeaveALimitItsOwn(t *testing.T) {
	play(t, func(s *scene) {
		php := &worker{}
		s.queue("Plugin", 5000)
		ids := s.queue("Php", 10)
		s.start(map[string]Class{
			"Plugin": {Executor: taking(time.Second)},
			"Php":    {Executor: php, Limit: slots(1)},
		}, func(c *Config) { c.Slots = 2 })
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}

func TestALimitMayChangeWhileTasksRun(t *testing.T) {
	play(t, func(s *scene) {
		var n atomic.Int32
		w := taking(10 * time.Second)
		s.queue("A", 20)
		r := s.start(map[string]Class{"A": {Executor: w, Limit: &Limit{Slots: func() int { return int(n.Load()) }}}})
		running := func(want int) {
			t.Helper()
			pass(DefaultIdlePoll)
			if got := r.Stats(); got.Running != want || got.Held != want {
				t.Errorf("with %d slots %d tasks run and %d are held", n.Load(), got.Running, got.Held)
			}
		}
		running(0)
		n.Store(2)
		running(2)
		n.Store(5)
		running(5)
		n.Store(1)
		running(5)
		pass(10 * time.Second)
		running(1)
		n.Store(-1)
		pass(10 * time.Second)
		running(0)
	})
}

// What waits already, leased ahead, needs no new lease to start.
func TestTasksThatWaitStartWhenTheirLimitGrows(t *testing.T) {
	play(t, func(s *scene) {
		var n atomic.Int32
		n.Store(1)
		w := byData()
		s.queueData("A", slices.Repeat([]string{`"0s"`}, 20)...)
		s.queueData("A", slices.Repeat([]string{`"1h"`}, 5)...)
		leases := 0
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			if leases++; leases > 2 {
				return nil, nil
			}
			return s.store.Lease(ctx, req)
		}
		r := s.start(map[string]Class{"A": {Executor: w, Limit: &Limit{Slots: func() int { return int(n.Load()) }}}})
		pass(2 * horizon) // the class has no pace any more
		if got := r.Stats(); got.Running != 1 || got.Held != 5 {
			t.Fatalf("%d of %d held tasks run; the scene wants four to wait behind one", got.Running, got.Held)
		}
		n.Store(4)
		pass(DefaultIdlePoll)
		if got := r.Stats(); got.Running != 4 {
			t.Errorf("%d tasks run, want 4", got.Running)
		}
	})
}

func TestThreeTasksThatAlwaysFailDelayAGoodOneNotAtAll(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
	}{
		{"when they wait as in Phorge", tasks.DefaultWait},
		{"when they are due again at once", -time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(s *scene) {
				var good int64
				var after time.Duration
				began := time.Now()
				w := &worker{do: func(_ context.Context, task tasks.Task) tasks.Outcome {
					if task.ID != good {
						return tasks.Outcome{Kind: tasks.Retry, Wait: c.wait, Reason: "as always"}
					}
					after = time.Since(began)
					return tasks.Outcome{Kind: tasks.Succeeded}
				}}
				s.queue("A", 3)
				good = s.queue("A", 1)[0]
				s.start(map[string]Class{"A": {Executor: w, Limit: slots(1)}})
				pass(time.Second)
				s.isArchived(tasks.ResultSuccess, good)
				if after > lingerLeast {
					t.Errorf("it started after %v", after)
				}
			})
		})
	}
}

func TestSettlementsNameTheRouteThatRanTheTask(t *testing.T) {
	play(t, func(s *scene) {
		routes := map[string]string{}
		s.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
			for _, settlement := range settlements {
				routes[s.row(settlement.ID).Class] = settlement.Route + " " + settlement.Outcome.Category
			}
			return s.store.Settle(ctx, settlements)
		}
		pool := answering(tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour, Category: "exception"})
		class := func(executor tasks.Executor) Class {
			return Class{Executor: executor, Route: "plugin", Fallback: pool, FallbackRoute: "pool", Deadline: time.Second}
		}
		classes := map[string]Class{
			"Ran":      class(answering(tasks.Outcome{Kind: tasks.Failed})),
			"Retried":  class(answering(tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour})),
			"Crashed":  class(answering(tasks.Outcome{Kind: tasks.Crashed, Wait: time.Hour})),
			"Hung":     class(until()),
			"Declined": class(answering(tasks.Outcome{Kind: tasks.Declined})),
			"Down":     class(&worker{ready: func(string) bool { return false }}),
			"Panicked": class(&worker{do: func(context.Context, tasks.Task) tasks.Outcome { panic("oh no") }}),
		}
		for name := range classes {
			s.queue(name, 1)
		}
		s.start(classes)
		pass(2 * time.Second)
		for class, want := range map[string]string{
			"Ran": "plugin permanent", "Retried": "plugin temporary", "Crashed": "plugin crash", "Hung": "plugin deadline",
			"Panicked": "plugin panic", "Declined": "pool exception", "Down": "pool exception",
		} {
			if routes[class] != want {
				t.Errorf("%s was settled as %q, want %q", class, routes[class], want)
			}
		}
		if s.log.said("failed permanently", `"route":"plugin"`) != 1 {
			t.Errorf("the log does not name the route:\n%s", s.log)
		}
	})
}

func TestFallbacksWaitInTheSlotsOfTheirOwnClass(t *testing.T) {
	play(t, func(s *scene) {
		pool := taking(time.Second)
		s.queue("Plugin", 10)
		down := &worker{ready: func(string) bool { return false }}
		r := s.start(map[string]Class{"Plugin": {Executor: down, Fallback: pool, Slots: 4}},
			func(c *Config) { c.Others = &Class{Executor: pool, Limit: slots(1)} })
		synctest.Wait()
		if running := r.Stats().Running; running != 4 {
			t.Errorf("%d tasks are with the pool, want 4", running)
		}
	})
}
