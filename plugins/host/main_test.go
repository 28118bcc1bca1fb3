package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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

// handler is the path of testdata/handler, built once for all tests.
var handler string

func TestMain(m *testing.M) {
	if os.Getenv("HOST_MAIN") != "" {
		buildHandler()
		hostMain()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the handlers; the default is a second
	remove := buildHandler()
	code := m.Run()
	remove()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// buildHandler sets handler, unless the environment names one that is built
// already. The answered function removes it.
func buildHandler() (remove func()) {
	if handler = os.Getenv("HANDLER_BINARY"); handler != "" {
		return func() {}
	}
	dir, err := os.MkdirTemp("", "handler")
	if err != nil {
		panic(err)
	}
	handler = filepath.Join(dir, "handler")
	arguments := []string{"build", "-o", handler}
	if raceEnabled {
		arguments = append(arguments, "-race")
	}
	build := exec.Command("go", append(arguments, "./testdata/handler")...)
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build the test handler: %v\n%s", err, out))
	}
	return func() { os.RemoveAll(dir) }
}

// manifest answers a manifest of the test handler, that tells it how to start.
func manifest(t testing.TB, start string) *Manifest {
	t.Helper()
	t.Setenv("HANDLER_START", start)
	return manifestOf(t, handler)
}

// manifestOf answers a pinned manifest of a binary with the classes of the
// test handler.
func manifestOf(t testing.TB, path string) *Manifest {
	t.Helper()
	file, digest, err := openBinary(path)
	if err == nil {
		file.Close()
	}
	return &Manifest{Plugins: []Plugin{{
		Name:    "handler",
		Path:    path,
		SHA256:  digest,
		Env:     []string{"HANDLER_START", "GORACE"},
		Classes: map[string]Class{"Do": {}, "Alone": {}, "Limited": {}, "Nothing": {}},
	}}}
}

// start starts a host that is closed when the test ends. Its log is written to
// the answered buffer.
func start(t testing.TB, c Config) (*Host, *harness.Buffer) {
	t.Helper()
	log := &harness.Buffer{}
	c.Log = zerolog.New(log)
	if c.MinBackoff == 0 {
		c.MinBackoff = time.Millisecond
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h, log
}

// startReady starts a host and insists that its process runs.
func startReady(t testing.TB, c Config) (*Host, *harness.Buffer) {
	t.Helper()
	h, log := start(t, c)
	if !h.Ready("Do") {
		t.Fatalf("the handler is not ready: %s", h.List()[0].Problem)
	}
	return h, log
}

// run executes a task that does what order says.
func run(ctx context.Context, h *Host, class string, order map[string]any) tasks.Outcome {
	data, err := json.Marshal(order)
	if err != nil {
		panic(err)
	}
	return h.Execute(ctx, tasks.Task{ID: 7, Class: class, Data: data}, func(time.Duration) {})
}

// background runs a task and waits until its work has begun. The answered
// channel gives its outcome; the number is the process that works on it.
func background(t testing.TB, ctx context.Context, h *Host, order map[string]any) (<-chan tasks.Outcome, int) {
	t.Helper()
	started := filepath.Join(t.TempDir(), "started")
	order["started"] = started
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- run(ctx, h, "Do", order) }()
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
