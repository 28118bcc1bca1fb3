package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// serverArgs are the same for every row: a server that keeps the queue in
// memory and does not stop for checkpoints. Commits are durable. Unlike other
// servers of tests, it counts no rows that are written.
var serverArgs = []string{
	"--innodb-flush-log-at-trx-commit=1",
	"--innodb-buffer-pool-size=2G",
	"--innodb-log-file-size=1G",
	"--max-connections=200",
	"--skip-log-bin",
	"--userstat=0",
}

// bench is what the measurements share.
type bench struct {
	scale
	table    *table
	progress io.Writer
	wanted   map[string]bool

	dir      string // built programs, manifest
	server   *scratch.MariaDB
	phorge   *harness.Phorge   // nil when there is none
	web      *harness.Web      // before phorge
	key      harness.Key       // of worker.execute
	phids    []string          // to index
	receiver *harness.Receiver // of webhooks
	hooks    *harness.Webhooks
	toPHP    ways
	toBare   ways
	queue    *queue // of Gantry and the floor
	stock    *queue // of phorge
	deep     *queue // with the backlog and the archive
	api      *api   // on queue; nil until a row wants it
	redis    map[string]*harness.Redis
	claimed  map[string]func(ctx context.Context) (claimable, error) // by row
	cleanup  []func() error
}

// measurement measures some rows once.
type measurement struct {
	rows []string
	run  func(ctx context.Context) error
}

func newBench(size scale, t *table, progress io.Writer) (b *bench, err error) {
	b = &bench{scale: size, table: t, progress: progress}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "gantry-bench-"); err != nil {
		return nil, err
	}
	b.atClose(func() error { return os.RemoveAll(b.dir) })
	if b.server, err = scratch.Start(scratch.Options{Args: serverArgs}); err != nil {
		return nil, err
	}
	b.atClose(b.server.Stop)
	if b.queue, err = b.namespace("bench"); err != nil {
		return nil, err
	}
	return b, b.build()
}

func (b *bench) atClose(f func() error) { b.cleanup = append(b.cleanup, f) }

func (b *bench) close() error {
	var errs []error
	for _, f := range slices.Backward(b.cleanup) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// namespace makes a worker database.
func (b *bench) namespace(name string) (*queue, error) {
	if err := harness.CreateNamespace(b.server, name); err != nil {
		return nil, err
	}
	return b.open(b.server.DSN(name + "_worker"))
}

func (b *bench) open(dsn string) (*queue, error) {
	q, err := openQueue(dsn)
	if err != nil {
		return nil, err
	}
	b.atClose(q.db.Close)
	return q, nil
}

// build builds the programs that are measured as processes of their own.
func (b *bench) build() error {
	const module = "github.com/phorge-gantry/gantry/"
	cmd := exec.Command("go", "build", "-o", b.dir+"/", module+"cmd/gantry", module+"cmd/handler-testworker", module+"cmd/handler-herald")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return errors.Join(
		b.writeManifest("plugins.yaml", "handler-testworker", class, ""),
		b.writeManifest("herald.yaml", "handler-herald", harness.WebhookWorker, "    phorge: true\n"))
}

// measure makes two series of alternations: rates and latencies, and then what
// must not depend on the depth of the queue, because a million rows are in the
// way of everything else. What is compared with stock Phorge stands beside it.
func (b *bench) measure(ctx context.Context, wanted map[string]bool) error {
	b.wanted = wanted
	if err := b.series(ctx, "rates", b.installPhorge, []measurement{
		{floors[:1], b.drainFloor(1)},
		{floors[1:2], b.drainFloor(2)},
		{floors[2:], b.drainFloor(4)},
		{[]string{"drain_in_process"}, b.drainInProcess},
		{[]string{"drain_plugin"}, b.drainPlugin},
		{stocks[:1], b.drainStock(1)},
		{[]string{"drain_pool_1"}, b.drainPool(1)},
		{stocks[1:], b.drainStock(4)},
		{[]string{"drain_pool_4"}, b.drainPool(4)},
		{[]string{"search_stock"}, b.searchStock},
		{[]string{"search_pool"}, b.searchPool},
		{[]string{"webhook_pool_4"}, b.webhooksPool(4)},
		{[]string{"webhook_go"}, b.webhooksGo},
		{[]string{"ping_1"}, b.ping(1)},
		{[]string{"conduit_1"}, b.drainConduit("conduit_1", 1, 1, b.single)},
		{[]string{"ping_4"}, b.ping(4)},
		{[]string{"conduit_4"}, b.drainConduit("conduit_4", 4, 1, b.single)},
		{[]string{"conduit_20_a_call"}, b.drainConduit("conduit_20_a_call", 4, 20, b.batched)},
		{[]string{"pool_memory_early", "pool_memory_late"}, b.poolMemory},
		{[]string{"enqueue_floor_1"}, b.enqueueFloor(1)},
		{[]string{"enqueue_floor_2"}, b.enqueueFloor(2)},
		{[]string{"enqueue_floor_4"}, b.enqueueFloor(4)},
		{[]string{"enqueue_batched"}, b.enqueueBatched},
		{[]string{"enqueue_single"}, b.enqueueSingle},
		{[]string{"enqueue_stock"}, b.enqueueStock},
		b.enqueueRaw("enqueue_raw_16"),
		b.enqueueRaw("enqueue_raw_16_at_once"),
		b.enqueueRaw("enqueue_rows_16"),
		b.enqueueHTTP("enqueue_http_16", 4*b.singles, 1, singleClients),
		b.enqueueHTTP("enqueue_http_batched", b.tasks, enqueueBatch, enqueueCallers),
		{[]string{"work_http"}, b.workHTTP},
		{[]string{"idle_database_cpu", "pickup_p50", "pickup_p99"}, b.idleQueue},
	}); err != nil {
		return err
	}
	if err := b.series(ctx, "gateway", b.startGateways, b.throughGateways()); err != nil {
		return err
	}
	if err := b.series(ctx, "redis", b.startRedis, b.onRedis()); err != nil {
		return err
	}
	if err := b.series(ctx, "claims", b.fillClaims, b.claims()); err != nil {
		return err
	}
	return b.series(ctx, "depth", b.fillDeep, []measurement{
		{[]string{"drain_shallow"}, b.drainShallow},
		{[]string{"drain_deep"}, b.drainDeep},
		{[]string{"lease_shallow", "lease_deep"}, b.leaseLatencies},
		{[]string{"memory_resident", "memory_peak"}, b.memoryOfRun},
	})
}

// series measures what is wanted, in turn, round after round.
func (b *bench) series(ctx context.Context, name string, prepare func(context.Context) error, all []measurement) error {
	var due []measurement
	for _, m := range all {
		if slices.ContainsFunc(m.rows, func(row string) bool { return b.wanted[row] }) {
			due = append(due, m)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, m := range due {
			if err := m.run(ctx); err != nil {
				return fmt.Errorf("%s, round %d, %s: %w", name, round+1, m.rows[0], err)
			}
			for _, row := range m.rows {
				b.say("%s %d/%d: %s", name, round+1, b.rounds, b.table.latest(row))
			}
		}
	}
	return nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// installPhorge prepares the comparison with stock Phorge, where there is one.
func (b *bench) installPhorge(ctx context.Context) error {
	if !slices.ContainsFunc(b.table.rows, func(r *row) bool { return r.phorge && b.wanted[r.name] }) {
		return nil
	}
	b.say("installing a stock Phorge on the same server")
	phorge, err := harness.InstallPhorge(b.server, "stock")
	if errors.Is(err, harness.ErrNoPhorge) {
		b.say("NOTHING IS COMPARED WITH STOCK PHORGE: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	b.phorge = phorge
	b.atClose(phorge.Remove)
	if b.stock, err = b.open(phorge.DSN()); err != nil {
		return err
	}
	return b.preparePHP(ctx)
}

// described are the settings of the server that decide what a commit costs.
var described = []string{
	"version", "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_doublewrite",
	"innodb_buffer_pool_size", "innodb_log_file_size", "log_bin",
}

// describe says under what circumstances the table came about.
func (b *bench) describe(ctx context.Context, out io.Writer) error {
	var settings []string
	for _, name := range described {
		var value string
		if err := b.queue.db.QueryRowContext(ctx, "SELECT @@"+name).Scan(&value); err != nil {
			return err
		}
		settings = append(settings, name+"="+value)
	}
	fmt.Fprintf(out, "%d CPUs, %s, one server for all rows: %s\n", runtime.NumCPU(), runtime.Version(), strings.Join(settings, " "))
	fmt.Fprintf(out, "medians of %d alternations; %d tasks a drain, leased by %d and settled by %d, by the floor as by the runtime\n\n",
		b.rounds, b.tasks, leaseBatch, settleBatch)
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.dir, name) }
