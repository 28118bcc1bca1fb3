package runtime

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
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
		if s.log.said("panic: oh no", "execute_test.go") != 1 {
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
		if s.log.said("class cannot run here now") != 1 {
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
