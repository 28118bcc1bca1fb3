package runtime

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// playTwo plays two instances, each on a queue of its own, that share turns.
func playTwo(t *testing.T, total int, run func(a, b *scene, share func(*Config))) {
	t.Helper()
	play(t, func(s *scene) {
		turns := &Turns{Total: total}
		run(s, newScene(s.T), func(c *Config) { c.Turns, c.Slots = turns, total })
	})
}

// run checks how many tasks of two runtimes run.
func run(t *testing.T, a, b *Runtime, ofA, ofB int) {
	t.Helper()
	if a, b := a.Stats().Running, b.Stats().Running; a != ofA || b != ofB {
		t.Errorf("%d and %d tasks run, want %d and %d", a, b, ofA, ofB)
	}
}

func TestTheSameIDInTwoInstancesIsTwoTasks(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		ids := a.queue("A", 100)
		if other := b.queue("A", 100); !slices.Equal(ids, other) {
			t.Fatalf("the ids are %v and %v", ids, other)
		}
		ofA, ofB := &worker{}, answering(tasks.Outcome{Kind: tasks.Failed})
		a.start(only("A", ofA), share)
		b.start(only("A", ofB), share)
		pass(time.Second)
		a.isArchived(tasks.ResultSuccess, ids...)
		b.isArchived(tasks.ResultFailure, ids...)
		for _, id := range ids {
			if ofA.runs(id) != 1 || ofB.runs(id) != 1 {
				t.Errorf("task %d ran %d and %d times", id, ofA.runs(id), ofB.runs(id))
			}
		}
	})
}

func TestAnInstanceThatWasIdleGetsItsShareAsTasksOfTheOtherEnd(t *testing.T) {
	playTwo(t, 8, func(a, b *scene, share func(*Config)) {
		a.queue("A", 1000)
		flooded := a.start(only("A", taking(10*time.Second)), share)
		idle := b.start(only("A", taking(10*time.Second)), share)
		pass(time.Second)
		run(t, flooded, idle, 7, 0)
		b.queue("A", 20)
		idle.Wake()
		synctest.Wait()
		run(t, flooded, idle, 7, 1)
		pass(10 * time.Second) // those of the other end together, and either may be first to lease more
		if n := idle.Stats().Running; n < 4 {
			t.Errorf("%d tasks run, and four is its share", n)
		}
		pass(time.Minute) // it has no more
		run(t, flooded, idle, 7, 0)
	})
}

// What stood in line has started; the rest of what became free needs more tasks.
func TestTurnsThatBecomeFreeAreUsedWithoutAPoll(t *testing.T) {
	playTwo(t, 8, func(a, b *scene, share func(*Config)) {
		a.queue("A", 7)
		ending := a.start(only("A", taking(5*time.Second)), share)
		synctest.Wait()
		waiting := b.runtime(only("A", taking(time.Hour)), share, func(c *Config) { c.IdlePoll = time.Hour })
		b.queue("A", 20)
		pass(4500 * time.Millisecond)
		a.must(waiting.Start())
		pass(time.Second)
		run(t, ending, waiting, 0, 7)
	})
}

// Each drain would take the whole number of turns; the short one must not wait
// for the long one.
func TestAFloodDoesNotKeepTheTasksOfAnotherInstanceWaiting(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		flood, few := taking(10*time.Millisecond), taking(10*time.Millisecond)
		a.queue("A", 2000)
		a.start(only("A", flood), share)
		pass(time.Second)
		before := flood.total()
		late := b.start(only("A", few), share)
		b.queue("A", 100)
		late.Wake()
		for few.total() < 100 {
			pass(time.Millisecond)
		}
		// Two turns each: about as many of the one as of the other.
		if during := flood.total() - before; during > 200 {
			t.Errorf("%d tasks of the flood were started until the 100 others were", during)
		}
	})
}

func TestTwoFloodsGoEquallyFast(t *testing.T) {
	playTwo(t, 5, func(a, b *scene, share func(*Config)) {
		ofA, ofB := taking(10*time.Millisecond), taking(10*time.Millisecond)
		a.queue("A", 1000)
		b.queue("A", 1000)
		a.start(only("A", ofA), share)
		b.start(only("A", ofB), share)
		pass(2 * time.Second)
		total := ofA.total() + ofB.total()
		if total < 980 {
			t.Errorf("%d tasks of 10 ms were started in 2 s with five turns", total)
		}
		if apart := ofA.total() - ofB.total(); max(apart, -apart) > total/20 {
			t.Errorf("%d tasks of one were started, %d of the other", ofA.total(), ofB.total())
		}
	})
}

func TestATaskWaitsInLineNoLongerThanForASlotAndIsAnybodysInBetween(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		a.queue("A", 3)
		flooded := a.start(only("A", taking(time.Hour)), share)
		synctest.Wait()
		ids := b.queue("A", 5)
		waiting := b.start(only("A", taking(time.Hour)), share)
		pass(100 * time.Millisecond)
		run(t, flooded, waiting, 3, 1)
		var held time.Duration // without a pause
		longest, free := time.Duration(0), 0
		for range 1000 {
			pass(10 * time.Millisecond)
			if waiting.Stats().Held > 1 {
				held += 10 * time.Millisecond
				continue
			}
			if held > 0 {
				b.isBack(ids[1:]...)
			}
			longest, held, free = max(longest, held), 0, free+1
		}
		if longest > patience+2*renewEvery || longest < patience {
			t.Errorf("tasks were held for %v because all turns are taken", longest)
		}
		if free < 100 {
			t.Errorf("in 10 s nothing was held in vain for %d ms in all", 10*free)
		}
	})
}

// What waits starts when there is a turn, even while the store does not answer.
func TestATurnNeedsNoStore(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		a.queue("A", 3)
		flooded := a.start(only("A", taking(time.Second)), share)
		pass(100 * time.Millisecond)
		leases := 0
		b.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
			if leases++; leases > 1 {
				<-ctx.Done()
				return nil, errDown
			}
			return b.store.Lease(ctx, req)
		}
		pass(500 * time.Millisecond)
		b.queue("A", 5)
		waiting := b.start(only("A", taking(time.Hour)), share)
		synctest.Wait()
		run(t, flooded, waiting, 3, 1)
		b.queue("A", 1)
		waiting.Wake() // it asks, and is not answered
		pass(500 * time.Millisecond)
		run(t, flooded, waiting, 0, 2)
	})
}

func TestAnInstanceWhoseStoreIsAwayHoldsUpNobody(t *testing.T) {
	for name, away := range map[string]func(*scene) error{
		"it refuses":         func(*scene) error { return errDown },
		"it does not answer": func(s *scene) error { tasks.Pause(s.Context(), callLimit); return errDown },
	} {
		t.Run(name, func(t *testing.T) {
			playTwo(t, 4, func(a, b *scene, share func(*Config)) {
				var gone atomic.Bool
				a.faults.lease = func(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
					if gone.Load() {
						return nil, away(a)
					}
					return a.store.Lease(ctx, req)
				}
				a.faults.settle = func(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
					if gone.Load() {
						return nil, away(a)
					}
					return a.store.Settle(ctx, settlements)
				}
				a.queue("A", 100)
				bad := a.start(only("A", taking(time.Second)), share)
				ids := b.queue("A", 31)
				good := b.start(only("A", taking(time.Second)), share)
				pass(500 * time.Millisecond)
				gone.Store(true)
				pass(13 * time.Second) // three turns of a second each, and the first second
				b.isArchived(tasks.ResultSuccess, ids...)
				a.must(good.Ready())
				if bad.Stats().Running != 0 {
					t.Error("what has ended keeps its turns while it cannot be settled")
				}
			})
		})
	}
}

func TestAnInstanceWhoseExecutorHangsLeavesOthersATurn(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		let := make(chan struct{})
		defer close(let)
		a.queue("A", 100)
		good := b.start(only("A", taking(10*time.Millisecond)), share)
		hung := a.start(map[string]Class{"A": {Deadline: time.Second, Executor: &worker{do: func(context.Context, tasks.Task) tasks.Outcome {
			<-let
			return tasks.Outcome{Kind: tasks.Succeeded}
		}}}}, share)
		pass(time.Minute)
		ids := b.queue("A", 50)
		pass(time.Second)
		run(t, hung, good, 3, 0)
		b.isArchived(tasks.ResultSuccess, ids...)
	})
}

func TestATurnComesBackHoweverATaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		class Class
		end   func(*scene, *Runtime, []int64)
	}{
		"at its deadline": {Class{Executor: until(), Deadline: time.Minute}, func(*scene, *Runtime, []int64) {
			pass(time.Minute)
		}},
		"by a panic": {Class{Executor: &worker{do: func(context.Context, tasks.Task) tasks.Outcome {
			time.Sleep(time.Minute)
			panic("oh no")
		}}}, func(*scene, *Runtime, []int64) { pass(time.Minute) }},
		"when its lease is lost": {Class{Executor: until()}, func(s *scene, _ *Runtime, ids []int64) {
			_, err := s.store.Cancel(s.Context(), ids)
			s.must(err)
			pass(time.Second)
		}},
		"when its runtime is closed": {Class{Executor: until()}, func(s *scene, r *Runtime, _ []int64) {
			s.must(r.Close())
			pass(time.Second)
		}},
		"when its runtime drains": {Class{Executor: taking(time.Minute)}, func(s *scene, r *Runtime, _ []int64) {
			s.must(r.Drain(s.Context()))
			pass(time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			playTwo(t, 4, func(a, b *scene, share func(*Config)) {
				ids := a.queue("A", 3)
				ending := a.start(map[string]Class{"A": c.class}, share, func(c *Config) { c.DrainTimeout = time.Hour })
				pass(time.Second)
				b.queue("A", 10)
				other := b.start(only("A", taking(time.Hour)), share)
				pass(time.Second)
				run(t, ending, other, 3, 1)
				c.end(a, ending, ids)
				want := 3 // and one is kept
				if ending.Ready() != nil {
					want = 4
				}
				pass(time.Second)
				run(t, ending, other, 0, want)
			})
		})
	}
}

// Neither a cancelled one nor those that are given back keep others waiting.
func TestTasksThatLeaveTheLineMakeRoomInIt(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		for _, s := range []*scene{a, b} {
			s.queueData("A", `"1m"`, `"1m"`)
		}
		one := a.start(only("A", byData()), share)
		two := b.start(only("A", byData()), share)
		pass(time.Second)
		run(t, one, two, 2, 2)
		line := a.queueData("A", `"1h"`, `"1h"`)
		pass(500 * time.Millisecond)
		if held := one.Stats().Held; held != 2 {
			t.Fatalf("%d tasks are held; it has its share and need not stand in line", held)
		}
		b.queueData("A", `"1h"`, `"1h"`)
		_, err := a.store.Cancel(a.Context(), line)
		a.must(err)
		pass(time.Minute)
		run(t, one, two, 0, 2)
	})
}

func TestTasksOfALimitTakeNoTurn(t *testing.T) {
	playTwo(t, 2, func(a, b *scene, share func(*Config)) {
		a.queue("Plugin", 10)
		a.queue("Php", 10)
		r := a.start(map[string]Class{
			"Plugin": {Executor: taking(time.Hour)},
			"Php":    {Executor: taking(time.Hour), Limit: slots(3)},
		}, share)
		idle := b.start(only("A", &worker{}), share)
		pass(time.Second)
		run(t, r, idle, 1+3, 0)
	})
}

func TestPassesTakeTurnsToo(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		a.queue("A", 9)
		passes := a.runtime(only("A", taking(time.Second)), share)
		b.start(only("A", &worker{}), share)
		for _, want := range []int{3, 3, 3, 0} {
			got, err := passes.RunOnce(a.Context())
			a.must(err)
			if got.Succeeded != want {
				t.Errorf("a pass did %+v, want %d tasks", got, want)
			}
		}
	})
}

// Between two passes nobody is there to take a turn.
func TestAPassThatEndedStandsInNobodysWay(t *testing.T) {
	playTwo(t, 4, func(a, b *scene, share func(*Config)) {
		a.queue("A", 100)
		r := a.start(only("A", taking(10*time.Second)), share)
		passes := b.runtime(only("A", taking(3*time.Second)), share)
		synctest.Wait()
		b.queue("A", 5)
		got, err := passes.RunOnce(b.Context())
		b.must(err)
		if got.Succeeded != 1 || got.Released == 0 {
			t.Fatalf("the pass did %+v; the scene wants tasks that waited in vain", got)
		}
		pass(10 * time.Second)
		if n := r.Stats().Running; n != 3 {
			t.Errorf("%d tasks of the other run, want 3", n)
		}
	})
}

func TestMoreRuntimesThanTurnsAreRefused(t *testing.T) {
	playTwo(t, 1, func(a, b *scene, share func(*Config)) {
		a.runtime(only("A", &worker{}), share)
		c := Config{Store: b.faults, Classes: only("A", &worker{})}
		share(&c)
		if _, err := New(c); err == nil {
			t.Error("two runtimes share one turn")
		}
	})
}

// Without a bubble: real goroutines, real time, the race detector, and a leak
// check when the tests end.
func TestRuntimesThatShareTurnsStartAndStopAndLeaveNothing(t *testing.T) {
	const runtimes, queued = 3, 40
	turns := &Turns{Total: runtimes + 1}
	w := &worker{}
	for round := range 20 {
		var group sync.WaitGroup
		var stores []*storetest.Memory
		for i := range runtimes {
			store := storetest.NewMemory(func() int64 { return time.Now().Unix() })
			stores = append(stores, store)
			if _, err := store.Enqueue(t.Context(), slices.Repeat([]tasks.NewTask{{Class: "A", Data: []byte("{}")}}, queued)); err != nil {
				t.Fatal(err)
			}
			r, err := New(Config{Store: store, Classes: only("A", w), Turns: turns})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := r.Start(); err != nil {
					t.Error(err)
				}
				for i == round%runtimes && r.Stats().Succeeded < queued {
					r.Wake()
				}
				stop := r.Close
				if round%2 == 0 {
					stop = func() error { return r.Drain(t.Context()) }
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, store := range stores {
			all, err := store.All()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if r.Archive == nil && (r.Owner != nil || r.FailureCount != 0) {
					t.Errorf("task %d was not given back to its place: %+v", r.ID, r.Place)
				}
			}
		}
		if turns.taken != 0 || len(turns.players) != 0 {
			t.Fatalf("%d turns are taken and %d runtimes share them when all are closed", turns.taken, len(turns.players))
		}
	}
}
