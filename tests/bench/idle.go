package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

// idleQueue measures what an empty queue costs the database, and how soon a
// task is started that comes into it. The tasks come from another connection,
// as from PHP: nothing wakes the runtime but its own polling.
func (b *bench) idleQueue(ctx context.Context) (err error) {
	if err := b.queue.refill(ctx, 0); err != nil {
		return err
	}
	without, err := b.databaseLoad(ctx)
	if err != nil {
		return err
	}
	store, err := phorge.Open(ctx, phorge.Config{DSN: b.queue.dsn})
	if err != nil {
		return err
	}
	defer store.Close()
	started := make(chan time.Time, 1)
	rt, err := newRuntime(store, tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome {
		started <- time.Now()
		return tasks.Outcome{Kind: tasks.Succeeded}
	}))
	if err != nil {
		return err
	}
	if err := rt.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Drain(ctx)) }()
	with, err := b.databaseLoad(ctx)
	if err != nil {
		return err
	}
	b.table.add("idle_database_cpu", 100*(with-without))
	return b.pickup(ctx, started)
}

// databaseLoad answers the share of a core that the server uses.
func (b *bench) databaseLoad(ctx context.Context) (float64, error) {
	before, err := cpuTime(b.server.PID())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, b.idle); err != nil {
		return 0, err
	}
	after, err := cpuTime(b.server.PID())
	return (after - before).Seconds() / time.Since(began).Seconds(), err
}

// pickup queues tasks, each after a pause in which the runtime has gone back to
// its slowest polling, and at no fixed distance from its polls.
func (b *bench) pickup(ctx context.Context, started <-chan time.Time) error {
	latencies := make([]float64, b.pickups)
	for i := range latencies {
		if err := pause(ctx, 200*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
			return err
		}
		committed, err := b.queue.queueAsPHP(ctx)
		if err != nil {
			return err
		}
		select {
		case at := <-started:
			latencies[i] = max(0, at.Sub(committed).Seconds()*1000)
		case <-time.After(10 * time.Second):
			return errors.New("a task in an idle queue was not started within ten seconds")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.table.add("pickup_p50", percentile(latencies, 50))
	b.table.add("pickup_p99", percentile(latencies, 99))
	return nil
}

// queueAsPHP queues one task with the statements of PhabricatorWorker::scheduleTask
// and answers when the last of them was committed.
func (q *queue) queueAsPHP(ctx context.Context) (committed time.Time, err error) {
	var results [3]sql.Result
	results[0], err = q.db.ExecContext(ctx, `INSERT INTO worker_taskdata (data) VALUES (?)`, data)
	if err == nil {
		results[1], err = q.db.ExecContext(ctx, `INSERT INTO lisk_counter VALUES ('worker_activetask', 1)
ON DUPLICATE KEY UPDATE counterValue = LAST_INSERT_ID(counterValue + 1)`)
	}
	if err != nil {
		return committed, fmt.Errorf("queue a task: %w", err)
	}
	dataID, err1 := results[0].LastInsertId()
	id, err2 := results[1].LastInsertId()
	_, err3 := q.db.ExecContext(ctx, `INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified)
VALUES (?, ?, 0, ?, 2000, UNIX_TIMESTAMP(), UNIX_TIMESTAMP())`, id, class, dataID)
	return time.Now(), errors.Join(err1, err2, err3)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
