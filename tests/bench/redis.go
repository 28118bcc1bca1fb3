package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/redis"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// fsyncs are when the Redis of some rows writes to its disk: before it answers,
// which the queue asks for that must lose nothing, and once a second, which is what
// a Redis does by itself.
var fsyncs = []string{"always", "everysec"}

// asynqConcurrency is how many tasks an asynq.Server works on at one time; it is as
// fast with more, and slower with its default, the number of CPUs.
const asynqConcurrency = 64

// startRedis starts the servers. Each serves both queues in turn.
func (b *bench) startRedis(context.Context) error {
	b.redis = map[string]*harness.Redis{}
	for _, fsync := range fsyncs {
		server, err := harness.LaunchRedis("--appendfsync", fsync)
		if err != nil {
			return err
		}
		b.atClose(server.Stop)
		b.redis[fsync] = server
	}
	return nil
}

// onRedis are the measurements of all servers.
func (b *bench) onRedis() (all []measurement) {
	for _, fsync := range fsyncs {
		for _, m := range []struct {
			name string
			run  func(ctx context.Context, fsync string, server *harness.Redis) error
		}{
			{"redis_enqueue_", b.enqueueRedis}, {"asynq_enqueue_", b.enqueueAsynq},
			{"redis_drain_", b.drainRedis}, {"asynq_drain_", b.drainAsynq},
		} {
			row := m.name + fsync
			rows := []string{row}
			if m.name == "redis_drain_" {
				rows = append(rows, "redis_batched_"+fsync) // what fills the queue
			}
			all = append(all, measurement{rows, func(ctx context.Context) error {
				server := b.redis[fsync]
				client := goredis.NewClient(&goredis.Options{Addr: server.Socket(), ReadTimeout: time.Minute})
				defer client.Close()
				if err := client.FlushAll(ctx).Err(); err != nil {
					return err
				}
				return m.run(ctx, fsync, server)
			}})
		}
	}
	return all
}

// openRedis opens a queue on a server.
func openRedis(ctx context.Context, server *harness.Redis) (*redis.Store, error) {
	return redis.Open(ctx, redis.Config{URL: server.URL()})
}

// oneByOne makes so many calls by 16 callers at once, and answers how long it
// took.
func oneByOne(n int, call func() error) (time.Duration, error) {
	var next atomic.Int64
	began := time.Now()
	var group errgroup.Group
	for range singleClients {
		group.Go(func() error {
			for int(next.Add(1)) <= n {
				if err := call(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(began), err
}

func (b *bench) enqueueRedis(ctx context.Context, fsync string, server *harness.Redis) error {
	store, err := openRedis(ctx, server)
	if err != nil {
		return err
	}
	defer store.Close()
	n := 4 * b.singles
	took, err := oneByOne(n, func() error {
		_, err := store.Enqueue(ctx, []tasks.NewTask{{Class: class, Data: []byte(data)}})
		return err
	})
	if err != nil {
		return err
	}
	b.table.add("redis_enqueue_"+fsync, rate(n, took))
	return redisHolds(ctx, store, n, 0)
}

func (b *bench) drainRedis(ctx context.Context, fsync string, server *harness.Redis) error {
	store, err := openRedis(ctx, server)
	if err != nil {
		return err
	}
	defer store.Close()
	began := time.Now()
	for left := b.tasks; left > 0; left -= enqueueBatch {
		news := make([]tasks.NewTask, min(left, enqueueBatch))
		for i := range news {
			news[i] = tasks.NewTask{Class: class, Data: []byte(data)}
		}
		if _, err := store.Enqueue(ctx, news); err != nil {
			return err
		}
	}
	b.table.add("redis_batched_"+fsync, rate(b.tasks, time.Since(began)))
	_, took, err := b.drainStore(ctx, store, nothing, b.tasks)
	if err != nil {
		return err
	}
	b.table.add("redis_drain_"+fsync, rate(b.tasks, took))
	return redisHolds(ctx, store, 0, b.tasks)
}

// redisHolds makes sure that what was measured is what should have happened.
func redisHolds(ctx context.Context, store *redis.Store, queued, archived int) error {
	stats, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	counted, err := store.CountArchived(ctx)
	of, more := 0, counted.More
	for _, c := range stats.Classes {
		of, more = of+c.Active, more || c.More
	}
	if err == nil && !more && (of != queued || counted.Succeeded != archived) {
		err = fmt.Errorf("%d tasks are queued and %d archived; %d and %d should be", of, counted.Succeeded, queued, archived)
	}
	return err
}

func asynqAt(server *harness.Redis) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: server.Socket()}
}

// fillAsynq queues tasks as its users do, one by one.
func fillAsynq(ctx context.Context, server *harness.Redis, n int) (took time.Duration, err error) {
	client := asynq.NewClient(asynqAt(server))
	defer func() { err = errors.Join(err, client.Close()) }()
	return oneByOne(n, func() error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask(class, []byte(data)))
		return err
	})
}

func (b *bench) enqueueAsynq(ctx context.Context, fsync string, server *harness.Redis) error {
	n := 4 * b.singles
	took, err := fillAsynq(ctx, server, n)
	if err != nil {
		return err
	}
	b.table.add("asynq_enqueue_"+fsync, rate(n, took))
	return asynqHolds(server, n)
}

func asynqHolds(server *harness.Redis, want int) error {
	inspector := asynq.NewInspector(asynqAt(server))
	info, err := inspector.GetQueueInfo("default")
	if err == nil && info.Size != want {
		err = fmt.Errorf("%d tasks are queued and %d should be", info.Size, want)
	}
	return errors.Join(err, inspector.Close())
}

func (b *bench) drainAsynq(ctx context.Context, fsync string, server *harness.Redis) error {
	if _, err := fillAsynq(ctx, server, b.tasks); err != nil {
		return err
	}
	worker := asynq.NewServer(asynqAt(server), asynq.Config{Concurrency: asynqConcurrency, LogLevel: asynq.FatalLevel})
	var done atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	err := worker.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(b.tasks) {
			close(all)
		}
		return nil
	}))
	if err != nil {
		return err
	}
	defer worker.Shutdown()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	b.table.add("asynq_drain_"+fsync, rate(b.tasks, time.Since(began)))
	return nil
}
