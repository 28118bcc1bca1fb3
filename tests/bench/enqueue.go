package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

const (
	// enqueueBatch is how many tasks are queued at once.
	enqueueBatch = 500

	// enqueueCallers queue batches at the same time.
	enqueueCallers = 4
)

// The raw floor of queueing: the two rows a task, and nothing else. No counter;
// nobody else takes ids.
const (
	floorInsertData = `INSERT INTO worker_taskdata (id, data) VALUES `
	floorInsertTask = `INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified) VALUES `
)

// enqueueFloor measures the row changes without Gantry.
func (b *bench) enqueueFloor(connections int) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := b.queue.refill(ctx, 0); err != nil {
			return err
		}
		var next atomic.Int64
		began := time.Now()
		err := onFloor(ctx, b.queue.dsn, connections, func(ctx context.Context, _ int, f floor) error {
			for {
				first := int(next.Add(enqueueBatch)) - enqueueBatch
				if first >= b.tasks {
					return nil
				}
				var rows, active strings.Builder
				separator := ""
				for id := first + 1; id <= min(first+enqueueBatch, b.tasks); id++ {
					fmt.Fprintf(&rows, "%s(%d,'%s')", separator, id, data)
					fmt.Fprintf(&active, "%s(%d,'%s',0,%d,2000,UNIX_TIMESTAMP(),UNIX_TIMESTAMP())", separator, id, class, id)
					separator = ","
				}
				if err := f.exec(ctx, floorInsertData+rows.String(), floorInsertTask+active.String(), "COMMIT"); err != nil {
					return err
				}
			}
		})
		if err != nil {
			return err
		}
		b.table.add(fmt.Sprintf("enqueue_floor_%d", connections), rate(b.tasks, time.Since(began)))
		return b.allQueued(ctx, b.tasks)
	}
}

// allQueued makes sure that what was measured is what should have happened.
func (b *bench) allQueued(ctx context.Context, want int) error {
	var n int
	err := b.queue.db.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM worker_activetask JOIN worker_taskdata ON worker_taskdata.id = dataID`).Scan(&n)
	if err == nil && n != want {
		err = fmt.Errorf("%d of %d tasks are queued", n, want)
	}
	return err
}

func (b *bench) enqueueBatched(ctx context.Context) error {
	took, err := b.enqueue(ctx, b.tasks, enqueueBatch, enqueueCallers)
	if err == nil {
		b.table.add("enqueue_batched", rate(b.tasks, took))
	}
	return err
}

func (b *bench) enqueueSingle(ctx context.Context) error {
	took, err := b.enqueue(ctx, b.singles, 1, 1)
	if err == nil {
		b.table.add("enqueue_single", rate(b.singles, took))
	}
	return err
}

// enqueue queues so many tasks through a store and answers how long it took.
func (b *bench) enqueue(ctx context.Context, n, size, callers int) (time.Duration, error) {
	if err := b.queue.refill(ctx, 0); err != nil {
		return 0, err
	}
	store, err := phorge.Open(ctx, phorge.Config{DSN: b.queue.dsn})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	var next atomic.Int64
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for range callers {
		group.Go(func() error {
			for {
				first := int(next.Add(int64(size))) - size
				if first >= n {
					return nil
				}
				news := make([]tasks.NewTask, min(size, n-first))
				for i := range news {
					news[i] = tasks.NewTask{Class: class, Data: []byte(data)}
				}
				if _, err := store.Enqueue(groupCtx, news); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.allQueued(ctx, n)
}

// enqueueStock measures PHP queueing one task after the other, less the time it
// takes PHP to start.
func (b *bench) enqueueStock(ctx context.Context) error {
	if b.phorge == nil {
		return nil
	}
	if err := b.stock.refill(ctx, 0); err != nil {
		return err
	}
	var took [2]time.Duration
	for i, n := range []int{1, 1 + b.singles} {
		began := time.Now()
		if _, err := b.phorge.Schedule(ctx, class, n, map[string]any{"duration": 0}, nil); err != nil {
			return err
		}
		took[i] = time.Since(began)
	}
	b.table.add("enqueue_stock", rate(b.singles, took[1]-took[0]))
	return nil
}
