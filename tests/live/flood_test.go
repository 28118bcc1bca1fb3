package live

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

const module = "github.com/phorge-gantry/gantry/"

func TestTheGantryBinaryDrainsBinWorkerFlood(t *testing.T) {
	const enough = 500
	p := harness.Live(t)
	q := openQueue(t, p)
	run := startBinary(t, p)

	flooding, dam := context.WithCancel(t.Context())
	defer dam()
	flood := make(chan error, 1)
	go func() {
		_, err := p.Bin(flooding, "worker", "flood")
		flood <- err
	}()
	harness.Eventually(t, "the flood is drained while it comes", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_archivetask") >= enough
	})
	dam()
	if err := <-flood; !errors.Is(err, context.Canceled) {
		t.Fatalf("bin/worker flood ended by itself: %v", err)
	}
	q.drained(t)
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("gantry run ended with %v", err)
	}
	owners := q.owners(t)
	for id, owner := range owners {
		if !strings.HasPrefix(owner, "gantry:") {
			t.Errorf("task %d was archived by %s", id, owner)
		}
	}
	t.Logf("%d tasks of bin/worker flood drained by a handler binary", len(owners))
}

// startBinary starts `gantry run` on the Phorge, as an administrator would, with
// handler-testworker for PhabricatorTestWorker.
func startBinary(t *testing.T, p *harness.Phorge) *exec.Cmd {
	t.Helper()
	dir := buildBinaries(t)
	manifest := filepath.Join(dir, "plugins.yaml")
	const text = "plugins:\n  - path: handler-testworker\n    classes:\n      PhabricatorTestWorker: {}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gantry := filepath.Join(dir, "gantry")
	for _, command := range [][]string{
		{gantry, "plugins", "pin", "--plugins", manifest},
		{gantry, "config", "check", "--phorge", p.Root(), "--plugins", manifest},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return startGantryRun(t, gantry, "--phorge", p.Root(), "--plugins", manifest)
}

// buildBinaries answers a directory with gantry and handler-testworker.
func buildBinaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "build", "-o", dir, module+"cmd/gantry", module+"cmd/handler-testworker")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return dir
}

// startGantryRun starts `gantry run`, which is killed when the test ends.
func startGantryRun(t *testing.T, gantry string, args ...string) *exec.Cmd {
	t.Helper()
	var log bytes.Buffer
	run := exec.Command(gantry, append([]string{"run"}, args...)...)
	run.Stderr = &log
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if run.ProcessState == nil {
			_ = run.Process.Kill()
			_ = run.Wait()
		}
		if t.Failed() {
			t.Logf("what gantry logged:\n%s", &log)
		}
	})
	return run
}
