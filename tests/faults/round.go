package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

const (
	// drainLimit is far more than the longest chain of waits.
	drainLimit = 5 * time.Minute

	// shortenSQL ends the waits that nobody has patience for: a task whose PHP
	// process died waits for five minutes, and one whose handler died for fifteen
	// seconds at a time until it can run alone. All others here wait for less.
	shortenSQL = `UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() - 1
WHERE leaseOwner LIKE '(%' AND leaseExpires > UNIX_TIMESTAMP() + 5`

	// takeoverTime is how long after its end a Gantry leaves the lease of
	// another one alone.
	takeoverTime = 5 * time.Second

	// lateShare of the tasks is queued while things die, lateBatch at a time.
	lateShare = 5
	lateBatch = 20
)

// round is one queue that is filled, disturbed and drained.
type round struct {
	server    *scratch.MariaDB
	namespace string
	dsn       string
	dir       string
	manifest  string
	records   string
	db        *sql.DB
	two       bool // runtimes, in every other round
	php       *php // nil where all tasks run in plugins
	began     time.Time

	rng    *rand.Rand
	work   []work
	kills  map[string]int
	pauses int

	// unsure holds batches whose queueing failed: all of it is there, or
	// nothing.
	unsure [][]work
}

func newRound(n int, o options, server *scratch.MariaDB, p *php) (*round, error) {
	r := &round{
		server:    server,
		namespace: fmt.Sprintf("faults%d", n+1),
		two:       n%2 == 1,
		rng:       rand.New(rand.NewPCG(o.seed, uint64(n))),
		kills:     map[string]int{},
		began:     time.Now(),
	}
	var err error
	if r.dir, err = os.MkdirTemp("", "gantry-faults-"); err != nil {
		return nil, err
	}
	r.records = filepath.Join(r.dir, "records")
	r.work = makeWork(r.rng, class, runtime.DefaultSlots, o.tasks, 0, r.began, o.drain)
	if err := errors.Join(r.writeManifest(), harness.CreateNamespace(server, r.namespace)); err != nil {
		return nil, err
	}
	r.dsn = server.DSN(r.namespace + "_worker")
	if p != nil && n%mixedEvery == 1 {
		if err := r.addPHP(p, o); err != nil {
			return nil, err
		}
	}
	config, err := mysql.ParseDSN(r.dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{} // a server that was killed is no news
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	r.db = sql.OpenDB(connector)
	return r, nil
}

// writeManifest lists this program as the handler binary.
func (r *round) writeManifest() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.manifest = filepath.Join(r.dir, "plugins.yaml")
	text := fmt.Sprintf("plugins:\n  - name: faults\n    path: %q\n    env: [%s]\n    classes:\n      %s:\n        wait: 1s\n",
		self, recordsVariable, class)
	if err := os.WriteFile(r.manifest, []byte(text), 0o600); err != nil {
		return err
	}
	_, err = host.Pin(r.manifest)
	return err
}

func (r *round) remove() error {
	return errors.Join(r.db.Close(), harness.DropNamespace(r.server, r.namespace), os.RemoveAll(r.dir))
}

// play plays the round and proves that it went as it should.
func (r *round) play(ctx context.Context) (findings, error) {
	history, err := storetest.OpenHistory(filepath.Join(r.dir, "history-driver"))
	if err != nil {
		return findings{}, err
	}
	defer history.Close()
	store, err := phorge.Open(ctx, phorge.Config{DSN: r.dsn})
	if err != nil {
		return findings{}, err
	}
	defer store.Close()
	queue := storetest.NewRecorder(store, history)
	late := len(r.work) - len(r.work)/lateShare
	if err := r.enqueue(ctx, queue, r.work[:late]); err != nil {
		return findings{}, err
	}

	seats := []*seat{r.occupy("a", r.fork(), r.runtime)}
	if r.two {
		seats = append(seats, r.occupy("b", r.fork(), r.runtime))
	}
	lateDone := make(chan struct{})
	go func() {
		defer close(lateDone)
		r.enqueueLate(ctx, queue, r.work[late:])
	}()
	err = r.disturb(ctx, seats)
	<-lateDone
	if err == nil {
		err = r.awaitEmpty(ctx)
	}
	for _, s := range seats {
		err = errors.Join(err, s.stop())
	}
	if err != nil {
		return findings{}, err
	}
	return r.prove(ctx)
}

// fork answers chance for another goroutine.
func (r *round) fork() *rand.Rand { return rand.New(rand.NewPCG(r.rng.Uint64(), r.rng.Uint64())) }

func (r *round) enqueue(ctx context.Context, queue tasks.Store, all []work) error {
	const batch = 500
	for len(all) > 0 {
		n := min(batch, len(all))
		if _, err := queue.Enqueue(ctx, newTasks(all[:n])); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// enqueueLate queues small batches while the database may be down. One that
// failed is not tried again: whether it is there is what the proof finds out.
func (r *round) enqueueLate(ctx context.Context, queue tasks.Store, all []work) {
	for len(all) > 0 && ctx.Err() == nil {
		n := min(lateBatch, len(all))
		if _, err := queue.Enqueue(ctx, newTasks(all[:n])); err != nil {
			r.unsure = append(r.unsure, all[:n])
		}
		all = all[n:]
		time.Sleep(10 * time.Millisecond)
	}
}

func newTasks(all []work) []tasks.NewTask {
	news := make([]tasks.NewTask, len(all))
	for i, w := range all {
		news[i] = w.task()
	}
	return news
}

// disturb kills one of each kind, and some more, in random order and at random
// moments. Where another runtime can take over, one is paused as well.
func (r *round) disturb(ctx context.Context, seats []*seat) error {
	kinds := []string{"runtime", "handler", "mariadb"}
	if r.php != nil {
		kinds = append(kinds, "pool", "fpm-child", "fpm", "nginx")
	}
	several := slices.Clone(kinds)
	r.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for range 3 + r.rng.IntN(4) {
		kinds = append(kinds, several[r.rng.IntN(len(several))])
	}
	if r.two {
		kinds = slices.Insert(kinds, r.rng.IntN(len(kinds)), "pause")
	}
	for _, kind := range kinds {
		if err := pause(ctx, 100*time.Millisecond+r.shortly()); err != nil {
			return err
		}
		if err := r.strike(ctx, kind, seats[r.rng.IntN(len(seats))]); err != nil {
			return err
		}
	}
	return nil
}

// strike makes one fault. It waits for a victim, which may be just starting.
func (r *round) strike(ctx context.Context, kind string, s *seat) error {
	if kind == "pause" {
		r.pauses++
		return r.pause(ctx, s)
	}
	r.kills[kind]++
	switch kind {
	case "runtime":
		return await(ctx, "a runtime to kill", s.kill)
	case "handler":
		return await(ctx, "a handler to kill", func() bool {
			return s.killChild(r.rng, func(pid int) bool { return !isPool(pid) })
		})
	case "mariadb":
		return r.killServer(ctx, s)
	}
	return r.strikePHP(ctx, kind, s)
}

// shortly is how long something stays dead.
func (r *round) shortly() time.Duration {
	return time.Duration(r.rng.ExpFloat64() * float64(500*time.Millisecond))
}

func (r *round) killServer(ctx context.Context, s *seat) error {
	if err := r.server.Kill(); err != nil {
		return err
	}
	if r.rng.IntN(3) == 0 && s.kill() { // both at once, as when a host dies
		r.kills["runtime"]++
	}
	if err := pause(ctx, r.shortly()); err != nil {
		return err
	}
	return r.server.Restart()
}

// pause stops a runtime until the other one has taken over what it held, and
// lets it go on: what it says then comes too late.
func (r *round) pause(ctx context.Context, s *seat) error {
	if err := await(ctx, "a runtime to stop", func() bool { return s.signal(syscall.SIGSTOP) }); err != nil {
		return err
	}
	err := pause(ctx, leaseTime+takeoverTime+time.Second)
	s.signal(syscall.SIGCONT)
	return err
}

// awaitEmpty waits until every task is archived.
func (r *round) awaitEmpty(ctx context.Context) error {
	var left int
	var failed error
	err := await(ctx, "an empty queue", func() bool {
		if _, failed = r.db.ExecContext(ctx, shortenSQL); failed != nil {
			return false
		}
		failed = r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM worker_activetask`).Scan(&left)
		return failed == nil && left == 0
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w; %d tasks are left", err, left), failed)
	}
	return nil
}

// await waits until something holds.
func await(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for !holds() {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
