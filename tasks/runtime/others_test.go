package runtime

import (
	"fmt"
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

func TestWhetherOneOfTheOthersCanRunTurnsOutWithItsFirstTask(t *testing.T) {
	play(t, func(s *scene) {
		var up atomic.Bool
		w := &worker{ready: func(class string) bool { return class == "Allowed" || up.Load() }}
		allowed, refused := s.queue("Allowed", 10), s.queue("Refused", 10)
		r := s.start(nil, func(c *Config) { c.Others, c.Slots = &Class{Executor: w}, 4 })
		pass(time.Minute)
		s.isArchived(tasks.ResultSuccess, allowed...)
		s.isBack(refused...)
		if got := r.Stats(); got.Leased > 14 || got.Released > 4 {
			t.Errorf("tasks that cannot run were leased more than once: %+v", got)
		}
		if s.log.said("classes cannot run here now", "Refused") != 1 {
			t.Errorf("it is to be said once:\n%s", s.log)
		}
		s.must(r.Ready())
		up.Store(true)
		pass(time.Second)
		s.isArchived(tasks.ResultSuccess, refused...)
	})
}

// Passes that follow each other until one leases nothing must come to an end.
func TestRunOnceRemembersWhichOfTheOthersCannotRun(t *testing.T) {
	play(t, func(s *scene) {
		down := &worker{ready: func(string) bool { return false }}
		ids := s.queue("A", 100)
		r := s.runtime(nil, func(c *Config) { c.Others = &Class{Executor: down} })
		for _, leased := range []int{DefaultSlots, 0} {
			if pass, err := r.RunOnce(s.Context()); err != nil || pass.Leased != leased {
				t.Errorf("a pass leased %d tasks (%v), want %d", pass.Leased, err, leased)
			}
		}
		s.isBack(ids...)
	})
}

func TestNothingIsReadyWhenNoneOfTheOthersCanRun(t *testing.T) {
	play(t, func(s *scene) {
		down := &worker{ready: func(string) bool { return false }}
		r := s.start(nil, func(c *Config) { c.Others = &Class{Executor: down} })
		pass(time.Second)
		s.must(r.Ready())
		s.queue("A", 1)
		pass(time.Second)
		if err := r.Ready(); err == nil {
			t.Error("it is ready")
		}
	})
	play(t, func(s *scene) {
		r := s.start(nil, func(c *Config) { c.Others = &Class{Executor: &worker{}, Limit: slots(0)} })
		pass(time.Second)
		if err := r.Ready(); err == nil {
			t.Error("it is ready without a slot")
		}
	})
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
