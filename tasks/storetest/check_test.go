package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// unsure is a store whose answers can get lost, whether or not it did what it
// was asked for.
type unsure struct {
	tasks.Store
	lost func() bool // the next answer
	done func() bool // what was asked for, all the same
}

func (u unsure) answer(do func() error) error {
	if !u.lost() {
		return do()
	}
	if u.done() {
		if err := do(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the connection broke", tasks.ErrUnavailable)
}

func (u unsure) Enqueue(ctx context.Context, news []tasks.NewTask) (ids []int64, err error) {
	err = u.answer(func() error { ids, err = u.Store.Enqueue(ctx, news); return err })
	return ids, err
}

func (u unsure) Lease(ctx context.Context, req tasks.LeaseRequest) (leased []tasks.Task, err error) {
	err = u.answer(func() error { leased, err = u.Store.Lease(ctx, req); return err })
	return leased, err
}

func (u unsure) Renew(ctx context.Context, renewals []tasks.Renewal) (renewed []tasks.Renewed, err error) {
	err = u.answer(func() error { renewed, err = u.Store.Renew(ctx, renewals); return err })
	return renewed, err
}

func (u unsure) Settle(ctx context.Context, settlements []tasks.Settlement) (settled []tasks.Settled, err error) {
	err = u.answer(func() error { settled, err = u.Store.Settle(ctx, settlements); return err })
	return settled, err
}

func TestAnswersThatGetLostViolateNothing(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		sometimes := func() bool { return r.IntN(5) == 0 }
		s := openMemory(t, Standing)
		s.Store = unsure{s.Store, sometimes, sometimes}
		s.Other = unsure{s.Other, sometimes, sometimes}
		crew := newCrew(s, seed)
		for i := range 60 {
			for _, w := range crew.workers {
				if err := w.round(t.Context()); err != nil && !errors.Is(err, tasks.ErrUnavailable) {
					t.Fatal(err)
				}
			}
			if err := crew.age(t.Context(), []int64{1, 5, 30, 25, 40, 66}[i%6]); err != nil {
				t.Fatal(err)
			}
		}
		report, err := crew.check()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range report.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
}

// story is a short history, told step by step.
type story struct {
	t *testing.T
	*Memory
	*Recorder
	log        bytes.Buffer
	now        int64
	lost, done bool
}

func newStory(t *testing.T) *story {
	s := &story{t: t, now: 1_234_567_890}
	s.Memory = NewMemory(func() int64 { return s.now })
	s.Recorder = NewRecorder(unsure{s.Memory, func() bool { return s.lost }, func() bool { return s.done }}, &s.log)
	return s
}

// losing makes the answers of some calls get lost.
func (s *story) losing(done bool, calls func()) {
	s.lost, s.done = true, done
	calls()
	s.lost = false
}

func (s *story) queue(n ...tasks.NewTask) { _, _ = s.Recorder.Enqueue(s.t.Context(), n) }

func (s *story) lease() tasks.Task {
	leased, _ := s.Recorder.Lease(s.t.Context(), all(1))
	return append(leased, tasks.Task{})[0]
}

func (s *story) settle(task tasks.Task, kind tasks.Kind, followUps ...tasks.NewTask) {
	_, _ = s.Recorder.Settle(s.t.Context(), []tasks.Settlement{settlement(task, tasks.Outcome{Kind: kind, Wait: -minute, FollowUps: followUps})})
}

// settleCalledLost settles, and answers after meanwhile that the lease is lost.
func (s *story) settleCalledLost(task tasks.Task, kind tasks.Kind, meanwhile func()) {
	outcome := tasks.Outcome{Kind: kind, Wait: -minute}
	item := Item{ID: task.ID, Owner: task.Lease.Owner, Lease: task.Lease, Kind: kind, Wait: outcome.Wait}
	answer, err := s.begin(OpSettle, []Item{item})
	s.must(err)
	_, err = s.Memory.Settle(s.t.Context(), []tasks.Settlement{settlement(task, outcome)})
	s.must(err)
	meanwhile()
	s.must(answer([]Item{{ID: task.ID, Lost: true}}, nil))
}

func (s *story) renew(task tasks.Task) {
	_, _ = s.Recorder.Renew(s.t.Context(), []tasks.Renewal{{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: time.Hour}})
}

func (s *story) run(task tasks.Task, kind tasks.Kind) {
	ended, err := s.Execution(task)
	if err == nil {
		err = ended(kind)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) report() Report {
	s.t.Helper()
	history, err := ReadHistory(&s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	final, err := s.All()
	if err != nil {
		s.t.Fatal(err)
	}
	return Check(history, final)
}

func TestTheCheckerJudgesStories(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(*story)
		want []Rule
	}{
		{"a task runs", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
		}, nil},
		{"a task that is still queued is not lost", func(s *story) { s.queue(task("A")) }, nil},
		{"an enqueue without an answer queued all", func(s *story) {
			s.losing(true, func() { s.queue(task("A"), task("B")) })
			s.settle(s.lease(), tasks.Succeeded)
		}, nil},
		{"an enqueue without an answer queued nothing", func(s *story) {
			s.losing(false, func() { s.queue(task("A"), task("B")) })
		}, nil},
		{"an enqueue without an answer queued a half", func(s *story) {
			s.losing(true, func() { s.queue(task("A"), task("B")) })
			delete(s.active, 2)
		}, []Rule{TaskFromNowhere}},
		{"an enqueue without an answer queued all twice", func(s *story) {
			s.losing(true, func() { s.queue(task("A")) })
			_, _ = s.insert([]tasks.NewTask{task("A")}, 2000)
		}, []Rule{TaskFromNowhere}},
		{"a task of an enqueue without an answer was leased and is gone", func(s *story) {
			s.losing(true, func() { s.queue(task("A")) })
			s.lease()
			delete(s.active, 1)
		}, []Rule{TaskFromNowhere}},
		{"a lease without an answer took the task", func(s *story) {
			s.queue(task("A"))
			s.losing(true, func() { s.lease() })
			s.now += 66
			s.settle(s.lease(), tasks.Succeeded)
		}, nil},
		{"a lease without an answer took the task in the end", func(s *story) {
			s.queue(task("A"))
			s.losing(true, func() { s.lease() })
		}, nil},
		{"a lease without an answer took an expired lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.must(s.Disturb(nil, func() error { return s.Age(66) }))
			s.losing(true, func() { s.lease() })
			s.renew(held)
			s.settle(held, tasks.Succeeded)
		}, nil},
		{"a lease without an answer cannot have taken a live lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(false, func() { s.lease() })
			s.must(s.Place(held.ID, at(gantry(99, 0), s.now+60)))
			s.renew(held)
		}, []Rule{HeldRefused}},
		{"a lease that nobody asked for holds the task", func(s *story) {
			s.queue(task("A"))
			s.must(s.Place(1, at(gantry(99, 0), s.now+60)))
		}, []Rule{PlaceUnexplained}},
		{"a renewal without an answer extended the lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(true, func() { s.renew(held) })
			s.now += 3606
			s.lease()
		}, nil},
		{"a renewal without an answer did not extend the lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(false, func() { s.renew(held) })
			s.now += 66
			s.lease()
		}, nil},
		{"a settlement without an answer took effect and is repeated", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
			s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
			s.settle(held, tasks.Succeeded, task("child"))
			s.settle(s.lease(), tasks.Succeeded)
		}, nil},
		{"a settlement without an answer took no effect", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
		}, nil},
		{"a settlement without an answer took effect without its follow-up", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
			delete(s.active, 2)
		}, []Rule{FollowUpLost}},
		{"a settlement without an answer took no effect and queued its follow-up", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
			_, _ = s.insert([]tasks.NewTask{task("child")}, 2000)
		}, []Rule{TaskFromNowhere}},
		{"a settlement without an answer queued its follow-up twice", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
			_, _ = s.insert([]tasks.NewTask{task("child")}, 2000)
		}, []Rule{TaskFromNowhere}},
		{"a retry without an answer made the task due", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(true, func() { s.settle(held, tasks.Retry) })
			s.settle(s.lease(), tasks.Succeeded)
		}, nil},
		{"a retry took effect and is called lost after the next lease", func(s *story) {
			s.queue(task("A"))
			var next tasks.Task
			s.settleCalledLost(s.lease(), tasks.Retry, func() { next = s.lease() })
			s.settle(next, tasks.Succeeded)
		}, nil},
		{"a retry took effect and is called lost while it shows", func(s *story) {
			s.queue(task("A"))
			s.settleCalledLost(s.lease(), tasks.Retry, func() {})
			s.settle(s.lease(), tasks.Succeeded)
		}, []Rule{HeldRefused}},
		{"a yield took effect and is called lost while it shows", func(s *story) {
			s.queue(task("A"))
			s.settleCalledLost(s.lease(), tasks.Yielded, func() {})
		}, []Rule{HeldRefused}},
		{"a success took effect and is called lost", func(s *story) {
			s.queue(task("A"))
			s.settleCalledLost(s.lease(), tasks.Succeeded, func() {})
		}, []Rule{HeldRefused}},
		{"a retry without an answer ended in the archive", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.losing(false, func() { s.settle(held, tasks.Retry) })
			_, _ = s.Cancel(s.t.Context(), []int64{1})
		}, []Rule{PlaceUnexplained}},
		{"an operator cancelled the task while it ran", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.must(s.Disturb([]int64{1}, func() error { _, err := s.Cancel(s.t.Context(), []int64{1}); return err }))
			s.settle(held, tasks.Succeeded)
		}, nil},
		{"a task was leased after it was archived", func(s *story) {
			s.queue(task("A"))
			s.settle(s.lease(), tasks.Succeeded)
			_, _ = s.Retry(s.t.Context(), []int64{1}, true)
			s.settle(s.lease(), tasks.Succeeded)
		}, []Rule{LeasedEnded}},
		{"a task ran without a lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
			held.Lease = &tasks.Lease{Owner: gantry(99, 0)}
			s.run(held, tasks.Succeeded)
		}, []Rule{RanUnleased}},
		{"a task ran after its lease was settled", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.settle(held, tasks.Retry)
			s.run(held, tasks.Succeeded)
		}, []Rule{RanUnleased}},
		{"a task began to run after its lease was lost", func(s *story) {
			s.queue(task("A"))
			lost := s.lease()
			s.now += 66
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
			s.run(lost, tasks.Succeeded)
			s.settle(lost, tasks.Succeeded)
		}, nil},
		{"a task ran again after it succeeded", func(s *story) {
			s.queue(task("A"))
			for range 2 {
				held := s.lease()
				s.run(held, tasks.Succeeded)
				s.settle(held, tasks.Succeeded)
				_, _ = s.Retry(s.t.Context(), []int64{1}, true)
			}
		}, []Rule{LeasedEnded, RanTwice}},
		{"a task ran twice under one lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
		}, []Rule{RanTwice}},
		{"a task was declined and ran elsewhere under the same lease", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			s.run(held, tasks.Declined)
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
		}, nil},
		{"a task succeeded without running", func(s *story) {
			s.queue(task("A"), task("A"))
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
			s.settle(s.lease(), tasks.Succeeded)
		}, []Rule{NeverRan}},
		{"a task succeeded while it still ran", func(s *story) {
			s.queue(task("A"))
			held := s.lease()
			if _, err := s.Execution(held); err != nil {
				s.t.Fatal(err)
			}
			s.settle(held, tasks.Succeeded)
		}, []Rule{NeverRan}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t)
			c.tell(s)
			report := s.report()
			var got []Rule
			for _, v := range report.Violations {
				got = append(got, v.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the checker says %v, want %v: %v", got, c.want, report.Violations)
			}
		})
	}
}

// doubtful settles and then calls the lease lost, as a store does that got no
// answer to its COMMIT and finds, when it looks again, the owner of another.
type doubtful struct {
	*Memory
	meanwhile func()
}

func (d doubtful) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	settled, err := d.Memory.Settle(ctx, settlements)
	d.meanwhile()
	for i := range settled {
		settled[i].Err = tasks.ErrLeaseLost
	}
	return settled, err
}

func TestASettlementCalledLostMayHaveTakenEffectOnlyWhenItNoLongerShows(t *testing.T) {
	for _, c := range []struct {
		name string
		kind tasks.Kind
		// another process leases the task while the settlement is under way
		taken bool
		want  int
	}{
		{"a retry that another took", tasks.Retry, true, 0},
		{"a retry that shows", tasks.Retry, false, 1},
		{"a success", tasks.Succeeded, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(t)
			s.queue(task("A"))
			held := s.lease()
			other := NewRecorder(s.Process("other"), &s.log)
			settling := NewRecorder(doubtful{s.Memory, func() {
				if c.taken {
					if leased, err := other.Lease(t.Context(), all(1)); err != nil || len(leased) != 1 {
						t.Fatal(leased, err)
					}
				}
			}}, &s.log)
			_, err := settling.Settle(t.Context(), []tasks.Settlement{settlement(held, tasks.Outcome{Kind: c.kind, Wait: -minute})})
			s.must(err)
			if report := s.report(); len(report.Violations) != c.want || report.Count(HeldRefused) != c.want {
				t.Errorf("the checker says %v", report.Violations)
			}
		})
	}
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestRepeatedExecutionsAreExplained(t *testing.T) {
	s := newStory(t)
	s.queue(task("A"))
	for _, kind := range []tasks.Kind{tasks.Retry, "", tasks.Succeeded} {
		held := s.lease()
		s.run(held, kind)
		if kind == "" {
			s.now += 66 // whoever ran it died
			continue
		}
		s.settle(held, kind)
	}
	got := s.report()
	want := Report{Tasks: 1, Archived: 1, Executions: 3, Repeats: 2, Asked: 1, Lost: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the report is %+v, want %+v", got, want)
	}
}

func TestHistoriesOfKilledProcessesAreReadable(t *testing.T) {
	m := NewMemory(func() int64 { return 1_234_567_890 })
	var history []Event
	for _, process := range []string{"one", "two"} {
		path := filepath.Join(t.TempDir(), process)
		f, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		runTwo(t, NewRecorder(m.Process(process), f))
		if _, err := f.WriteString(`{"process":"killed while it writes","call":99,`); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		events, err := ReadHistory(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadHistory(bytes.NewReader(append(content, "\n{}\n"...))); err == nil {
			t.Error("a broken line in the middle is no error")
		}
		history = append(history, events...)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	final, err := m.All()
	if err != nil {
		t.Fatal(err)
	}
	report := Check(history, final)
	if len(report.Violations) > 0 || report.Archived != 4 || report.Executions != 4 {
		t.Errorf("the report is %+v", report)
	}
}

// runTwo queues, runs and settles two tasks.
func runTwo(t *testing.T, r *Recorder) {
	t.Helper()
	if _, err := r.Enqueue(t.Context(), []tasks.NewTask{task("A"), {Class: "B", Data: []byte(`"\u0000é"`)}}); err != nil {
		t.Fatal(err)
	}
	executor := r.Executor(tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome {
		return tasks.Outcome{Kind: tasks.Succeeded}
	}))
	leased, err := r.Lease(t.Context(), all(8))
	if err != nil || len(leased) != 2 || !executor.Ready("A") {
		t.Fatal(leased, err)
	}
	for _, task := range leased {
		outcome := executor.Execute(t.Context(), task, nil)
		if _, err := r.Settle(t.Context(), []tasks.Settlement{settlement(task, outcome)}); err != nil {
			t.Fatal(err)
		}
	}
}
