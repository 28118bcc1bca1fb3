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
				if err := w.Round(t.Context()); err != nil && !errors.Is(err, tasks.ErrUnavailable) {
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

func TestTheCheckerJudgesStories(t *testing.T) {
	for _, c := range stories {
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
	leased, err := r.Lease(t.Context(), Any(8))
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
