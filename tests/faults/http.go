package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
	library "github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// What stands around one queue while it is used over HTTP, beside two runtimes.
const (
	apiServers = 2
	apiWorkers = 10
)

const (
	// produceBatch tasks are queued every produceEvery, over HTTP and without it
	// in turn, while fewer than produceMost are in the queue.
	produceBatch = 20
	produceEvery = 80 * time.Millisecond
	produceMost  = 4000

	// taskTime is how long a task takes on average.
	taskTime = 60 * time.Millisecond

	// strikeEvery is the time between two kills on average, of which each
	// mariadbEvery-th, on average, is one of the database.
	strikeEvery  = 600 * time.Millisecond
	mariadbEvery = 20
)

// web is what stands around the queue of a round over HTTP.
type web struct {
	*round
	addresses []string
	runtimes  []*seat
	servers   []*seat
	workers   []*seat
}

// playHTTP plays a round in which API servers and their callers die as well, for
// so long, and then lets the queue become empty and proves.
func (r *round) playHTTP(ctx context.Context, length time.Duration) (found findings, err error) {
	if _, err := phorge.UpgradeStorage(ctx, r.dsn, library.Library); err != nil {
		return findings{}, err
	}
	w, err := r.surround()
	if err != nil {
		return findings{}, err
	}
	store, err := phorge.Open(ctx, phorge.Config{DSN: r.dsn})
	if err != nil {
		return findings{}, errors.Join(err, w.stop())
	}
	defer store.Close()
	most, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	produced := make(chan error, 1)
	rng := r.fork() // here, because the round's own is for one goroutine
	go func() { produced <- w.produce(most, store, rng) }()
	err = w.strikeOn(ctx, length)
	err = errors.Join(err, <-produced)
	if err == nil {
		err = r.awaitEmpty(ctx)
	}
	if err := errors.Join(err, w.stop()); err != nil {
		return findings{}, err
	}
	return r.prove(ctx)
}

// surround starts everything.
func (r *round) surround() (*web, error) {
	binary := filepath.Join(r.dir, "gantry")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/phorge-gantry/gantry/cmd/gantry").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, out)
	}
	w := &web{round: r}
	for range apiServers {
		port, err := scratch.FreePort()
		if err != nil {
			return nil, err
		}
		w.addresses = append(w.addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	for n, address := range w.addresses {
		w.servers = append(w.servers, r.occupy(fmt.Sprintf("server%d", n+1), r.fork(), func(func(string) string) (*exec.Cmd, error) {
			cmd := exec.Command(binary, "serve", "--api", address, "--api-lease", apiLease.String())
			cmd.Env = append(os.Environ(), "GANTRY_DSN="+r.dsn)
			return cmd, nil
		}))
	}
	for _, name := range []string{"a", "b"} {
		w.runtimes = append(w.runtimes, r.occupy(name, r.fork(), r.runtime))
	}
	for n := range apiWorkers {
		name := fmt.Sprintf("worker%d", n+1)
		w.workers = append(w.workers, r.occupy(name, r.fork(), func(file func(string) string) (*exec.Cmd, error) {
			return r.role(file, workerVariable+"="+name, addressesVariable+"="+strings.Join(w.addresses, " "))
		}))
	}
	return w, nil
}

// stop ends everything, the servers last.
func (w *web) stop() error {
	var errs []error
	for _, seats := range [][]*seat{w.workers, w.runtimes, w.servers} {
		for _, s := range seats {
			errs = append(errs, s.stop())
		}
	}
	return errors.Join(errs...)
}

// produce queues tasks while servers and the database may be down.
func (w *web) produce(ctx context.Context, store *phorge.Store, rng *rand.Rand) error {
	history, err := storetest.OpenHistory(filepath.Join(w.dir, "history-producer"))
	if err != nil {
		return err
	}
	defer history.Close()
	queues := []tasks.Store{
		storetest.NewRecorder(store, history),
		storetest.NewCallerRecorder(&caller{name: "producer", addresses: w.addresses}, history),
	}
	drain := produceBatch * taskTime / runtime.DefaultSlots
	for n := 0; pause(ctx, produceEvery) == nil; n++ {
		var queued int
		if err := w.db.QueryRow(`SELECT COUNT(*) FROM worker_activetask`).Scan(&queued); err == nil && queued > produceMost {
			continue
		}
		batch := makeWork(rng, class, runtime.DefaultSlots, produceBatch, len(w.work), time.Now(), drain)
		w.work = append(w.work, batch...)
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		_, err := queues[n%len(queues)].Enqueue(call, newTasks(batch))
		cancel()
		if err != nil {
			w.unsure = append(w.unsure, batch)
		}
	}
	return nil
}

// strikeOn kills something at random moments, for so long.
func (w *web) strikeOn(ctx context.Context, length time.Duration) error {
	kinds := []string{"worker", "worker", "worker", "worker", "server", "server", "runtime", "runtime", "handler"}
	rng := w.fork()
	for end := time.Now().Add(length); time.Now().Before(end); {
		if err := pause(ctx, time.Duration(rng.ExpFloat64()*float64(strikeEvery))); err != nil {
			return err
		}
		kind := kinds[rng.IntN(len(kinds))]
		if rng.IntN(mariadbEvery) == 0 {
			kind = "mariadb"
		}
		var err error
		switch kind {
		case "worker":
			w.killOne(kind, w.workers, rng.IntN(apiWorkers))
		case "server":
			w.killOne(kind, w.servers, rng.IntN(apiServers))
		default:
			err = w.strike(ctx, kind, w.runtimes[rng.IntN(len(w.runtimes))])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killOne kills a process, if there is one at the moment.
func (w *web) killOne(kind string, seats []*seat, n int) {
	if seats[n].kill() {
		w.kills[kind]++
	}
}

// runHTTP is the round over HTTP.
func runHTTP(ctx context.Context, o options, server *scratch.MariaDB, sum *results, progress io.Writer) error {
	o.tasks = 0
	r, err := newRound(o.rounds, o, server, nil)
	if err != nil {
		return err
	}
	found, err := r.playHTTP(ctx, o.http)
	if err != nil {
		return fmt.Errorf("over HTTP, seed %d, in %s: %w", o.seed, r.dir, err)
	}
	sum.HTTP = o.http.String()
	return sum.note(fmt.Sprintf("%s over HTTP", o.http), r, found, o.out, progress)
}
