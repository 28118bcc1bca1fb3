package runtime

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestALongTaskKeepsItsLease(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		w := taking(20 * time.Minute)
		s.start(only("A", w))
		for range 100 {
			pass(10 * time.Second)
			if left := *s.row(id).Expires - time.Now().Unix(); left < 39 {
				t.Fatalf("%d s of the lease are left", left)
			}
		}
		pass(20 * time.Minute)
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

// Cheap tasks flow, so the ones behind are leased while a slow one has the only
// slot. They are cancelled there.
func TestB16ATaskCancelledBetweenLeaseAndStartIsNotStarted(t *testing.T) {
	play(t, func(s *scene) {
		w := byData()
		cheap := s.queueData("A", slices.Repeat([]string{`"0s"`}, 20)...)
		slow := s.queueData("A", `"500ms"`)
		behind := s.queueData("A", slices.Repeat([]string{`"0s"`}, 3)...)
		r := s.start(only("A", w), func(c *Config) { c.Slots = 1 })
		pass(100 * time.Millisecond)
		if held := r.Stats().Held; held != 4 {
			t.Fatalf("%d tasks are held; three are to be leased behind the slow one", held)
		}
		_, err := s.store.Cancel(s.Context(), behind[:2])
		s.must(err)
		pass(time.Second)
		s.isArchived(tasks.ResultCancelled, behind[:2]...)
		if got, want := w.order(), slices.Concat(cheap, slow, behind[2:]); !slices.Equal(got, want) {
			t.Errorf("%v ran, want %v", got, want)
		}
		s.has(r, Stats{Leased: 24, Started: 22, Succeeded: 22, Lost: 2})
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
			s.faults.fail(renew) // the lease lives as long as it was taken for
			tasks.Pause(ctx, 30*time.Second)
			s.faults.mend()
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}
		s.start(map[string]Class{"Slow": {Executor: w, LeaseTime: time.Minute}}, func(c *Config) { c.LeaseTime = 10 * time.Second })
		synctest.Wait()
		idle := &worker{}
		s.start(only("Slow", idle), func(c *Config) { c.Store = s.other })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, id)
		if w.runs(id) != 1 || idle.runs(id) != 0 {
			t.Errorf("it ran %d and %d times", w.runs(id), idle.runs(id))
		}
		if left != 60 {
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

// The work begins only when the store has the lease it requires.
func TestWorkThatRequiresALongerLeaseWaitsForAStoreThatIsDown(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 1)
		s.faults.fail(renew)
		w := &requiring{lease: time.Hour}
		s.start(only("A", w))
		pass(10 * time.Second)
		if w.total() != 0 {
			t.Fatal("the work began without its lease")
		}
		s.faults.mend()
		pass(2 * time.Second)
		if w.total() != 1 {
			t.Error("the work did not begin when the store was back")
		}
	})
}

func TestAnOutageEndsNothingAndDoublesNothing(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 20)
		w := taking(10 * time.Second)
		r := s.start(only("A", w), func(c *Config) { c.Slots = 4 })
		pass(5 * time.Second)
		s.faults.fail()
		pass(10 * time.Minute) // ten times a lease
		if err := r.Ready(); err == nil {
			t.Error("it is ready although the store is down")
		}
		if n := s.log.said("cannot renew leases"); n < 1 || n > 30 {
			t.Errorf("the outage is said %d times in ten minutes", n)
		}
		s.faults.mend()
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
