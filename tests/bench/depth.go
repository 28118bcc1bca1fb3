package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

const (
	// leaseLimit is the Limit of the calls whose latency is taken.
	leaseLimit = 64

	// repeats is how often a shallow queue is drained for one sample.
	repeats = 3
)

// fillDeep makes the queue whose depth must not matter.
func (b *bench) fillDeep(ctx context.Context) (err error) {
	if b.deep, err = b.namespace("deep"); err != nil {
		return err
	}
	b.say("filling a queue with %d queued and %d archived tasks", b.queued, b.archived)
	if err := b.deep.add(ctx, b.archived, fillArchive); err != nil {
		return err
	}
	return b.topUp(ctx)
}

// topUp brings the deep queue back to its depth.
func (b *bench) topUp(ctx context.Context) error {
	var n int
	if err := b.deep.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM worker_activetask`).Scan(&n); err != nil {
		return err
	}
	if err := b.deep.add(ctx, max(0, b.queued-n), fillActive); err != nil {
		return err
	}
	return b.deep.calm(ctx)
}

func (b *bench) drainShallow(ctx context.Context) error {
	return b.drainDepth(ctx, "drain_shallow", b.queue, func(ctx context.Context) error {
		return b.queue.refill(ctx, b.shallow)
	})
}

func (b *bench) drainDeep(ctx context.Context) error {
	return b.drainDepth(ctx, "drain_deep", b.deep, b.topUp)
}

// drainDepth drains as many tasks as a shallow queue holds, several times.
func (b *bench) drainDepth(ctx context.Context, row string, q *queue, prepare func(context.Context) error) error {
	var n int
	var took time.Duration
	for range repeats {
		if err := prepare(ctx); err != nil {
			return err
		}
		drained, d, err := b.drainSome(ctx, q, nothing, b.shallow)
		if err != nil {
			return err
		}
		n, took = n+drained, took+d
	}
	b.table.add(row, rate(n, took))
	return nil
}

// leaseLatencies takes the median over many calls, on both queues in turn.
func (b *bench) leaseLatencies(ctx context.Context) error {
	if err := errors.Join(b.queue.refill(ctx, b.shallow), b.topUp(ctx)); err != nil {
		return err
	}
	return b.leaseInTurn(ctx, leaseLimit, []string{"lease_shallow", "lease_deep"}, func(row string) (claimable, error) {
		dsn := map[string]string{"lease_shallow": b.queue.dsn, "lease_deep": b.deep.dsn}[row]
		return phorge.Open(ctx, phorge.Config{DSN: dsn})
	})
}

// claimable is a store that is to be closed.
type claimable interface {
	tasks.Store
	Close() error
}

// leaseInTurn measures many calls of Lease, for so many tasks, on the stores of
// some rows in turn, and gives back what they leased.
func (b *bench) leaseInTurn(ctx context.Context, limit int, rows []string, open func(row string) (claimable, error)) error {
	all := make([]*latency, len(rows))
	for i, row := range rows {
		store, err := open(row)
		if err != nil {
			return err
		}
		defer store.Close()
		all[i] = &latency{store: store, limit: limit}
	}
	for range b.leases {
		for _, l := range all {
			if err := l.lease(ctx); err != nil {
				return err
			}
		}
	}
	for i, row := range rows {
		b.table.add(row, median(all[i].took))
		if err := all[i].giveBack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// latency is how long the calls of one store take.
type latency struct {
	store tasks.Store
	limit int
	took  []float64 // milliseconds
	held  []tasks.Settlement
}

func (l *latency) lease(ctx context.Context) error {
	began := time.Now()
	leased, err := l.store.Lease(ctx, tasks.LeaseRequest{
		Limit:   l.limit,
		Classes: map[string]tasks.ClassRequest{class: {Limit: l.limit, LeaseTime: time.Minute}},
	})
	l.took = append(l.took, time.Since(began).Seconds()*1000)
	for _, task := range leased {
		l.held = append(l.held, tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Released}})
	}
	if err == nil && len(leased) < l.limit {
		err = fmt.Errorf("a call leased %d tasks of a queue that holds more than %d", len(leased), l.limit)
	}
	return err
}

func (l *latency) giveBack(ctx context.Context) error {
	_, err := l.store.Settle(ctx, l.held)
	return err
}

// memoryOfRun measures gantry run, as an admin would start it, while it drains
// the deep queue.
func (b *bench) memoryOfRun(ctx context.Context) (err error) {
	if err := b.topUp(ctx); err != nil {
		return err
	}
	cmd := exec.Command(b.program("gantry"), "run", "--plugins", b.program("plugins.yaml"), "--slots", fmt.Sprint(slots))
	cmd.Env = append(os.Environ(), "GANTRY_DSN="+b.deep.dsn)
	// It ends with us; the signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(b.program("gantry.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if failed := cmd.Wait(); failed != nil {
			said, _ := os.ReadFile(log.Name())
			err = errors.Join(err, fmt.Errorf("gantry run: %w\n%s", failed, said))
		}
	}()
	before, err := b.deep.archived(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, b.memory); err != nil {
		return err
	}
	now, peak, err := memory(cmd.Process.Pid)
	if err != nil {
		return err
	}
	after, err := b.deep.archived(ctx)
	if err == nil && after == before {
		err = errors.New("gantry run drained nothing")
	}
	b.table.add("memory_resident", now)
	b.table.add("memory_peak", peak)
	return err
}

// writeManifest makes a manifest for a handler binary. The options are further
// lines of its entry.
func (b *bench) writeManifest(file, handler, class, options string) error {
	path := b.program(file)
	text := "plugins:\n  - path: " + handler + "\n" + options + "    classes:\n      " + class + ": {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := host.Pin(path)
	return err
}
