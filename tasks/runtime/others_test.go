package runtime

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestClassesThatNobodyNamedRunAsTheOthers(t *testing.T) {
	play(t, func(s *scene) {
		named, others := &worker{}, &worker{}
		a, b, c := s.queue("A", 50), s.queue("B", 50), s.queue("C", 50)
		r := s.start(only("A", named), func(c *Config) { c.Others = &Class{Executor: others} })
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, append(append(a, b...), c...)...)
		if named.total() != 50 || others.total() != 100 {
			t.Errorf("%d and %d tasks ran, want 50 and 100", named.total(), others.total())
		}
		s.must(r.Ready())
	})
}

func TestTheOthersHaveSlotsEach(t *testing.T) {
	play(t, func(s *scene) {
		w := taking(time.Second)
		s.queue("A", 10)
		s.queue("B", 10)
		r := s.start(nil, func(c *Config) { c.Others = &Class{Executor: w, Slots: 2} })
		pass(500 * time.Millisecond)
		s.queue("C", 10)
		pass(200 * time.Millisecond)
		if running := r.Stats().Running; running != 6 {
			t.Errorf("%d tasks run, want two of each class", running)
		}
	})
}

func TestANamedClassThatCannotRunIsNotOneOfTheOthers(t *testing.T) {
	play(t, func(s *scene) {
		others := &worker{}
		down := &worker{ready: func(string) bool { return false }}
		id := s.queue("Down", 1)[0]
		r := s.start(only("Down", down), func(c *Config) { c.Others = &Class{Executor: others, Limit: slots(4)} })
		pass(time.Minute)
		s.isBack(id)
		s.has(r, Stats{})
	})
}

// allowing is a worker that is ready for some classes, and answers them.
func allowing(classes ...string) (w *worker, names func() []string, allow func(...string)) {
	var list atomic.Pointer[[]string]
	list.Store(&classes)
	names = func() []string { return *list.Load() }
	w = &worker{ready: func(class string) bool { return slices.Contains(names(), class) }}
	return w, names, func(classes ...string) { list.Store(&classes) }
}

func TestOfAnExecutorThatTakesSomeClassesNoOtherTaskIsLeased(t *testing.T) {
	play(t, func(s *scene) {
		w, names, allow := allowing("Allowed")
		allowed, refused := s.queue("Allowed", 10), s.queue("Refused", 10)
		r := s.start(nil, func(c *Config) { c.Others, c.OtherClasses, c.Slots = &Class{Executor: w}, names, 4 })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, allowed...)
		s.isBack(refused...)
		s.has(r, Stats{Leased: 10, Started: 10, Succeeded: 10})
		s.must(r.Ready())

		allow("Refused")
		later := s.queue("Allowed", 1)
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, refused...)
		s.isBack(later...)
		s.has(r, Stats{Leased: 20, Started: 20, Succeeded: 20})

		allow()
		pass(time.Second)
		if err := r.Ready(); err == nil {
			t.Error("it is ready, and runs nothing")
		}
	})
}

// However many classes there are that cannot run, none of their tasks is worth
// a try, and what can run is not behind them.
func TestManyClassesThatCannotRunCostNothing(t *testing.T) {
	play(t, func(s *scene) {
		w, names, _ := allowing("Allowed")
		var bogus []int64
		for i := range maxMet + 500 {
			bogus = append(bogus, s.queue(fmt.Sprint("Bogus", i), 1)...)
		}
		r := s.start(nil, func(c *Config) { c.Others, c.OtherClasses = &Class{Executor: w}, names })
		pass(time.Second)
		before := len(s.faults.asked())
		pass(10 * time.Second)
		calls, polls := len(s.faults.asked())-before, int(10*time.Second/DefaultIdlePoll)
		if calls < polls-1 || calls > polls+1 {
			t.Errorf("the store was asked %d times, want once a poll: %d", calls, polls)
		}
		ids := s.queue("Allowed", 1)
		pass(2 * DefaultIdlePoll)
		s.isArchived(tasks.ResultSuccess, ids...)
		s.isBack(bogus...)
		s.has(r, Stats{Leased: 1, Started: 1, Succeeded: 1})
		if n := len(r.loop.book.anything()); n != 1 {
			t.Errorf("%d classes are remembered, want the allowed one", n)
		}
	})
}

func TestWhileTheExecutorOfTheOthersIsDownNoneOfThemIsLeased(t *testing.T) {
	play(t, func(s *scene) {
		var up atomic.Bool
		up.Store(true)
		w := &worker{ready: func(string) bool { return up.Load() }}
		r := s.start(nil, func(c *Config) { c.Others = &Class{Executor: w} })
		s.queue("Met", 1)
		pass(time.Second)
		up.Store(false)
		pass(time.Second)
		var ids []int64
		for i := range 2 * maxMet {
			ids = append(ids, s.queue(fmt.Sprint("C", i), 1)...)
		}
		pass(time.Minute)
		s.isBack(ids...)
		s.has(r, Stats{Leased: 1, Started: 1, Succeeded: 1})
		if s.log.said("classes cannot run here now", "Met") != 1 {
			t.Errorf("it is to be said once:\n%s", s.log)
		}
		up.Store(true)
		pass(10 * time.Second)
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}

// Passes that follow each other until one leases nothing must come to an end.
func TestRunOnceLeasesNoneOfTheOthersThatCannotRun(t *testing.T) {
	play(t, func(s *scene) {
		w, names, _ := allowing("Allowed")
		refused := s.queue("Refused", 100)
		s.queue("Allowed", 1)
		r := s.runtime(nil, func(c *Config) { c.Others, c.OtherClasses = &Class{Executor: w}, names })
		for _, leased := range []int{1, 0} {
			if pass, err := r.RunOnce(s.Context()); err != nil || pass.Leased != leased {
				t.Errorf("a pass leased %d tasks (%v), want %d", pass.Leased, err, leased)
			}
		}
		s.isBack(refused...)
	})
}

func TestNothingIsReadyWhenNoneOfTheOthersCanRun(t *testing.T) {
	for name, others := range map[string]Class{
		"the executor is down": {Executor: &worker{ready: func(string) bool { return false }}},
		"there is no slot":     {Executor: &worker{}, Limit: slots(0)},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				r := s.start(nil, func(c *Config) { c.Others = &others })
				pass(time.Second)
				if err := r.Ready(); err == nil {
					t.Error("it is ready")
				}
			})
		})
	}
}

func TestClassesAreForgottenWhenTheyAreMany(t *testing.T) {
	play(t, func(s *scene) {
		w := &worker{}
		const classes = 3*maxMet + 1
		for i := range classes {
			s.queue(fmt.Sprint("C", i), 1)
		}
		r := s.start(only("A", w), func(c *Config) { c.Others = &Class{Executor: w} })
		pass(10 * time.Second)
		if w.total() != classes {
			t.Errorf("%d of %d tasks ran", w.total(), classes)
		}
		b := r.loop.book
		synctest.Wait()
		if n := len(b.anything()); n > maxMet+DefaultSlots || n != len(b.byName) || b.classes[0].name != "A" {
			t.Errorf("%d classes are remembered, %d by name, the first is %s", n, len(b.byName), b.classes[0].name)
		}
		ids := s.queue("C0", 3)
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, ids...)
	})
}
