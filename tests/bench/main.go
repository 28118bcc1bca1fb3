// Command bench measures Gantry against what lies under it and against stock
// Phorge: one table from one run, on one server, with durable commits.
//
//	go run ./tests/bench                                # everything, about half an hour
//	go run ./tests/bench --quick                        # does it work at all; the figures mean nothing
//	go run ./tests/bench --rows drain_plugin,pickup_p99 # these, and what they are compared with
//
// Everything that is compared is measured in turn, round after round, so that a
// machine which slows down slows all of it down, and a ratio compares what was
// measured in the same round. The table shows medians over the rounds;
// build/bench.json holds every sample. A target that is missed is printed as
// missed, and is no error.
//
// floor.go holds what Gantry is compared with: the same row changes in the same
// batches, written as fast as the server takes them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"
)

// scale is how much is measured.
type scale struct {
	rounds  int // alternations
	tasks   int // drained, and queued in batches, by each measurement of a rate
	stock   int // the same for stock Phorge, which is slow
	singles int // queued one by one
	pickups int // tasks that are queued into an idle queue and waited for
	idle    time.Duration

	shallow, queued, archived int // rows, for what must not depend on depth
	leases                    int // calls whose latency is taken
	few, many                 int // tasks of queues whose claims are compared
	memory                    time.Duration

	// of PHP: tasks through one or twenty a call, calls of ping, indexing, calls
	// of webhooks, and tasks that a process serves in its life
	single, batched, calls, objects, searches, webhooks, served int

	passed int // calls of Conduit through a proxy
}

var (
	full = scale{
		rounds: 5, tasks: 30_000, stock: 30_000, singles: 3000, pickups: 100, idle: 10 * time.Second,
		shallow: 10_000, queued: 1_000_000, archived: 2_000_000, leases: 100, few: 1000, many: 1_000_000, memory: 10 * time.Second,
		single: 400, batched: 6000, calls: 400, objects: 100, searches: 1000, webhooks: 200, served: 20_000,
		passed: 100_000,
	}
	quick = scale{
		rounds: 1, tasks: 2000, stock: 200, singles: 100, pickups: 5, idle: time.Second,
		shallow: 2000, queued: 4000, archived: 4000, leases: 10, few: 100, many: 4000, memory: time.Second,
		single: 20, batched: 100, calls: 20, objects: 5, searches: 20, webhooks: 8, served: 400,
		passed: 1600,
	}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	quickly := flags.Bool("quick", false, "few tasks, one round: shows that everything works; the figures mean nothing")
	only := flags.String("rows", "", "comma-separated `names` of the rows to measure; all when empty")
	file := flags.String("out", "build/bench.json", "`file` for the results")
	profile := flags.String("profile", "", "`file` for a CPU profile of this process")
	size := full
	rounds := flags.Int("rounds", 0, "`number` of alternations; 5, or 1 with --quick, when 0")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quickly {
		size = quick
	}
	if *rounds > 0 {
		size.rounds = *rounds
	}
	t := newTable()
	wanted, err := t.choose(*only)
	if err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b, err := newBench(size, t, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.measure(ctx, wanted); err != nil {
		return err
	}
	if err := b.describe(ctx, out); err != nil {
		return err
	}
	t.print(out)
	return t.write(*file)
}
