package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/phorge-gantry/gantry/tasks"
)

// crew is several workers of two recorded processes on one queue.
type crew struct {
	Subject
	workers []*Worker
	last    *Worker // who drains the queue
	logs    [2]bytes.Buffer
}

func newCrew(s Subject, seed uint64) *crew {
	c := &crew{Subject: s}
	processes := []*Recorder{NewRecorder(s.Store, &c.logs[0]), NewRecorder(s.Other, &c.logs[1])}
	for n := range uint64(4) {
		c.workers = append(c.workers, NewWorker(processes[n%2], fmt.Sprint(n), rand.New(rand.NewPCG(seed, n))))
	}
	c.last = NewWorker(processes[0], "last", rand.New(rand.NewPCG(seed, 4)))
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
		if err := c.last.Finish(ctx); err != nil {
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
