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

func TestAnOutcomeWhoseLeaseWasTakenInAnOutageIsDropped(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		r := s.start(only("A", taking(time.Second)))
		pass(500 * time.Millisecond)
		s.faults.fail()
		pass(10 * time.Minute)
		taken, err := s.other.Lease(s.Context(), tasks.LeaseRequest{Limit: 1, Others: tasks.ClassRequest{Limit: 1, LeaseTime: time.Hour}})
		s.must(err)
		if len(taken) != 1 || taken[0].ID != id {
			t.Fatalf("the other process leased %+v", taken)
		}
		s.faults.mend()
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
		ids := s.queue("A", 5000)
		s.start(only("A", &worker{}))
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
		if n := s.faults.count(settle); n > 60 {
			t.Errorf("%d settlements for %d tasks", n, len(ids))
		}
	})
}

func TestAnOutcomeWaitsForOthersOnlyWhileThereCanBeSome(t *testing.T) {
	play(t, func(s *scene) {
		slow := s.queueData("A", `"1s"`)
		cheap := s.queueData("A", `"0s"`)
		s.start(only("A", byData()))
		synctest.Wait()
		if s.row(cheap[0]).Archive != nil {
			t.Error("it did not wait for the other task")
		}
		pass(lingerLeast)
		s.isArchived(tasks.ResultSuccess, cheap...)
		pass(time.Second - lingerLeast) // the second is over, and no more time passes
		s.isArchived(tasks.ResultSuccess, slow...)
	})
}

func TestSlowTasksShareTheirSettlements(t *testing.T) {
	play(t, func(s *scene) {
		// One ends every five milliseconds.
		ids := s.queueData("A", slices.Repeat([]string{`"20ms"`, `"25ms"`, `"30ms"`, `"35ms"`}, 100)...)
		s.start(only("A", byData()), func(c *Config) { c.Slots = 4 })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, ids...)
		if n := s.faults.count(settle); n > len(ids)/3 {
			t.Errorf("%d settlements for %d tasks", n, len(ids))
		}
	})
}

func TestAnOutcomeIsKeptUntilTheStoreTakesIt(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 10)
		w := &worker{}
		s.faults.fail(settle)
		r := s.start(only("A", w))
		pass(10 * time.Minute)
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "cannot settle outcomes since") {
			t.Errorf("Ready answers %v", err)
		}
		if tries := s.faults.count(settle); tries > 500 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		for _, id := range ids {
			if left := *s.row(id).Expires - time.Now().Unix(); left < 39 {
				t.Fatalf("%d s are left of the lease of task %d", left, id)
			}
		}
		s.faults.mend()
		pass(10 * time.Second)
		s.isArchived(tasks.ResultSuccess, ids...)
		s.has(r, Stats{Leased: 10, Started: 10, Succeeded: 10})
		if w.total() != len(ids) {
			t.Errorf("%d runs of %d tasks", w.total(), len(ids))
		}
	})
}

func TestASettlementWhoseAnswerWasLostIsRepeated(t *testing.T) {
	play(t, func(s *scene) {
		lostAnswers := 3
		s.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
			answers, err := s.store.Settle(ctx, settlements)
			if lostAnswers--; lostAnswers >= 0 {
				return nil, errDown
			}
			return answers, err
		}
		id := s.queue("A", 1)[0]
		r := s.start(map[string]Class{
			"A": {Executor: answering(tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "B", Data: []byte("1")}}})},
		})
		pass(10 * time.Second)
		s.isArchived(tasks.ResultSuccess, id)
		s.has(r, Stats{Leased: 1, Started: 1, Succeeded: 1})
		all, err := s.store.All()
		s.must(err)
		if len(all) != 2 {
			t.Errorf("there are %d tasks, want the parent and one follow-up", len(all))
		}
	})
}

func TestOneLostLeaseDoesNotHoldUpTheOthersOfItsBatch(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 5)
		r := s.start(only("A", &worker{do: func(ctx context.Context, task tasks.Task) tasks.Outcome {
			tasks.Pause(ctx, time.Second)
			if task.ID == ids[2] { // in the last moment
				_, _ = s.store.Cancel(context.Background(), []int64{task.ID})
			}
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}))
		pass(2 * time.Second)
		s.isArchived(tasks.ResultCancelled, ids[2])
		s.isArchived(tasks.ResultSuccess, ids[0], ids[1], ids[3], ids[4])
		s.has(r, Stats{Leased: 5, Started: 5, Succeeded: 4, Lost: 1})
		if s.log.said("lease lost") != 1 {
			t.Errorf("it is to be said once:\n%s", s.log)
		}
	})
}

// No store answers so, but if one does, it must not lose the task.
func TestAnOutcomeThatIsRefusedForAnotherReasonIsKept(t *testing.T) {
	play(t, func(s *scene) {
		refusals := 5
		s.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
			if refusals--; refusals >= 0 {
				return []tasks.Settled{{ID: settlements[0].ID, Err: tasks.ErrTooLarge}}, nil
			}
			return s.store.Settle(ctx, settlements)
		}
		id := s.queue("A", 1)[0]
		s.start(only("A", &worker{}))
		pass(time.Minute)
		if got := s.row(id); got.FailureCount != 1 || got.Archive != nil {
			t.Errorf("the task is %+v, want it to wait after one failed attempt", got)
		}
		if n := s.log.said("cannot settle outcomes"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, s.log)
		}
	})
}

func TestASuccessThatLostItsFollowUpsIsToldLoudly(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		s.start(map[string]Class{
			"A": {Executor: answering(tasks.Outcome{Kind: tasks.Succeeded, Reason: "the follow-up is too long"})},
		})
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, id)
		if n := s.log.said(`"level":"error"`, "task succeeded, but", "the follow-up is too long"); n != 1 {
			t.Errorf("it was told %d times", n)
		}
	})
}
