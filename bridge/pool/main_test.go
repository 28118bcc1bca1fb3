package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "fake-host":
			fakeHost(os.Args[2])
			return
		case "fake-orphan":
			fakeOrphan(os.Args[2], os.Args[3])
			return
		case "fake-gantry":
			fakeGantry(os.Args[2])
			return
		}
	}
	harness.Main(m)
}

// fake is how the processes of a test's pool start: what is in the file when
// one starts is what it does. See fakeHost.
type fake struct {
	t    testing.TB
	file string
}

func newFake(t testing.TB, start string) fake {
	f := fake{t, filepath.Join(t.TempDir(), "start")}
	f.starts(start)
	return f
}

// starts says what processes do that start from now on.
func (f fake) starts(how string) {
	f.t.Helper()
	if err := os.WriteFile(f.file+".new", []byte(how), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.file+".new", f.file); err != nil {
		f.t.Fatal(err)
	}
}

func (f fake) command() []string { return []string{os.Args[0], "fake-host", f.file} }

// start starts a pool of fake processes that is closed when the test ends.
func (f fake) start(c Config) (*Pool, *harness.Buffer) {
	f.t.Helper()
	c.Command = f.command()
	if c.MinBackoff == 0 {
		c.MinBackoff = time.Millisecond
	}
	return start(f.t, c)
}

// start starts a pool that is closed when the test ends, and insists that it
// leaves nothing.
func start(t testing.TB, c Config) (*Pool, *harness.Buffer) {
	t.Helper()
	if c.MinService == 0 {
		c.MinService = 1
	}
	log := &harness.Buffer{}
	c.Log = zerolog.New(log)
	before := goleak.IgnoreCurrent()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, log
}

// startReady starts a pool of fake processes and insists that they run.
func startReady(t testing.TB, c Config) (*Pool, *harness.Buffer) {
	t.Helper()
	p, log := newFake(t, "").start(c)
	if !p.Ready("Do") {
		t.Fatalf("the pool is not ready: %s", p.State().Problem)
	}
	return p, log
}

// taskOf answers a task that does what order says.
func taskOf(order map[string]any) tasks.Task {
	data, err := json.Marshal(order)
	if err != nil {
		panic(err)
	}
	return tasks.Task{ID: 7, Class: "Do", Data: data}
}

func run(ctx context.Context, p *Pool, order map[string]any) tasks.Outcome {
	return p.Execute(ctx, taskOf(order), func(time.Duration) {})
}

// background runs a task and waits until its work has begun. The answered
// channel gives its outcome; the number is the process that works on it.
func background(t testing.TB, ctx context.Context, p *Pool, order map[string]any) (<-chan tasks.Outcome, int) {
	t.Helper()
	started := filepath.Join(t.TempDir(), "started")
	order["started"] = started
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- run(ctx, p, order) }()
	return outcome, readPID(t, started)
}

// readPID waits for a file with a process id.
func readPID(t testing.TB, file string) int {
	t.Helper()
	var pid int
	eventually(t, "a process writes "+file, func() bool {
		content, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(content))
		return pid > 0
	})
	return pid
}

// eventually waits for a condition, and fails the test when it does not come
// true.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// alive reports whether a process runs; one that is only waiting to be reaped
// does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// want fails the test unless an outcome is of a kind and its reason has a text
// in it.
func want(t testing.TB, got tasks.Outcome, kind tasks.Kind, text string) {
	t.Helper()
	if got.Kind != kind || !strings.Contains(got.Reason, text) {
		t.Fatalf("outcome %s: %q; want %s with %q", got.Kind, got.Reason, kind, text)
	}
}

// pids answers the processes that are in a phase.
func pids(p *Pool, phase Phase) (found []int) {
	for _, process := range p.State().Processes {
		if process.Phase == phase {
			found = append(found, process.PID)
		}
	}
	return found
}

func itoa(n int) string { return strconv.Itoa(n) }

// octal answers the flags in a file of /proc/<pid>/fdinfo.
func octal(info string) int64 {
	_, after, _ := strings.Cut(info, "flags:")
	line, _, _ := strings.Cut(after, "\n")
	flags, err := strconv.ParseInt(strings.TrimSpace(line), 8, 64)
	if err != nil {
		panic(err)
	}
	return flags
}
