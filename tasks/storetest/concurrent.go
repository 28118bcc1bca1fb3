package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
)

// checkConcurrent lets two processes with several workers each work on one
// queue while time jumps under them, and checks the history.
func checkConcurrent(t *testing.T, open Open) {
	subject := open(t, Running)
	defer subject.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	history, err := hammer(t.Context(), subject, seed)
	if err != nil {
		t.Fatal(err)
	}
	final, err := subject.Rows.All()
	if err != nil {
		t.Fatal(err)
	}
	report := Check(history, final)
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d tasks, %d executions: %d repeated because they asked for it, %d because their lease was lost",
		report.Tasks, report.Executions, report.Asked, report.Lost)
	if report.Archived != report.Tasks || report.Tasks < 100 || report.Asked == 0 || report.Lost == 0 {
		t.Errorf("the history proves too little: %+v", report)
	}
}

// hammer is a random concurrent history that ends with an empty queue.
func hammer(ctx context.Context, s Subject, seed uint64) ([]Event, error) {
	var logs [2]bytes.Buffer
	processes := []*Recorder{NewRecorder(s.Store, &logs[0]), NewRecorder(s.Other, &logs[1])}
	group, ctx2 := errgroup.WithContext(ctx)
	for n := range uint64(4) {
		w := &worker{Recorder: processes[n%2], ctx: ctx2, rand: rand.New(rand.NewPCG(seed, n)), name: fmt.Sprint(n)}
		group.Go(w.work)
	}
	group.Go(func() error {
		for range 15 {
			if err := age(ctx2, s, processes[0], 70); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	last := &worker{Recorder: processes[0], ctx: ctx, rand: rand.New(rand.NewPCG(seed, 9)), patient: true}
	if err := last.drain(s); err != nil {
		return nil, err
	}
	var history []Event
	for i := range logs {
		events, err := ReadHistory(&logs[i])
		if err != nil {
			return nil, err
		}
		history = append(history, events...)
	}
	return history, nil
}

// age lets time pass, between two reads that let the others come in.
func age(ctx context.Context, s Subject, r *Recorder, seconds int64) error {
	if _, err := s.Operator.Now(ctx); err != nil {
		return err
	}
	return r.Disturb(nil, func() error { return s.Rows.Age(seconds) })
}

// worker leases, runs and settles tasks as the runtime does, and as it must
// not: it forgets tasks, settles late and settles again.
type worker struct {
	*Recorder
	ctx     context.Context
	rand    *rand.Rand
	name    string
	tokens  int
	late    []tasks.Settlement
	patient bool // every task succeeds and queues nothing
}

func (w *worker) work() error {
	for range 40 {
		if err := w.round(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) round() error {
	if _, err := w.Enqueue(w.ctx, w.newTasks(1+w.rand.IntN(3))); err != nil {
		return err
	}
	var settlements []tasks.Settlement
	leased, err := leaseFully(w.ctx, w, tasks.LeaseRequest{Limit: 1 + w.rand.IntN(6), Others: want(3)})
	if err != nil {
		return err
	}
	for _, task := range leased {
		s, settle, err := w.run(task)
		if err != nil {
			return err
		}
		if settle {
			settlements = append(settlements, s)
		}
	}
	if w.rand.IntN(3) == 0 {
		settlements, w.late = append(settlements, w.late...), nil
	}
	if _, err := w.Settle(w.ctx, settlements); err != nil {
		return err
	}
	if w.rand.IntN(4) == 0 {
		_, err = w.Settle(w.ctx, settlements)
	}
	return err
}

// run executes a task. It is to be settled now unless it is forgotten or kept
// for later.
func (w *worker) run(task tasks.Task) (s tasks.Settlement, now bool, err error) {
	ended, err := w.Execution(task)
	if err != nil {
		return s, false, err
	}
	s = settlement(task, w.outcome())
	fate := w.rand.IntN(10)
	if w.patient {
		fate = 9
	}
	switch fate {
	case 0:
		return s, false, nil
	case 1:
		w.late = append(w.late, s)
		return s, false, ended(s.Outcome.Kind)
	case 2:
		_, err = w.Renew(w.ctx, []tasks.Renewal{{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: minute}})
	}
	return s, true, errors.Join(err, ended(s.Outcome.Kind))
}

func (w *worker) outcome() tasks.Outcome {
	if w.patient {
		return tasks.Outcome{Kind: tasks.Succeeded}
	}
	wait := time.Duration(w.rand.IntN(100)-50) * time.Second
	switch w.rand.IntN(12) {
	case 0:
		return tasks.Outcome{Kind: tasks.Failed}
	case 1, 2:
		return tasks.Outcome{Kind: tasks.Retry, Wait: wait}
	case 3:
		return tasks.Outcome{Kind: tasks.Yielded, Wait: wait}
	case 4:
		return tasks.Outcome{Kind: tasks.Crashed, Wait: wait}
	case 5:
		return tasks.Outcome{Kind: tasks.Released, Wait: wait}
	case 6, 7, 8:
		return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: w.newTasks(1)}
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}

// newTasks answers tasks that differ from every other in the history.
func (w *worker) newTasks(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		w.tokens++
		news[i] = tasks.NewTask{Class: []string{"A", "B", "C"}[w.rand.IntN(3)], Data: fmt.Appendf(nil, `"%s.%d"`, w.name, w.tokens)}
	}
	return news
}

// drain runs what is left, whenever it would be due.
func (w *worker) drain(s Subject) error {
	for range 1000 {
		if err := age(w.ctx, s, w.Recorder, 1_000_000); err != nil {
			return err
		}
		leased, err := leaseFully(w.ctx, w, all(100))
		if err != nil {
			return err
		}
		var settlements []tasks.Settlement
		for _, task := range leased {
			s, _, err := w.run(task)
			if err != nil {
				return err
			}
			settlements = append(settlements, s)
		}
		if _, err := w.Settle(w.ctx, settlements); err != nil {
			return err
		}
		page, err := s.Operator.List(w.ctx, tasks.Filter{State: tasks.Active, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Tasks) == 0 && page.Next == 0 {
			return nil
		}
	}
	return errors.New("the queue is not empty after a thousand batches")
}
