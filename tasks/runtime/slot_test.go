package runtime

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestEveryTaskRunsOnceAndIsArchived(t *testing.T) {
	play(t, func(s *scene) {
		w := &worker{}
		ids := s.queue("A", 1000)
		r := s.start(only("A", w))
		pass(5 * time.Second)
		s.isArchived(tasks.ResultSuccess, ids...)
		if w.total() != len(ids) {
			t.Errorf("%d executions of %d tasks", w.total(), len(ids))
		}
		if got := r.Stats(); got.Succeeded != 1000 || got.Held != 0 || got.Started != 1000 {
			t.Errorf("stats are %+v", got)
		}
	})
}

func TestOutcomesBecomeOfTheTaskWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome tasks.Outcome
		check   func(s *scene, id int64)
	}{
		{"failed for good", tasks.Outcome{Kind: tasks.Failed, Reason: "no use"}, func(s *scene, id int64) {
			s.isArchived(tasks.ResultFailure, id)
			if s.log.said("failed permanently", "no use") != 1 {
				t.Errorf("the log does not say why:\n%s", s.log)
			}
		}},
		{"B05 tried again, under an owner that stock consumers heed", tasks.Outcome{Kind: tasks.Retry, Wait: 600 * time.Second}, func(s *scene, id int64) {
			s.waits(id, "(retry):", 599*time.Second, 1)
		}},
		{"yielded", tasks.Outcome{Kind: tasks.Yielded, Wait: time.Minute}, func(s *scene, id int64) {
			s.waits(id, tasks.YieldOwner, 59*time.Second, 0)
		}},
		{"an unknown outcome is a failed attempt", tasks.Outcome{Kind: "odd"}, func(s *scene, id int64) {
			s.waits(id, "(retry):", tasks.DefaultWait-time.Second, 1)
		}},
		{"lost, as its executor found out", tasks.Outcome{Kind: tasks.Lost}, func(s *scene, id int64) {
			if _, ours := tasks.ParseOwner(s.owner(id)); !ours || s.log.said("lease lost") != 1 {
				t.Errorf("task %d stands at %s and the log says:\n%s", id, s.owner(id), s.log)
			}
		}},
		{"declined, and nothing else can run it", tasks.Outcome{Kind: tasks.Declined, Reason: "too hard"}, func(s *scene, id int64) {
			s.waits(id, "(back):", declineWait-time.Second, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(s *scene) {
				id := s.queue("A", 1)[0]
				s.start(only("A", answering(c.outcome)))
				pass(time.Second)
				c.check(s, id)
			})
		})
	}
}

func TestFollowUpsAreQueuedWithTheSuccess(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("Parent", 3)
		child := &worker{}
		s.start(map[string]Class{
			"Parent": {Executor: answering(tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "Child", Data: []byte("1")}}})},
			"Child":  {Executor: child},
		})
		pass(time.Second)
		if child.total() != 3 {
			t.Errorf("%d follow-ups ran, want 3", child.total())
		}
	})
}

func TestAFollowUpThatCannotBeStoredIsAFailedAttempt(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		s.start(only("A", answering(tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "B", Data: []byte("{")}}})))
		pass(time.Second)
		s.waits(id, "(retry):", tasks.DefaultWait-time.Second, 1)
		if s.log.said("cannot be stored", "not valid JSON") != 1 {
			t.Errorf("the log does not say why:\n%s", s.log)
		}
	})
}

func TestAPanicIsOneFailedAttemptWithItsTextKept(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		s.start(only("A", &worker{do: func(context.Context, tasks.Task) tasks.Outcome { panic("oh no") }}))
		pass(time.Second)
		s.waits(id, "(retry):", tasks.DefaultWait-time.Second, 1)
		if s.log.said("panic: oh no", "slot_test.go") != 1 {
			t.Errorf("the log does not keep the panic:\n%s", s.log)
		}
	})
}

func TestB14AHandlerThatNeverReturnsIsStoppedAtTheDeadline(t *testing.T) {
	play(t, func(s *scene) {
		hung := s.queue("Mail", 4)
		classes := map[string]Class{"Mail": {Executor: until(), Deadline: time.Hour}, "Other": {Executor: &worker{}}}
		s.start(classes, func(c *Config) { c.Slots = 4 })
		pass(time.Second)
		other := s.queue("Other", 1)[0]
		pass(time.Minute)
		if s.row(other).Archive != nil {
			t.Fatal("a task ran although every slot is taken")
		}
		pass(time.Hour)
		s.isArchived(tasks.ResultSuccess, other)
		for _, id := range hung {
			if got := s.row(id).FailureCount; got != 1 {
				t.Errorf("task %d has failureCount %d, want 1", id, got)
			}
		}
		if s.log.said("failed and will be tried again", `"id":1`, "deadline of class Mail") != 1 {
			t.Errorf("the log does not name the task and its class:\n%s", s.log)
		}
	})
}

func TestB39CrashesCountUntilTheTaskIsGivenUp(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		w := answering(tasks.Outcome{Kind: tasks.Crashed, Wait: time.Minute, Reason: "signal: killed"})
		s.start(only("A", w))
		pass(time.Second)
		s.waits(id, "(retry):", time.Minute-time.Second, 1)
		if got := tasks.Crashes(s.owner(id)); got != 1 {
			t.Errorf("the owner counts %d crashes, want 1", got)
		}
		pass(10 * time.Minute)
		s.isArchived(tasks.ResultFailure, id)
		if w.runs(id) != DefaultMaxCrashes {
			t.Errorf("it ran %d times, want %d", w.runs(id), DefaultMaxCrashes)
		}
		if s.log.said("failed permanently", "died 3 times", "signal: killed") != 1 {
			t.Errorf("the log does not say why:\n%s", s.log)
		}
	})
}

func TestATaskWhoseRuntimesDiedIsGivenUpWithoutRunning(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		place := tasks.Owner{Fence: 1, Crashes: 2, Nonce: "dead", Host: "h"}.String()
		past := time.Now().Unix() - 60
		s.must(s.store.Place(id, tasks.Place{Owner: &place, Expires: &past}))
		w := &worker{}
		s.start(only("A", w))
		pass(time.Second)
		s.isArchived(tasks.ResultFailure, id)
		if w.total() != 0 {
			t.Error("it ran")
		}
	})
}

func TestADeclinedTaskRunsInTheFallbackUnderTheSameLease(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		var owner string
		fallback := &worker{do: func(_ context.Context, task tasks.Task) tasks.Outcome {
			owner = task.Lease.Owner
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}
		first := answering(tasks.Outcome{Kind: tasks.Declined})
		s.start(map[string]Class{"A": {Executor: first, Fallback: fallback}})
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, id)
		if first.runs(id) != 1 || fallback.runs(id) != 1 || owner != s.owner(id) {
			t.Errorf("ran %d and %d times, under %s", first.runs(id), fallback.runs(id), owner)
		}
	})
}

func TestTheFallbackRunsWhateverComesWhileTheExecutorIsNotReady(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		first := &worker{ready: func(string) bool { return false }}
		fallback := &worker{}
		s.start(map[string]Class{"A": {Executor: first, Fallback: fallback}})
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, id)
		if first.runs(id) != 0 || fallback.runs(id) != 1 {
			t.Errorf("ran %d and %d times", first.runs(id), fallback.runs(id))
		}
	})
}

func TestTasksThatNothingElseCanRunAreDeclinedWithOneLineAClass(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 10)
		decline := answering(tasks.Outcome{Kind: tasks.Declined, Reason: "too hard"})
		r := s.start(map[string]Class{"A": {Executor: decline, Fallback: answering(tasks.Outcome{Kind: tasks.Declined})}})
		pass(time.Minute)
		for _, id := range ids {
			s.waits(id, "(back):", declineWait-time.Minute, 0)
		}
		if n := s.log.said("declined"); n != 1 {
			t.Errorf("it is said %d times", n)
		}
		s.has(r, Stats{Leased: 10, Started: 10, Released: 10})
	})
}

// The executor died between lease and start: nothing is spent, the tasks are
// leased again when it is back, and their quick return is not taken for speed.
func TestTasksWhoseExecutorDiedBeforeTheirStartAreGivenBack(t *testing.T) {
	play(t, func(s *scene) {
		var died, repaired atomic.Bool
		w := taking(10 * time.Second)
		w.ready = func(string) bool { return repaired.Load() || !died.Load() }
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			defer died.Store(true)
			return s.store.Lease(ctx, req)
		}
		ids := s.queue("A", 20)
		r := s.start(only("A", w), func(c *Config) { c.Slots = 2 })
		synctest.Wait()
		s.isBack(ids...)
		s.has(r, Stats{Leased: 2, Started: 2, Released: 2})
		repaired.Store(true)
		pass(time.Second)
		s.has(r, Stats{Leased: 4, Started: 4, Released: 2, Held: 2, Running: 2})
	})
}

// The cap is the handler's own. What it answers must reach the queue as it is:
// a negative wait makes the task due again at once.
func TestB09AnAlwaysFailingTaskRunsOnceMoreThanItsCapAllowsRetries(t *testing.T) {
	play(t, func(s *scene) {
		const retries = 3
		id := s.queue("A", 1)[0]
		var failures []int // failureCount at each run of the work
		handler := tasks.ExecutorFunc(func(_ context.Context, task tasks.Task) tasks.Outcome {
			if task.FailureCount > retries {
				return tasks.Outcome{Kind: tasks.Failed, Reason: "it failed more often than its handler allows"}
			}
			failures = append(failures, task.FailureCount)
			return tasks.Outcome{Kind: tasks.Retry, Wait: -60 * time.Second}
		})
		r := s.start(only("A", handler))
		pass(5 * time.Second)
		s.isArchived(tasks.ResultFailure, id)
		if !slices.Equal(failures, []int{0, 1, 2, 3}) || s.row(id).FailureCount != 4 {
			t.Errorf("the work ran at the failure counts %v and is archived with %d", failures, s.row(id).FailureCount)
		}
		s.has(r, Stats{Leased: 5, Started: 5, Retried: 4, Failed: 1})
	})
}

func TestB39OnlyTheTasksThatADeadProcessHeldCountACrash(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 10)
		r := s.start(only("A", &worker{do: func(_ context.Context, task tasks.Task) tasks.Outcome {
			died := task.FailureCount == 0 && (task.ID == ids[0] || task.ID == ids[4])
			if died {
				return tasks.Outcome{Kind: tasks.Crashed, Wait: time.Minute, Reason: "panic: first one"}
			}
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}))
		pass(time.Second)
		for _, id := range []int64{ids[0], ids[4]} {
			s.waits(id, "(retry):", time.Minute-time.Second, 1)
		}
		s.has(r, Stats{Leased: 10, Started: 10, Succeeded: 8, Crashed: 2})
		if n := s.log.said("panic: first one"); n != 2 {
			t.Errorf("%d crashes are logged with their text", n)
		}
		pass(2 * time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}

func TestClassesThatCannotRunHereAreNeverLeased(t *testing.T) {
	play(t, func(s *scene) {
		unknown, down := s.queue("Unknown", 1)[0], s.queue("Down", 1)[0]
		var up atomic.Bool
		w := &worker{ready: func(string) bool { return up.Load() }}
		r := s.start(only("Down", w))
		pass(time.Minute)
		for _, id := range []int64{unknown, down} {
			if s.owner(id) != "NULL" || s.row(id).FailureCount != 0 {
				t.Errorf("task %d was touched: %s", id, s.owner(id))
			}
		}
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "no class can run here") {
			t.Errorf("Ready answers %v", err)
		}
		if s.log.said("classes cannot run here now", "Down") != 1 {
			t.Errorf("it is to be said once:\n%s", s.log)
		}
		up.Store(true)
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, down)
		if s.owner(unknown) != "NULL" {
			t.Error("a class that nobody configured was leased")
		}
	})
}
