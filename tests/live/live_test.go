// Package live holds the tests that need a stock Phorge: its taskmasters, its
// bin/worker and its phd work on the queue while Gantry does. They share one
// Phorge and follow one another; none runs in parallel.
package live

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// gantry is a runtime in this process on the queue of the live Phorge. It runs
// tasks of the class harness.LiveWorker, as PHP can.
type gantry struct {
	store   *phorge.Store
	work    *worker
	runtime *runtime.Runtime
	journal *journal
}

// startGantry starts one with so many slots; it is closed when the test ends.
func startGantry(t *testing.T, p *harness.Phorge, slots int) *gantry {
	t.Helper()
	store := openStore(t, p)
	return startGantryOn(t, store, store, slots)
}

// startGantryOn starts a runtime that sees a store through another.
func startGantryOn(t *testing.T, store *phorge.Store, through tasks.Store, slots int) *gantry {
	t.Helper()
	g := &gantry{store: store, work: newWorker(), journal: &journal{}}
	var err error
	g.runtime, err = runtime.New(runtime.Config{
		Store:   through,
		Classes: map[string]runtime.Class{harness.LiveWorker: {Executor: g.work}},
		Slots:   slots,
		Log:     zerolog.New(g.journal).Level(zerolog.InfoLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.runtime.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("what the runtime logged:\n%s", g.journal)
		}
	})
	return g
}

func openStore(t *testing.T, p *harness.Phorge) *phorge.Store {
	t.Helper()
	store, err := phorge.Open(t.Context(), phorge.Config{DSN: p.DSN(), Host: "live"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// enqueue queues n equal tasks from the Go side.
func (g *gantry) enqueue(t *testing.T, n int, task tasks.NewTask) []int64 {
	t.Helper()
	if task.Class == "" {
		task.Class = harness.LiveWorker
	}
	if task.Data == nil {
		task.Data = []byte("{}")
	}
	ids, err := g.store.Enqueue(t.Context(), slices.Repeat([]tasks.NewTask{task}, n))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// step is what one execution of a task does.
type step func(ctx context.Context) tasks.Outcome

func succeed(context.Context) tasks.Outcome { return tasks.Outcome{Kind: tasks.Succeeded} }

func comesTo(outcome tasks.Outcome) step {
	return func(context.Context) tasks.Outcome { return outcome }
}

// takes succeeds after so long.
func takes(d time.Duration) step {
	return func(ctx context.Context) tasks.Outcome {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return tasks.Outcome{Kind: tasks.Succeeded}
	}
}

// worker runs LiveWorker tasks in this process and counts the executions.
type worker struct {
	mu        sync.Mutex
	closed    bool
	otherwise step
	plans     map[int64][]step
	runs      map[int64]int
	cancelled map[int64]int
}

func newWorker() *worker {
	return &worker{otherwise: succeed, plans: map[int64][]step{}, runs: map[int64]int{}, cancelled: map[int64]int{}}
}

func (w *worker) Ready(string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closed
}

// open says whether tasks are taken; those that run go on.
func (w *worker) open(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = !yes
}

// plan says what the next executions of a task do; later ones succeed.
func (w *worker) plan(id int64, steps ...step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans[id] = steps
}

// normally says what an execution that is not planned does.
func (w *worker) normally(s step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.otherwise = s
}

func (w *worker) Execute(ctx context.Context, task tasks.Task, _ func(time.Duration)) tasks.Outcome {
	outcome := w.begin(task.ID)(ctx)
	if ctx.Err() != nil {
		w.mu.Lock()
		w.cancelled[task.ID]++
		w.mu.Unlock()
	}
	return outcome
}

func (w *worker) begin(id int64) step {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[id]++
	next := w.otherwise
	if plan := w.plans[id]; len(plan) > 0 {
		next, w.plans[id] = plan[0], plan[1:]
	}
	return next
}

func (w *worker) runsOf(id int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[id]
}

func (w *worker) cancelledOf(id int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancelled[id]
}

// allRuns answers how often each task was executed in this process.
func (w *worker) allRuns() map[int64]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.runs)
}

// gate holds executions until it is opened.
type gate struct {
	open    chan struct{}
	release func()
}

func newGate() gate {
	open := make(chan struct{})
	return gate{open, sync.OnceFunc(func() { close(open) })}
}

// step waits at the gate and succeeds.
func (g gate) step(ctx context.Context) tasks.Outcome {
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}

// journal is the log of a runtime.
type journal struct{ harness.Buffer }

// lost answers how many leases the runtime saw end, for each task.
func (j *journal) lost(t *testing.T) map[int64]int {
	t.Helper()
	lost := map[int64]int{}
	for line := range strings.Lines(j.String()) {
		var entry struct {
			ID      int64
			Message string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if strings.HasPrefix(entry.Message, "lease lost") {
			lost[entry.ID]++
		}
	}
	return lost
}
