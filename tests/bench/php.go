package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

const searchClass = "PhabricatorSearchWorker"

// preparePHP makes what the rows of PHP need beside the Phorge: a web server
// before it, a key, and objects to index.
func (b *bench) preparePHP(ctx context.Context) error {
	web, err := b.phorge.StartWeb(lines)
	if err != nil {
		return err
	}
	b.web = web
	b.atClose(web.Stop)
	keys, err := b.phorge.LetExecute(class)
	if err != nil {
		return err
	}
	b.key = keys[0]
	// The row of the memory is about one process.
	if err := b.phorge.Configure(map[string]any{"gantry.pool.max-tasks": 1 << 20}); err != nil {
		return err
	}
	out, err := b.phorge.PHP(ctx, "objects.php", fmt.Sprint(b.objects))
	if err != nil {
		return err
	}
	b.phids = strings.Fields(out)
	if err := b.prepareWebhooks(ctx); err != nil {
		return err
	}
	return b.pings(ctx, 10*lines) // compiles Phorge in every child
}

// lines is how many requests php-fpm serves at the same time.
const lines = 4

// log tells why something did not go as it should.
func (b *bench) log() zerolog.Logger { return zerolog.New(b.progress).Level(zerolog.WarnLevel) }

// withPool does something with so many resident processes, where there is a
// Phorge.
func (b *bench) withPool(ctx context.Context, processes int, do func(p *pool.Pool) error) error {
	if b.phorge == nil {
		return nil
	}
	p, err := pool.New(pool.Config{
		Command: b.phorge.PoolCommand(), Namespace: b.phorge.Namespace(), Min: processes, Log: b.log(),
	})
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return errors.Join(err, p.Close())
	}
	if state := p.State(); !state.Ready {
		return errors.Join(fmt.Errorf("no PHP process started: %s", state.Problem), p.Close())
	}
	return errors.Join(do(p), p.Close())
}

// drainPool measures tasks that do nothing, through so many processes.
func (b *bench) drainPool(processes int) func(context.Context) error {
	return func(ctx context.Context) error {
		return b.withPool(ctx, processes, func(p *pool.Pool) error {
			if err := b.stock.refill(ctx, b.tasks); err != nil {
				return err
			}
			took, err := b.drainPHP(ctx, class, p, p.Slots, b.tasks)
			if err == nil {
				b.table.add(fmt.Sprintf("drain_pool_%d", processes), rate(b.tasks, took))
			}
			return err
		})
	}
}

// drainPHP drains the queue of the Phorge by an executor that has so many slots,
// and answers how long that took from the start of the runtime.
func (b *bench) drainPHP(ctx context.Context, class string, e tasks.Executor, slots func() int, n int) (took time.Duration, err error) {
	store, err := phorge.Open(ctx, phorge.Config{DSN: b.stock.dsn})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	rt, err := runtime.New(runtime.Config{
		Store: store, Log: b.log(),
		Classes: map[string]runtime.Class{class: {Executor: e, Limit: &runtime.Limit{Slots: slots}}},
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := rt.Start(); err != nil {
		return 0, err
	}
	err = await(ctx, time.Millisecond, func() (bool, error) {
		took = time.Since(began)
		stats := rt.Stats()
		if bad := stats.Settled() - stats.Succeeded + stats.Lost; bad > 0 {
			return false, fmt.Errorf("%d tasks did not succeed: %+v", bad, stats)
		}
		return stats.Succeeded >= n, nil
	})
	if err := errors.Join(err, rt.Drain(ctx)); err != nil {
		return 0, err
	}
	return took, b.allArchived(ctx, b.stock, n)
}

// fillSearch queues indexing of real objects, each of them forced.
func (b *bench) fillSearch(ctx context.Context) error {
	if err := b.stock.refill(ctx, b.searches); err != nil {
		return err
	}
	if _, err := b.stock.db.ExecContext(ctx, `UPDATE worker_activetask SET taskClass = ?`, searchClass); err != nil {
		return err
	}
	for i, phid := range b.phids {
		text, err := json.Marshal(map[string]any{"documentPHID": phid, "parameters": map[string]any{"force": true}})
		if err != nil {
			return err
		}
		if _, err := b.stock.db.ExecContext(ctx, `UPDATE worker_taskdata SET data = ? WHERE id % ? = ?`, text, len(b.phids), i); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) searchPool(ctx context.Context) error {
	return b.withPool(ctx, 1, func(p *pool.Pool) error {
		if err := b.fillSearch(ctx); err != nil {
			return err
		}
		took, err := b.drainPHP(ctx, searchClass, p, p.Slots, b.searches)
		if err == nil {
			b.table.add("search_pool", rate(b.searches, took))
		}
		return err
	})
}

func (b *bench) searchStock(ctx context.Context) error {
	if b.phorge == nil {
		return nil
	}
	if err := b.fillSearch(ctx); err != nil {
		return err
	}
	return b.stockRate(ctx, "search_stock", 1, b.searches)
}

// poolMemory measures one process after its first thousand tasks, and after
// twenty thousand.
func (b *bench) poolMemory(ctx context.Context) error {
	return b.withPool(ctx, 1, func(p *pool.Pool) error {
		pid := p.State().Processes[0].PID
		for _, part := range []struct {
			row   string
			tasks int
		}{
			{"pool_memory_early", b.served / 20},
			{"pool_memory_late", b.served - b.served/20},
		} {
			if err := b.stock.refill(ctx, part.tasks); err != nil {
				return err
			}
			if _, err := b.drainPHP(ctx, class, p, p.Slots, part.tasks); err != nil {
				return err
			}
			now, _, err := memory(pid)
			if err != nil {
				return fmt.Errorf("the process was replaced: %w", err)
			}
			b.table.add(part.row, now)
		}
		return nil
	})
}

// drainConduit measures tasks that do nothing through worker.execute.
func (b *bench) drainConduit(row string, connections, tasksPerCall, n int) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		if b.phorge == nil {
			return nil
		}
		e, err := conduit.New(conduit.Config{
			URL: b.web.URL(), Namespace: b.phorge.Namespace(), KeyID: b.key.ID, Key: conduit.Secret(b.key.Secret),
			Connections: connections, TasksPerCall: tasksPerCall, Log: b.log(),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := e.Start(ctx); err != nil {
			return err
		}
		if !e.Ready(class) {
			return fmt.Errorf("worker.execute does not answer: %+v", e.State())
		}
		if err := b.stock.refill(ctx, n); err != nil {
			return err
		}
		took, err := b.drainPHP(ctx, class, e, e.Slots, n)
		if err == nil {
			b.table.add(row, rate(n, took))
		}
		return err
	}
}

// ping measures conduit.ping, called in the same way by so many at once.
func (b *bench) ping(connections int) func(context.Context) error {
	return func(ctx context.Context) error {
		if b.phorge == nil {
			return nil
		}
		calls := b.calls / connections
		failed := make(chan error, connections)
		began := time.Now()
		for range connections {
			go func() { failed <- b.pings(ctx, calls) }()
		}
		var err error
		for range connections {
			err = errors.Join(err, <-failed)
		}
		b.table.add(fmt.Sprintf("ping_%d", connections), rate(calls*connections, time.Since(began)))
		return err
	}
}

func (b *bench) pings(ctx context.Context, calls int) error {
	for range calls {
		if _, err := b.web.Conduit(ctx, harness.Person{}, "conduit.ping", nil); err != nil {
			return err
		}
	}
	return nil
}
