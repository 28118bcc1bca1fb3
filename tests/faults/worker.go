package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

const (
	// addressesVariable names the API servers that a worker uses.
	addressesVariable = "GANTRY_FAULTS_API"

	// workerVariable is the name of a worker.
	workerVariable = "GANTRY_FAULTS_WORKER"

	// workerBatch is how many tasks a worker leases and runs at the same time.
	workerBatch = 8
)

// worker is a strict client of the API: it runs nothing beyond the end of a
// lease, renews before it settles, and lets go of what is not its own any more.
type worker struct {
	*handler
	queue *storetest.Recorder
}

// serveWorker is the role of a worker, until SIGTERM.
func serveWorker() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := openRecords()
	if err != nil {
		return err
	}
	history, err := storetest.OpenHistory(os.Getenv(historyVariable))
	if err != nil {
		return err
	}
	over := &caller{name: os.Getenv(workerVariable), addresses: strings.Fields(os.Getenv(addressesVariable))}
	w := &worker{handler: h, queue: storetest.NewCallerRecorder(over, history)}
	for ctx.Err() == nil {
		if err := w.work(); err != nil {
			_ = pause(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

// work leases some tasks and runs them.
func (w *worker) work() error {
	began := time.Now()
	leased, err := w.queue.Lease(context.Background(), tasks.LeaseRequest{
		Limit:   workerBatch,
		Classes: map[string]tasks.ClassRequest{class: {Limit: workerBatch, LeaseTime: apiLease}},
	})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, task := range leased {
		all.Go(func() { w.run(task, sure(began)) })
	}
	all.Wait()
	return nil
}

// sure answers until when a lease lives that was asked for at a time.
func sure(asked time.Time) time.Time { return asked.Add(apiLease - time.Second) }

// run runs a task and settles it. What does not come to its end by then is left
// to whoever leases it next.
func (w *worker) run(task tasks.Task, until time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	ended, err := w.queue.Execution(task)
	if err != nil {
		return
	}
	outcome, err := w.do(ctx, task)
	if err != nil || ended(outcome.Kind) != nil || outcome.Kind == tasks.Released {
		return
	}
	w.settle(ctx, task, outcome)
}

// do runs a task as the handlers of runtimes do, and writes down the same.
func (w *worker) do(ctx context.Context, task tasks.Task) (tasks.Outcome, error) {
	run := w.runs.Add(1)
	if err := w.write(record{ID: task.ID, Run: run}); err != nil {
		return tasks.Outcome{}, err
	}
	began := time.Now()
	data := work{class: task.Class}
	if err := json.Unmarshal(task.Data, &data); err != nil {
		return tasks.Outcome{}, err
	}
	outcome := tasks.Outcome{Kind: tasks.Released}
	if pause(ctx, data.takes()) == nil {
		outcome = tasks.Outcome{Kind: data.kind(task.FailureCount, began), Duration: time.Since(began)}
	}
	switch outcome.Kind {
	case tasks.Retry:
		outcome.Wait = time.Second
	case tasks.Yielded:
		outcome.Wait = tasks.MinYield
	case tasks.Succeeded:
		for _, child := range data.children() {
			outcome.FollowUps = append(outcome.FollowUps, child.task())
		}
	}
	return outcome, w.write(record{ID: task.ID, Run: run, Kind: outcome.Kind})
}

// settle renews the lease and settles the task, again and again while nobody
// answers and the lease can still be its own.
func (w *worker) settle(ctx context.Context, task tasks.Task, outcome tasks.Outcome) {
	until, _ := ctx.Deadline()
	for time.Now().Before(until) {
		asked := time.Now()
		renewed, err := w.queue.Renew(context.Background(), []tasks.Renewal{{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: apiLease}})
		if err == nil && renewed[0].Err != nil {
			return
		}
		if err == nil {
			until = sure(asked)
			_, err = w.queue.Settle(context.Background(), []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: outcome}})
		}
		if err == nil || pause(context.Background(), 50*time.Millisecond) != nil {
			return
		}
	}
}
