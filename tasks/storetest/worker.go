package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Worker leases, runs and settles tasks as the runtime does, and as it must not:
// it forgets tasks, settles late and settles again. Each of several workers of
// one process is used by one goroutine.
type Worker struct {
	*Recorder
	name    string
	patient bool // every task succeeds at once and queues nothing
	rand    *rand.Rand
	tokens  int
	late    []tasks.Settlement
}

// NewWorker answers a worker. The names of those whose histories are checked
// together differ, since the data of their tasks begins with them.
func NewWorker(r *Recorder, name string, rand *rand.Rand) *Worker {
	return &Worker{Recorder: r, name: name, rand: rand}
}

// Round queues tasks, perhaps, and leases a few, which it runs and settles.
func (w *Worker) Round(ctx context.Context) error {
	if w.chance(2) {
		if _, err := w.Enqueue(ctx, w.newTasks(1+w.rand.IntN(3))); err != nil {
			return err
		}
	}
	return w.run(ctx, tasks.LeaseRequest{Limit: 1 + w.rand.IntN(6), Others: want(3)})
}

// Finish leases what is due, up to a bound, and lets all of it succeed.
func (w *Worker) Finish(ctx context.Context) error {
	w.patient = true
	return w.run(ctx, Any(100))
}

// run leases a batch, executes it and settles it.
func (w *Worker) run(ctx context.Context, req tasks.LeaseRequest) error {
	leased, err := leaseFully(ctx, w, req)
	if err != nil {
		return err
	}
	var settlements []tasks.Settlement
	for _, task := range leased {
		s, err := w.execute(task)
		if err != nil {
			return err
		}
		settlements = append(settlements, s...)
	}
	if err := w.renew(ctx); err != nil {
		return err
	}
	if w.chance(4) {
		settlements, w.late = append(settlements, w.late...), nil
	}
	if _, err := w.Settle(ctx, settlements); err != nil {
		return err
	}
	if w.chance(4) {
		_, err = w.Settle(ctx, settlements)
	}
	return err
}

// chance is true once in n times, unless the worker is patient.
func (w *Worker) chance(n int) bool { return !w.patient && w.rand.IntN(n) == 0 }

// execute runs a task and answers what is to be settled now.
func (w *Worker) execute(task tasks.Task) ([]tasks.Settlement, error) {
	ended, err := w.Execution(task)
	if err != nil {
		return nil, err
	}
	if w.chance(10) {
		return nil, nil // whoever ran it died
	}
	s := settlement(task, w.outcome())
	if err := ended(s.Outcome.Kind); err != nil {
		return nil, err
	}
	if w.chance(6) {
		w.late = append(w.late, s)
		return nil, nil
	}
	return []tasks.Settlement{s}, nil
}

// renew renews now and then what is to be settled late.
func (w *Worker) renew(ctx context.Context) error {
	if len(w.late) == 0 || !w.chance(2) {
		return nil
	}
	var renewals []tasks.Renewal
	for _, s := range w.late {
		renewals = append(renewals, tasks.Renewal{ID: s.ID, Owner: s.Lease.Owner, LeaseTime: minute})
	}
	_, err := w.Renew(ctx, renewals)
	return err
}

func (w *Worker) outcome() tasks.Outcome {
	wait := time.Duration(w.rand.IntN(100)-50) * time.Second
	switch {
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Failed}
	case w.chance(6):
		return tasks.Outcome{Kind: tasks.Retry, Wait: wait}
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Yielded, Wait: wait}
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Crashed, Wait: wait}
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Released, Wait: wait}
	case w.chance(2):
		return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: w.newTasks(1)}
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}

// newTasks answers tasks that differ from every other in the history.
func (w *Worker) newTasks(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		w.tokens++
		news[i] = tasks.NewTask{Class: []string{"A", "B", "C"}[w.rand.IntN(3)], Data: fmt.Appendf(nil, `"%s.%d"`, w.name, w.tokens)}
	}
	return news
}
