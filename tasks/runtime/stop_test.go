package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestDrainWaitsForWhatRunsAndGivesBackTheRestAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		cheap := s.queueData("A", slices.Repeat([]string{`"0s"`}, 20)...)
		slow := s.queueData("A", `"10s"`)
		behind := s.queueData("A", slices.Repeat([]string{`"0s"`}, 5)...)
		r := s.start(only("A", byData()), func(c *Config) { c.Slots = 1 })
		pass(100 * time.Millisecond)
		if held := r.Stats().Held; held != 6 {
			t.Fatalf("%d tasks are held; five are to be leased behind the slow one", held)
		}
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(s.Context()) }()
		pass(lingerLeast)
		s.isBack(behind...)
		if err := r.Ready(); err == nil {
			t.Error("it is ready while it drains")
		}
		s.must(<-drained)
		s.isArchived(tasks.ResultSuccess, append(cheap, slow...)...)
		s.isBack(behind...)
		s.has(r, Stats{Leased: 26, Started: 21, Succeeded: 21, Released: 5})
		if err := r.Start(); err == nil {
			t.Error("a drained runtime could be started again")
		}
	})
}

// A lease call that was under way when leasing stopped still brings tasks.
func TestTasksThatArriveAfterTheStopAreGivenBack(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 3)
		w := &worker{}
		s.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			tasks.Pause(ctx, time.Second)
			return s.store.Lease(ctx, req)
		}
		r := s.start(only("A", w))
		pass(500 * time.Millisecond)
		s.must(r.Close())
		s.isBack(ids...)
		s.has(r, Stats{Leased: 3, Released: 3})
		if w.total() != 0 {
			t.Errorf("%d tasks ran", w.total())
		}
	})
}

func TestDrainWaitsForAStoreThatComesBack(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		r := s.start(only("A", taking(time.Second)))
		pass(500 * time.Millisecond)
		s.faults.fail()
		time.AfterFunc(20*time.Second, s.faults.mend)
		s.must(r.Drain(s.Context()))
		s.isArchived(tasks.ResultSuccess, id)
	})
}

func TestCloseEndsADrain(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		r := s.start(only("A", taking(time.Hour)), func(c *Config) { c.DrainTimeout = time.Hour })
		pass(time.Second)
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(s.Context()) }()
		pass(time.Second)
		began := time.Now()
		s.must(r.Close())
		s.must(<-drained)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		s.isBack(id)
	})
}

func TestCloseEndsADrainThatWaitsForTheStore(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 1)
		s.faults.fail(settle)
		r := s.start(only("A", &worker{}), func(c *Config) { c.DrainTimeout = time.Hour })
		pass(time.Second)
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(s.Context()) }()
		pass(time.Minute)
		began := time.Now()
		err := r.Close()
		if again := <-drained; err == nil || again != err {
			t.Errorf("Close answers %v and Drain %v", err, again)
		}
		if took := time.Since(began); took != stopLimit {
			t.Errorf("it took %v", took)
		}
	})
}

func TestDrainCancelsWhatTakesTooLongAndCountsNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit time.Duration // of the context
	}{
		{"at its own limit", time.Hour},
		{"when the context ends, as at a second signal", time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(s *scene) {
				yielded := s.queue("A", 1)[0]
				owner, past := tasks.YieldOwner, time.Now().Unix()-100
				s.must(s.store.Place(yielded, tasks.Place{Owner: &owner, Expires: &past}))
				fresh := s.queue("A", 1)[0]
				r := s.start(only("A", until()))
				pass(time.Minute)
				began := time.Now()
				ctx, cancel := context.WithTimeout(s.Context(), c.limit)
				defer cancel()
				s.must(r.Drain(ctx))
				if took := time.Since(began); took != min(c.limit, DefaultDrainTimeout) {
					t.Errorf("it took %v", took)
				}
				if s.owner(fresh) != "NULL" || s.owner(yielded) != tasks.YieldOwner || *s.row(yielded).Expires != past {
					t.Errorf("the tasks stand at %s and %s", s.owner(fresh), s.owner(yielded))
				}
				if s.row(fresh).FailureCount+s.row(yielded).FailureCount != 0 {
					t.Error("stopping cost an attempt")
				}
			})
		})
	}
}

func TestATaskLeasedFromADeadRuntimeGoesBackUnderAnOwnerOfNobody(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		dead := tasks.Owner{Fence: 1, Nonce: "dead"}.String()
		past := time.Now().Unix() - 60
		s.must(s.store.Place(id, tasks.Place{Owner: &dead, Expires: &past}))
		r := s.start(only("A", until()))
		pass(time.Second)
		s.must(r.Close())
		if owner := s.owner(id); !strings.HasPrefix(owner, "(back):") || tasks.Crashes(owner) != 1 || *s.row(id).Expires != past {
			t.Errorf("it stands at %s, expires %d", owner, *s.row(id).Expires)
		}
	})
}

func TestWorkThatSucceededWhileItWasStoppedIsKept(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		r := s.start(only("A", &worker{do: func(ctx context.Context, _ tasks.Task) tasks.Outcome {
			<-ctx.Done()
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}))
		pass(time.Second)
		s.must(r.Close())
		s.isArchived(tasks.ResultSuccess, id)
	})
}

// PHP on another host goes on with its task.
func TestWhatCannotBeStoppedWaitsAtLeastAsLongAsItsLease(t *testing.T) {
	for name, c := range map[string]struct{ asked, want time.Duration }{
		"longer than the lease":  {5 * time.Minute, 5 * time.Minute},
		"shorter than the lease": {time.Second, DefaultLeaseTime},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				id := s.queue("A", 1)[0]
				r := s.start(only("A", &worker{do: func(ctx context.Context, _ tasks.Task) tasks.Outcome {
					<-ctx.Done()
					return tasks.Outcome{Kind: tasks.Released, Wait: c.asked}
				}}))
				pass(time.Second)
				s.must(r.Close())
				s.waits(id, "(back)", c.want, 0)
			})
		})
	}
}

func TestCloseNamesTheOutcomesThatCouldNotBeSettled(t *testing.T) {
	play(t, func(s *scene) {
		s.queue("A", 1)
		r := s.start(only("A", until()))
		pass(time.Second)
		s.faults.fail()
		began := time.Now()
		err := r.Close()
		if took := time.Since(began); took != stopLimit {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "[1]") {
			t.Errorf("Close answers %v", err)
		}
		if again := r.Close(); again == nil || again.Error() != err.Error() {
			t.Errorf("the second Close answers %v", again)
		}
	})
}

func TestRunOnceMakesOnePass(t *testing.T) {
	play(t, func(s *scene) {
		ids := s.queue("A", 3)
		r := s.runtime(only("A", taking(time.Second)), func(c *Config) { c.Slots = 2 })
		for _, want := range []int{2, 1, 0} {
			got, err := r.RunOnce(s.Context())
			s.must(err)
			if got.Leased != want || got.Succeeded != want || got.Held != 0 {
				t.Errorf("a pass did %+v, want %d tasks", got, want)
			}
		}
		s.isArchived(tasks.ResultSuccess, ids...)
		s.must(r.Start())
		if _, err := r.RunOnce(s.Context()); err == nil {
			t.Error("RunOnce beside Start is not refused")
		}
	})
}

func TestRunOnceAnswersWhyItCannotLease(t *testing.T) {
	play(t, func(s *scene) {
		s.faults.fail(lease)
		_, err := s.runtime(only("A", &worker{})).RunOnce(s.Context())
		if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "lease tasks") {
			t.Errorf("RunOnce answers %v", err)
		}
		if s.log.said("connection refused") != 0 {
			t.Errorf("it is answered and logged:\n%s", s.log)
		}
	})
}

func TestRunOnceGivesBackWhatRunsWhenItsContextEnds(t *testing.T) {
	play(t, func(s *scene) {
		id := s.queue("A", 1)[0]
		r := s.runtime(only("A", until()))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, err := r.RunOnce(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce answers %v", err)
		}
		if s.owner(id) != "NULL" {
			t.Errorf("it stands at %s", s.owner(id))
		}
	})
}

func TestRunOnceStopsSearchingWhenItsContextEnds(t *testing.T) {
	play(t, func(s *scene) {
		s.faults.lease = func(ctx context.Context, _ tasks.LeaseRequest) ([]tasks.Task, error) {
			tasks.Pause(ctx, 10*time.Millisecond)
			return nil, tasks.ErrSearching
		}
		r := s.runtime(only("A", &worker{}))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, err := r.RunOnce(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce answers %v", err)
		}
	})
}

// Without a bubble: real goroutines, real time, the race detector, and a leak
// check when the tests end.
func TestFiftyStartsAndStopsLeaveNothing(t *testing.T) {
	store := storetest.NewMemory(func() int64 { return time.Now().Unix() })
	w := &worker{}
	queued := 0
	for round := range 50 {
		news := make([]tasks.NewTask, 50)
		for i := range news {
			news[i] = tasks.NewTask{Class: "A", Data: []byte("{}")}
		}
		if _, err := store.Enqueue(t.Context(), news); err != nil {
			t.Fatal(err)
		}
		queued += len(news)
		c := Config{Store: store, Classes: only("A", w)}
		if round%3 == 0 {
			c.Classes, c.Others = nil, &Class{Executor: w, Limit: slots(8)}
		}
		r, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { _ = r.Start() }) // Close may come first
		for range 3 {
			group.Go(r.Wake)
			group.Go(func() { _ = r.Ready(); r.Stats() })
		}
		group.Go(func() {
			stop := r.Close
			if round%2 == 0 {
				stop = func() error { return r.Drain(t.Context()) }
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	all, err := store.All()
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, r := range all {
		switch {
		case r.Archive != nil:
			done++
		case r.Owner != nil || r.FailureCount != 0:
			t.Errorf("task %d was not given back to its place: %+v", r.ID, r.Place)
		}
	}
	if len(all) != queued || done != w.total() {
		t.Errorf("%d tasks of %d are there; %d ran and %d are archived", len(all), queued, w.total(), done)
	}
}
