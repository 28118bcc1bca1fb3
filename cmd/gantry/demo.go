package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

const (
	// demoBatch is how many tasks are queued in one call.
	demoBatch = 500

	// demoPause is how long a task takes.
	demoPause = 5 // milliseconds

	// demoKeep is how long the keys of the calls are kept: for as long as
	// anybody could go on with the demo.
	demoKeep = 10 * 365 * 24 * time.Hour
)

// demoChosen are tasks that come to different ends.
var demoChosen = []struct{ class, data, why string }{
	{demoGoClass, `{"milliseconds":200}`, "works for 0.2 s"},
	{demoGoClass, `{"milliseconds":5,"fail":"for good"}`, "fails for good"},
	{demoGoClass, `{"milliseconds":5,"fail":"for now"}`, "fails, is tried again in 10 min"},
	{"AcmeUnknownWorker", `[]`, "nothing here runs its class"},
}

func (a *app) demoCommand() *cobra.Command {
	var dir string
	var count int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Flood and drain a queue of its own, and prove what became of it",
		Long: `Queue tasks in one SQLite file and run them: in a handler binary, which is this
program once more, and in resident processes of PHP where a program php is there.
At the end, say who did what, and prove from what the processes themselves wrote
down that no task was lost and none ended twice.

Nothing else is needed, no configuration is read, and nothing outside of the
folder is touched. Kill it, with -9, and run it again: it goes on where it was. The
folder stays, so that the other commands can look at it; a demo that came to its
end is replaced by the next.`,
		Example: `  gantry demo
  gantry demo --dir /var/tmp/demo --tasks 100000`,
		Args: noArgs,
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` for the queue, which is made when it is not there (default: gantry-demo in the user's folder for caches)")
	cmd.Flags().IntVar(&count, "tasks", 20000, "how many `tasks` to queue for the plugin; with PHP, a tenth as many more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if count < demoBatch {
			return usagef("--tasks %d must be at least %d", count, demoBatch)
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return a.demo(ctx, dir, count)
	}
	return cmd
}

// demo is a demo at work.
type demo struct {
	*app
	dir   string
	queue *embedded.Store
	run   *demoRun
	*ledger

	socket string  // "" when there is none
	found  int     // tasks that the one before held when it was killed
	flood  []int64 // the ids of the tasks that are to succeed
	chosen []int64
}

func (a *app) demo(ctx context.Context, dir string, count int) error {
	dir, unlock, err := demoFolder(dir)
	if err != nil {
		return err
	}
	defer unlock()
	d := &demo{app: a, dir: dir}
	if err := d.open(ctx, count); err != nil {
		return err
	}
	defer d.queue.Close()
	log, err := os.OpenFile(filepath.Join(dir, "gantry.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if d.run, err = startDemoRun(ctx, dir, d.queue, zerolog.New(zerolog.SyncWriter(log)).Level(zerolog.InfoLevel).With().Timestamp().Logger()); err != nil {
		return err
	}
	hangUp := d.serve()
	d.introduce()
	err = d.work(ctx)
	hangUp()
	if err = errors.Join(err, d.run.stop()); err != nil {
		if errors.Is(err, context.Canceled) {
			d.say("Stopped. Run it again, and it goes on.")
		}
		return err
	}
	return d.conclude(ctx)
}

// demoFolder answers the folder, made and locked for this process.
func demoFolder(named string) (dir string, unlock func(), err error) {
	if named == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", nil, usagef("there is no folder for the demo (%w); name one with --dir", err)
		}
		named = filepath.Join(cache, "gantry-demo")
	}
	if dir, err = filepath.Abs(named); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the folder of the demo: %w; name another with --dir", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("lock the folder of the demo: %w", err)
	}
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		lock.Close()
		return "", nil, fmt.Errorf("a demo is at work in %s; wait for it, or name another folder with --dir", dir)
	case err != nil:
		lock.Close()
		return "", nil, fmt.Errorf("lock the folder of the demo: %w", err)
	}
	return dir, func() { lock.Close() }, nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// open opens the queue of the demo, that of the last one if it did not end.
func (d *demo) open(ctx context.Context, count int) (err error) {
	if d.ledger, err = openLedger(d.path("ledger")); err != nil {
		return err
	}
	if d.ended {
		// The ledger goes last: without it, what is left would be of no use.
		for _, name := range []string{"queue.db", "queue.db-wal", "queue.db-shm", "gantry.log", "ledger"} {
			if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if d.ledger, err = openLedger(d.path("ledger")); err != nil {
			return err
		}
	}
	if d.plan == 0 {
		if err := d.begin(count); err != nil {
			return err
		}
	}
	d.queue, err = embedded.Open(ctx, embedded.Config{Path: d.path("queue.db"), ArchiveAge: -1})
	if err != nil {
		return err
	}
	if err = d.takeOver(ctx); err != nil {
		d.queue.Close()
	}
	return err
}

// begin writes down what is to be done, before there is a queue: one that is there
// already is somebody's.
func (d *demo) begin(count int) error {
	if _, err := os.Lstat(d.path("queue.db")); !errors.Is(err, os.ErrNotExist) {
		return usagef("%s is there, and is no demo's; name a folder for the demo alone with --dir", d.path("queue.db"))
	}
	return d.note("plan %d", count)
}

// takeOver writes down what this demo begins with.
func (d *demo) takeOver(ctx context.Context) error {
	if before := len(d.demos); before > 0 {
		if err := d.noteHeld(ctx, d.demos[before-1]); err != nil {
			return err
		}
	}
	return d.note("began %d", os.Getpid())
}

// noteHeld writes down which tasks the last demo held when it was killed: they
// may have run, and run again.
func (d *demo) noteHeld(ctx context.Context, last int) error {
	return d.each(ctx, tasks.Active, func(r tasks.Record) error {
		if r.Owner == nil || tasks.Nobody(*r.Owner) {
			return nil
		}
		d.found++
		return d.note("held %d %d", r.ID, last)
	})
}

// each looks at all the tasks in a state.
func (d *demo) each(ctx context.Context, state tasks.State, look func(tasks.Record) error) error {
	var all selection
	_, err := all.each(ctx, d.queue, state, func(page []tasks.Record) error {
		for _, r := range page {
			if err := look(r); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// serve tells `gantry top` how it is, on a socket in the folder; where its name is
// too long for one, it does not.
func (d *demo) serve() (hangUp func()) {
	began, path := time.Now(), d.path("socket")
	hangUp, err := serveStatus(path, func() error { return nil }, func() any {
		stats := d.run.runtime.Stats()
		report := statusReport[any]{
			Version: readVersion().Version, PID: os.Getpid(), Since: began, Ready: true,
			Counts: countsOf(stats), Held: stats.Held, Running: stats.Running, Plugins: d.run.host.List(),
		}
		if d.run.pool != nil {
			report.PHP = phpStatus[any]{Route: "pool", State: new(any(d.run.pool.State()))}
		}
		return report
	}, nil)
	if err != nil {
		return func() {}
	}
	d.socket = path
	return hangUp
}

// work queues what is not yet queued, and waits until all of it came to its end.
func (d *demo) work(ctx context.Context) error {
	live := newDemoLine(d)
	defer live.end()
	if err := d.enqueue(ctx, live); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := live.tell(time.Now()); err != nil {
			return err
		}
		if done, err := d.done(ctx); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
