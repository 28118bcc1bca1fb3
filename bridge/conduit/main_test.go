package conduit

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are waits for tests. None of them decides what comes out.
var quick = times{
	ask:        10 * time.Second,
	silence:    time.Hour,
	lookup:     time.Millisecond,
	lookupMost: 5 * time.Millisecond,
	pause:      time.Millisecond,
	pauseMost:  5 * time.Millisecond,
	toldMost:   5 * time.Millisecond,
	refresh:    time.Hour,
	patience:   time.Hour,
}

// impatient is configured for a server that may never answer a run.
func impatient(p *phorge) Config {
	c := configured(p)
	c.times.silence = time.Millisecond
	return c
}

// configured answers the configuration for a stub.
func configured(p *phorge) Config {
	return Config{URL: p.URL, Namespace: "phorge", KeyID: testKeyID, Key: testKey, times: quick}
}

// start starts an executor that is closed when the test ends, and insists that
// it becomes ready. Its log is in the answered buffer.
func start(t *testing.T, c Config) (*Executor, *harness.Buffer) {
	t.Helper()
	e, log := startAny(t, c)
	if !e.Ready("PhabricatorTestWorker") {
		t.Fatalf("not ready: %s", e.State().Problem)
	}
	return e, log
}

func startAny(t *testing.T, c Config) (*Executor, *harness.Buffer) {
	t.Helper()
	log := &harness.Buffer{}
	c.Log = zerolog.New(log)
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Close()
		mustHideTheKey(t, log)
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, log
}

var lastID atomic.Int64

// leased answers a task that is leased in the stub.
func (p *phorge) leased() tasks.Task { return p.leasedOf("PhabricatorTestWorker") }

func (p *phorge) leasedOf(class string) tasks.Task {
	id := lastID.Add(1)
	task := tasks.Task{ID: id, Class: class, Lease: &tasks.Lease{Owner: fmt.Sprintf("gantry:%d:0:nonce:host", id)}}
	p.locked(func() { p.leases[ref(task)] = true })
	return task
}

func ref(task tasks.Task) taskRef { return (&job{task: task}).ref() }

// execute runs a task to its end.
func execute(t *testing.T, e *Executor, task tasks.Task) tasks.Outcome {
	t.Helper()
	return await(t, background(t.Context(), e, task))
}

// background begins to run a task.
func background(ctx context.Context, e *Executor, task tasks.Task) <-chan tasks.Outcome {
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- e.Execute(ctx, task, func(time.Duration) {}) }()
	return outcome
}

func await(t *testing.T, outcome <-chan tasks.Outcome) tasks.Outcome {
	t.Helper()
	select {
	case o := <-outcome:
		return o
	case <-time.After(30 * time.Second):
		t.Fatal("no outcome came")
		panic("unreachable")
	}
}

// want fails the test unless an outcome is of a kind and its reason has a text
// in it.
func want(t *testing.T, got tasks.Outcome, kind tasks.Kind, text string) {
	t.Helper()
	if got.Kind != kind || !strings.Contains(got.Reason, text) {
		t.Fatalf("outcome %s: %q; want %s with %q", got.Kind, got.Reason, kind, text)
	}
}

// eventually waits for a condition, and fails the test when it does not come
// true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func mustHideTheKey(t *testing.T, log *harness.Buffer) {
	t.Helper()
	if strings.Contains(log.String(), testKey) {
		t.Errorf("the log has the key: %s", log)
	}
}
