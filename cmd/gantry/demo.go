package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	err = d.introduce()
	if err == nil {
		err = d.work(ctx)
	}
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
		return "", nil, fmt.Errorf("make the folder of the demo: %w", err)
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
	d.queue, err = embedded.Open(ctx, embedded.Config{Path: d.path("queue.db"), ArchiveAge: -1})
	if err != nil {
		return err
	}
	if err = d.takeOver(ctx, count); err != nil {
		d.queue.Close()
	}
	return err
}

// takeOver writes down what this demo begins with.
func (d *demo) takeOver(ctx context.Context, count int) error {
	if len(d.demos) == 0 {
		if err := d.note("plan %d", count); err != nil {
			return err
		}
	} else if err := d.noteHeld(ctx, d.demos[len(d.demos)-1]); err != nil {
		return err
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

// introduce says who is there, and what the last demo left.
func (d *demo) introduce() error {
	handler := d.run.host.List()[0]
	d.say("The queue is %s, in one SQLite file. This process, %d, queues tasks, leases them and settles what they come to.", d.path("queue.db"), os.Getpid())
	d.say("Tasks of %s run in %s, process %d, a handler binary under go-plugin: this program once more.", demoGoClass, demoHandler, handler.PID)
	if d.run.pool == nil {
		d.say("Tasks of %s are left out: %s.", demoPHPClass, plain(d.run.why))
	} else {
		php := d.run.pool.State()
		var pids []string
		for _, p := range php.Processes {
			pids = append(pids, strconv.Itoa(p.PID))
		}
		d.say("Tasks of %s run in PHP %s, processes %s, which stay: a short script stands there in the place of a Phorge.",
			demoPHPClass, plain(php.PHP), strings.Join(pids, " and "))
	}
	d.say("Each task takes %d ms, and writes into a ledger that it ran. Kill all of it with `kill -9 %d`, and run it again.", demoPause, os.Getpid())
	if before := d.demos[:len(d.demos)-1]; len(before) > 0 {
		d.say("Process %d was here before and did not come to the end: %d tasks were queued by then, and %d had run.", before[len(before)-1], d.total(), len(d.ran))
	}
	if d.found > 0 {
		d.say("It held %d when it was killed. Their leases end by themselves, and within %v they run here.", d.found, demoLease+takeoverDelay)
	}
	d.say("")
	return nil
}

// takeoverDelay is how long a Gantry leaves the expired lease of another alone.
const takeoverDelay = 5 * time.Second

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

// enqueue queues everything, in calls with a key each: one that an earlier demo
// made, and perhaps had no time to write down, answers the ids of that time.
func (d *demo) enqueue(ctx context.Context, live *demoLine) error {
	pause, err := json.Marshal(demoWork{Milliseconds: demoPause})
	if err != nil {
		return err
	}
	routes := []struct {
		key, class string
		count      int
	}{{"go", demoGoClass, d.plan}, {"php", demoPHPClass, d.plan / 10}}
	if d.run.pool == nil {
		routes = routes[:1]
	}
	for _, route := range routes {
		for at := 0; at < route.count; at += demoBatch {
			batch := make([]tasks.NewTask, min(demoBatch, route.count-at))
			for i := range batch {
				batch[i] = tasks.NewTask{Class: route.class, Data: pause}
			}
			ids, err := d.enqueueOnce(ctx, fmt.Sprintf("%s-%d", route.key, at), batch)
			if err != nil {
				return err
			}
			d.flood = append(d.flood, ids...)
			if err := live.tell(time.Now()); err != nil {
				return err
			}
		}
	}
	var chosen []tasks.NewTask
	for _, c := range demoChosen {
		chosen = append(chosen, tasks.NewTask{Class: c.class, Data: []byte(c.data)})
	}
	d.chosen, err = d.enqueueOnce(ctx, "chosen", chosen)
	return err
}

func (d *demo) enqueueOnce(ctx context.Context, key string, news []tasks.NewTask) ([]int64, error) {
	ids, duplicate, err := d.queue.EnqueueOnce(ctx, tasks.Once{Key: key, Keep: demoKeep}, news)
	if err != nil {
		return nil, err
	}
	d.run.runtime.Wake()
	if _, noted := d.queued[key]; noted {
		return ids, nil
	}
	by := os.Getpid()
	if duplicate {
		by = d.demos[len(d.demos)-2] // or the one after it would have noted it
	}
	return ids, d.note("queued %d %s %d", by, key, len(ids))
}

// done reports whether nothing is left of what runs here but what waits for
// long.
func (d *demo) done(ctx context.Context) (bool, error) {
	stats, err := d.queue.Stats(ctx)
	if err != nil {
		return false, err
	}
	for _, class := range stats.Classes {
		if d.runs(class.Class) && class.Active > class.Waiting {
			return false, nil
		}
	}
	left := 0
	err = d.each(ctx, tasks.Active, func(r tasks.Record) error {
		if d.runs(r.Class) && r.ID != d.chosen[2] {
			left++
		}
		return nil
	})
	return left == 0, err
}

// runs reports whether tasks of a class run in this demo.
func (d *demo) runs(class string) bool {
	return class == demoGoClass || class == demoPHPClass && d.run.pool != nil
}

// say tells a person, at once. JSON says everything at the end.
func (d *demo) say(format string, values ...any) {
	if d.print.json {
		return
	}
	d.print.linef(format, values...)
	_ = d.print.flush() // which the end of the command reports
}
