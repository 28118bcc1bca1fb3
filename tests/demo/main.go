// Command demo shows the main job on a private MariaDB that it starts itself
// and removes again: tasks are queued, leased by `gantry run`, executed in a
// handler binary and archived, and each step says who did it. With --keep the
// queue stays, to be played with, until a signal comes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// flood is how many tasks are drained beside the few that are looked at.
const flood = 5000

const manifest = `plugins:
  - name: testworker
    path: handler-testworker
    classes:
      PhabricatorTestWorker: {slots: 16}
`

// chosen are tasks that come to different ends.
var chosen = []struct{ class, data, why string }{
	{"PhabricatorTestWorker", `{"duration":0.2}`, "works for 0.2 s"},
	{"PhabricatorTestWorker", `{"doWork":"fail-permanent"}`, "fails for good"},
	{"PhabricatorTestWorker", `{"doWork":"fail-temporary","getWaitBeforeRetry":600}`, "fails, tries again in 600 s"},
	{"AcmeUnknownWorker", `[]`, "nothing here runs its class"},
}

func main() {
	keep := flag.Bool("keep", false, "keep the queue until Ctrl-C and say how to reach it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "gantry-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("Building gantry and handler-testworker, and starting a private MariaDB.")
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./cmd/...")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build (run this from the repository's top folder): %w", err)
	}
	server, err := scratch.Start(scratch.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := harness.CreateNamespace(server, "demo"); err != nil {
		return err
	}
	d := demo{ctx: ctx, dir: dir, dsn: server.DSN("demo_worker")}
	if err := os.WriteFile(d.manifest(), []byte(manifest), 0o600); err != nil {
		return err
	}
	if err := d.run(); err != nil || !keep {
		return err
	}
	fmt.Printf("\nThis queue is yours until Ctrl-C. In another shell:\n\n    export PATH=%s:$PATH GANTRY_DSN='%s' GANTRY_PLUGINS=%s\n    gantry tasks list\n",
		d.dir, d.dsn, d.manifest())
	<-ctx.Done()
	return nil
}

type demo struct {
	ctx      context.Context
	dir, dsn string
}

func (d demo) manifest() string { return filepath.Join(d.dir, "plugins.yaml") }

// ran is a command that has ended.
type ran struct {
	out  string // what it printed, as JSON
	log  string
	pid  int
	took time.Duration
}

// gantry runs a command of gantry.
func (d demo) gantry(args ...string) (ran, error) {
	cmd := exec.CommandContext(d.ctx, filepath.Join(d.dir, "gantry"), append(args, "--output", "json")...)
	cmd.Env = append(os.Environ(), "GANTRY_DSN="+d.dsn, "GANTRY_PLUGINS="+d.manifest(), "GANTRY_LOG_FORMAT=json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return ran{}, fmt.Errorf("gantry %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return ran{stdout.String(), stderr.String(), cmd.Process.Pid, time.Since(began)}, nil
}

func (d demo) run() error {
	if _, err := d.gantry("plugins", "pin"); err != nil {
		return err
	}
	queuer, err := d.gantry("tasks", "flood", "--count", fmt.Sprint(flood))
	if err != nil {
		return err
	}
	ids := make([]int64, len(chosen))
	for i, c := range chosen {
		enqueued, err := d.gantry("tasks", "enqueue", "--class", c.class, "--data", c.data)
		if err != nil {
			return err
		}
		var queued struct{ ID int64 }
		if err := json.Unmarshal([]byte(enqueued.out), &queued); err != nil {
			return fmt.Errorf("read what `gantry tasks enqueue` printed: %w", err)
		}
		ids[i] = queued.ID
	}
	fmt.Printf("Enqueued  %d tasks by `gantry tasks flood` (pid %d), %d by `gantry tasks enqueue`.\n", flood, queuer.pid, len(chosen))

	runner, err := d.gantry("run", "--until-empty")
	if err != nil {
		return err
	}
	var counts struct{ Leased, Succeeded, Retried, Failed, Lost int }
	if err := json.Unmarshal([]byte(runner.out), &counts); err != nil {
		return fmt.Errorf("read what `gantry run` printed: %w", err)
	}
	fmt.Printf("Leased    %d tasks by `gantry run` (pid %d).\n", counts.Leased, runner.pid)
	fmt.Printf("Executed  them by handler-testworker (pid %d), a go-plugin process of its own.\n", handlerPID(runner.log))
	fmt.Printf("Archived  %d: %d succeeded, %d failed. %d waits to be tried again, %d leases were lost.\n",
		counts.Succeeded+counts.Failed, counts.Succeeded, counts.Failed, counts.Retried, counts.Lost)
	fmt.Printf("All of it, start to stop, took %.1f s. In the tables now:\n\n", runner.took.Seconds())
	return d.table(ids)
}

// handlerPID finds the process id of the handler binary in gantry's log, 0
// when it is not there.
func handlerPID(log string) int {
	for line := range strings.Lines(log) {
		var entry struct {
			Message string
			PID     int
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "handler binary is ready" {
			return entry.PID
		}
	}
	return 0
}

func (d demo) table(ids []int64) error {
	store, err := phorge.Open(d.ctx, phorge.Config{DSN: d.dsn})
	if err != nil {
		return err
	}
	defer store.Close()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCLASS\tTASK\tLEASEOWNER\tFAILURES\tOUTCOME")
	for i, id := range append([]int64{1}, ids...) {
		why := "of the flood"
		if i > 0 {
			why = chosen[i-1].why
		}
		r, err := store.Get(d.ctx, id)
		if err != nil {
			return err
		}
		owner := "NULL"
		if r.Owner != nil {
			owner = *r.Owner
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\n", id, r.Class, why, owner, r.FailureCount, outcome(r))
	}
	return w.Flush()
}

func outcome(r tasks.Record) string {
	switch {
	case r.Archive == nil && r.Owner == nil:
		return "in the queue, untouched"
	case r.Archive == nil:
		return "in the queue, waiting"
	case r.Result == tasks.ResultSuccess:
		return fmt.Sprintf("archived: succeeded after %d µs", r.Duration)
	}
	return "archived: failed"
}
