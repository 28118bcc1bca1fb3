package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// crew is several workers of two recorded processes on one queue.
type crew struct {
	Subject
	workers []*worker
	last    *worker // who drains the queue
	logs    [2]bytes.Buffer
}

func newCrew(s Subject, seed uint64) *crew {
	c := &crew{Subject: s}
	processes := []*Recorder{NewRecorder(s.Store, &c.logs[0]), NewRecorder(s.Other, &c.logs[1])}
	for n := range uint64(4) {
		c.workers = append(c.workers, &worker{Recorder: processes[n%2], name: fmt.Sprint(n), rand: rand.New(rand.NewPCG(seed, n))})
	}
	c.last = &worker{Recorder: processes[0], name: "last", patient: true, rand: rand.New(rand.NewPCG(seed, 4))}
	return c
}

// check reads what the processes recorded. The workers must be done.
func (c *crew) check() (Report, error) {
	var history []Event
	for i := range c.logs {
		events, err := ReadHistory(&c.logs[i])
		if err != nil {
			return Report{}, err
		}
		history = append(history, events...)
	}
	final, err := c.Rows.All()
	if err != nil {
		return Report{}, err
	}
	return Check(history, final), nil
}

// drain runs what is left, whenever it would be due, in so many batches.
func (c *crew) drain(ctx context.Context, batches int) error {
	for range batches {
		if err := c.age(ctx, 1_000_000); err != nil {
			return err
		}
		if err := c.last.run(ctx, all(100)); err != nil {
			return err
		}
		page, err := c.Operator.List(ctx, tasks.Filter{State: tasks.Active, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Tasks) == 0 && page.Next == 0 {
			return nil
		}
	}
	return fmt.Errorf("the queue is not empty after %d batches", batches)
}

// worker leases, runs and settles tasks as the runtime does, and as it must
// not: it forgets tasks, settles late and settles again.
type worker struct {
	*Recorder
	name    string
	patient bool // every task succeeds at once and queues nothing
	rand    *rand.Rand
	tokens  int
	late    []tasks.Settlement
}

func (w *worker) round(ctx context.Context) error {
	if w.chance(2) {
		if _, err := w.Enqueue(ctx, w.newTasks(1+w.rand.IntN(3))); err != nil {
			return err
		}
	}
	return w.run(ctx, tasks.LeaseRequest{Limit: 1 + w.rand.IntN(6), Others: want(3)})
}

// run leases a batch, executes it and settles it.
func (w *worker) run(ctx context.Context, req tasks.LeaseRequest) error {
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
func (w *worker) chance(n int) bool { return !w.patient && w.rand.IntN(n) == 0 }

// execute runs a task and answers what is to be settled now.
func (w *worker) execute(task tasks.Task) ([]tasks.Settlement, error) {
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
func (w *worker) renew(ctx context.Context) error {
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

func (w *worker) outcome() tasks.Outcome {
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
func (w *worker) newTasks(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		w.tokens++
		news[i] = tasks.NewTask{Class: []string{"A", "B", "C"}[w.rand.IntN(3)], Data: fmt.Appendf(nil, `"%s.%d"`, w.name, w.tokens)}
	}
	return news
}
