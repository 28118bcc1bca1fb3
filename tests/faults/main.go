// Command faults proves that nothing is lost and nothing is done twice when
// everything around the queue dies: it kills the runtime, handler processes and
// MariaDB with SIGKILL, at random moments, while tasks drain that succeed, fail,
// are tried again, yield and queue follow-ups; and it stops a runtime until its
// leases are somebody else's, and lets it go on. Where a Phorge is installed,
// every third round has tasks that run in PHP as well, in resident processes and
// through worker.execute, and those, php-fpm, its children and nginx die too.
//
// Then come five minutes in which the queue is used over HTTP as well: two API
// servers, ten workers that call them, two runtimes and MariaDB die at random
// moments, and tasks are queued all the time.
//
//	go run ./tests/faults                    # thirty rounds of 20,000 tasks, and five minutes
//	go run ./tests/faults --seed 42          # the same tasks and the same kills again, as far as chance allows
//	go run ./tests/faults --http --minutes 1 # one minute over HTTP, and no more
//
// The processes are real ones. The API servers are `gantry serve`; the others are
// this program in four roles: the driver (round.go, http.go) starts runtimes
// (runtime.go), which start handlers (handler.go), and workers (worker.go).
// The runtimes and workers record what they ask of the store or the API and what
// they execute, and the handlers record what they do, in files that survive a kill. At the end of a
// round the proof (proof.go) reads all of it, and every row of the database.
//
// build/faults.json holds the results. One violation makes the exit code 1.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func main() {
	if playRole() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := options{drain: fullDrain, out: "build/faults.json"}
	flag.IntVar(&options.rounds, "rounds", 30, "`number` of rounds")
	flag.IntVar(&options.tasks, "tasks", 20_000, "`number` of tasks a round")
	minutes := flag.Float64("minutes", 5, "`number` of minutes over HTTP, after the rounds")
	http := flag.Bool("http", false, "the minutes over HTTP alone")
	flag.Uint64Var(&options.seed, "seed", rand.Uint64(), "`number` that the tasks and the kills follow from")
	flag.StringVar(&options.out, "out", options.out, "`file` for the results")
	flag.Parse()
	options.http = time.Duration(*minutes * float64(time.Minute))
	if *http {
		options.rounds = 0
	}
	r, err := run(ctx, options, os.Stderr)
	if err == nil && len(r.Violations) > 0 {
		err = fmt.Errorf("%d violations", len(r.Violations))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds int
	tasks  int
	drain  time.Duration // how long an undisturbed runtime works on a round
	http   time.Duration // length of the round over HTTP
	seed   uint64
	out    string
}

// results is what build/faults.json holds.
type results struct {
	Seed             uint64         `json:"seed"`
	Rounds           int            `json:"rounds"`
	HTTP             string         `json:"http,omitempty"` // how long the queue was used over HTTP as well
	Tasks            int            `json:"tasks"`          // follow-ups included
	Executions       int            `json:"executions"`
	ExecutionsHTTP   int            `json:"executions_http"` // of these, by callers of the API
	Lost             int            `json:"lost"`
	Doubled          int            `json:"doubled"`
	Repeats          int            `json:"repeats"`           // executions after a task's first
	RepeatsExplained int            `json:"repeats_explained"` // of these
	RepeatsAsked     int            `json:"repeats_asked"`     // because an outcome asked for it: a retry, a yield, the crash of a handler
	RepeatsLost      int            `json:"repeats_lost"`      // because the lease ended without an outcome
	Kills            map[string]int `json:"kills"`
	Pauses           int            `json:"pauses"`            // of a runtime, for longer than its leases last
	Mixed            int            `json:"mixed"`             // rounds with PHP
	Skipped          string         `json:"skipped,omitempty"` // why there were none
	Violations       []string       `json:"violations"`
}

// run runs the rounds and writes the results, those of a broken run as well.
func run(ctx context.Context, o options, progress io.Writer) (sum results, err error) {
	fmt.Fprintf(progress, "seed %d: %d rounds of %d tasks\n", o.seed, o.rounds, o.tasks)
	sum = results{Seed: o.seed, Kills: map[string]int{}, Violations: []string{}}
	server, err := scratch.Start(scratch.Options{})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if o.rounds > 0 {
		err = playRounds(ctx, o, server, &sum, progress)
	}
	if err == nil && o.http > 0 {
		err = runHTTP(ctx, o, server, &sum, progress)
	}
	return sum, err
}

// playRounds plays those without the API.
func playRounds(ctx context.Context, o options, server *scratch.MariaDB, sum *results, progress io.Writer) (err error) {
	php, err := startPHP(server)
	switch {
	case errors.Is(err, harness.ErrNoPhorge):
		sum.Skipped = err.Error()
		fmt.Fprintf(progress, "NO FAULTS OF PHP ARE MADE, and so nothing is proven of them: %v\n", err)
	case err != nil:
		return err
	default:
		defer func() { err = errors.Join(err, php.stop()) }()
	}
	for n := range o.rounds {
		round, err := newRound(n, o, server, php)
		if err != nil {
			return err
		}
		found, err := round.play(ctx)
		if err != nil {
			return fmt.Errorf("round %d of seed %d, in %s: %w", n+1, o.seed, round.dir, err)
		}
		sum.Rounds++
		if err := sum.note(fmt.Sprintf("round %d", n+1), round, found, o.out, progress); err != nil {
			return err
		}
	}
	return nil
}

// note takes what a round found into the results.
func (r *results) note(name string, round *round, found findings, file string, progress io.Writer) error {
	r.add(round, found)
	fmt.Fprintf(progress, "%s: %d tasks, %d executions (%d over HTTP), %d repeats (%d asked for, %d after a lost lease), kills %v, %d pauses, %d violations\n",
		name, found.Tasks, found.Executions, found.byCallers, found.Repeats, found.Asked, found.Lost, round.kills, round.pauses, len(found.violations))
	for _, v := range found.violations {
		fmt.Fprintln(progress, "  VIOLATION:", v)
	}
	if len(found.violations) > 0 {
		fmt.Fprintln(progress, "  the records of the round stay in", round.dir)
	} else if err := round.remove(); err != nil {
		return err
	}
	return r.write(file)
}

func (r *results) add(round *round, found findings) {
	if round.php != nil {
		r.Mixed++
	}
	r.Tasks += found.Tasks
	r.Executions += found.Executions
	r.ExecutionsHTTP += found.byCallers
	r.Lost += found.missing
	r.Doubled += found.doubled
	r.Repeats += found.Repeats
	r.RepeatsAsked += found.Asked
	r.RepeatsLost += found.Lost
	r.RepeatsExplained += found.Repeats - found.Count(storetest.RanTwice)
	r.Pauses += round.pauses
	for kind, n := range round.kills {
		r.Kills[kind] += n
	}
	r.Violations = append(r.Violations, found.violations...)
}

func (r *results) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
