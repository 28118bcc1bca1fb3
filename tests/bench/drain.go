package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// The most tasks that the runtime leases and settles in one call, and so what
// the floor leases and settles at a time.
const (
	leaseBatch  = 512
	settleBatch = 256
)

// slots is how many tasks run at once: as many as make a full batch.
const slots = settleBatch

// nothing is an executor in this process whose tasks are done at once.
var nothing = tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Succeeded}
})

// drainFloor measures the row changes without Gantry.
func (b *bench) drainFloor(connections int) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := b.queue.refill(ctx, b.tasks); err != nil {
			return err
		}
		began := time.Now()
		if err := drainFloor(ctx, b.queue.dsn, connections); err != nil {
			return err
		}
		took := time.Since(began)
		b.table.add(fmt.Sprintf("drain_floor_%d", connections), rate(b.tasks, took))
		return b.allArchived(ctx, b.queue, b.tasks)
	}
}

// allArchived makes sure that what was measured is what should have happened.
func (b *bench) allArchived(ctx context.Context, q *queue, want int) error {
	left, err := q.lacks(ctx, "worker_activetask")
	if err != nil {
		return err
	}
	if n, err := q.archived(ctx); err != nil || n != want || !left {
		return errors.Join(err, fmt.Errorf("%d of %d tasks are archived", n, want))
	}
	return nil
}

func (b *bench) drainInProcess(ctx context.Context) error {
	took, err := b.drainWith(ctx, nothing)
	if err == nil {
		b.table.add("drain_in_process", rate(b.tasks, took))
	}
	return err
}

func (b *bench) drainPlugin(ctx context.Context) error {
	h, err := b.startHost(ctx, "plugins.yaml", class, nil)
	if err != nil {
		return err
	}
	took, err := b.drainWith(ctx, h)
	if err == nil {
		b.table.add("drain_plugin", rate(b.tasks, took))
	}
	return errors.Join(err, h.Close())
}

// siteOf answers what handlers are told of a Phorge.
type siteOf = func(applications, options []string) (*plugins.Site, error)

// startHost starts the binary of a manifest as gantry run does.
func (b *bench) startHost(ctx context.Context, file, class string, site siteOf) (*host.Host, error) {
	manifest, err := host.LoadManifest(b.program(file))
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Config{Manifest: manifest, Site: site, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	if err := h.Start(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if !h.Ready(class) {
		return nil, errors.Join(fmt.Errorf("what handles %s did not start: %+v", class, h.List()), h.Close())
	}
	return h, nil
}

// drainWith drains a fresh queue and answers how long it took, from the start
// of the runtime.
func (b *bench) drainWith(ctx context.Context, e tasks.Executor) (time.Duration, error) {
	if err := b.queue.refill(ctx, b.tasks); err != nil {
		return 0, err
	}
	_, took, err := b.drainSome(ctx, b.queue, e, b.tasks)
	if err != nil {
		return 0, err
	}
	return took, b.allArchived(ctx, b.queue, b.tasks)
}

// drainSome runs a runtime until it has drained so many tasks, and answers how
// many it drained in which time.
func (b *bench) drainSome(ctx context.Context, q *queue, e tasks.Executor, want int) (drained int, took time.Duration, err error) {
	store, err := phorge.Open(ctx, phorge.Config{DSN: q.dsn})
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	return b.drainStore(ctx, store, e, want)
}

// drainStore does the same on any store.
func (b *bench) drainStore(ctx context.Context, store tasks.Store, e tasks.Executor, want int) (drained int, took time.Duration, err error) {
	rt, err := newRuntime(store, e)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := rt.Start(); err != nil {
		return 0, 0, err
	}
	err = await(ctx, time.Millisecond, func() (bool, error) {
		drained, took = rt.Stats().Succeeded, time.Since(began)
		return drained >= want, nil
	})
	return drained, took, errors.Join(err, rt.Drain(ctx))
}

func newRuntime(store tasks.Store, e tasks.Executor) (*runtime.Runtime, error) {
	return runtime.New(runtime.Config{
		Store: store, Slots: slots, Log: zerolog.Nop(),
		Classes: map[string]runtime.Class{class: {Executor: e}},
	})
}

// drainStock measures so many stock taskmasters.
func (b *bench) drainStock(processes int) func(context.Context) error {
	return func(ctx context.Context) error {
		if b.phorge == nil {
			return nil
		}
		if err := b.stock.refill(ctx, b.scale.stock); err != nil {
			return err
		}
		return b.stockRate(ctx, fmt.Sprintf("drain_stock_%d", processes), processes, b.scale.stock)
	}
}

// stockRate lets so many taskmasters drain the queue. The clock starts with the
// first task they archive: PHP takes a while to start.
func (b *bench) stockRate(ctx context.Context, row string, processes, queued int) (err error) {
	var masters []*harness.Taskmaster
	defer func() {
		for _, m := range masters {
			err = errors.Join(err, m.Stop())
		}
	}()
	for range processes {
		m, err := b.phorge.StartTaskmaster()
		if err != nil {
			return err
		}
		masters = append(masters, m)
	}
	n, took, err := b.awaitStock(ctx, queued)
	if err != nil {
		return err
	}
	b.table.add(row, rate(n, took))
	return b.allArchived(ctx, b.stock, queued)
}

// awaitStock answers how many tasks were drained after the first ones, and how
// long that took.
func (b *bench) awaitStock(ctx context.Context, queued int) (int, time.Duration, error) {
	err := await(ctx, 10*time.Millisecond, func() (bool, error) {
		lacks, err := b.stock.lacks(ctx, "worker_archivetask")
		return !lacks, err
	})
	if err != nil {
		return 0, 0, err
	}
	first, err := b.stock.archived(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	err = await(ctx, 10*time.Millisecond, func() (bool, error) { return b.stock.lacks(ctx, "worker_activetask") })
	return queued - first, time.Since(began), err
}

func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
