package live

import (
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
	gantry, args := pinned(t, p, "handler-testworker", "    classes:\n      PhabricatorTestWorker: {}\n")
	run := startGantryRun(t, gantry, args...)

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
	if err := run.stop(); err != nil {
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

// pinned makes a manifest for a handler binary, as an administrator would, and
// answers gantry and what it is to be told of the Phorge and the manifest. The
// entry is what the manifest says of the binary.
func pinned(t *testing.T, p *harness.Phorge, handler, entry string) (gantry string, args []string) {
	t.Helper()
	dir := buildBinaries(t, handler)
	manifest := filepath.Join(dir, "plugins.yaml")
	if err := os.WriteFile(manifest, []byte("plugins:\n  - path: "+handler+"\n"+entry), 0o600); err != nil {
		t.Fatal(err)
	}
	gantry = filepath.Join(dir, "gantry")
	for _, command := range [][]string{
		{gantry, "plugins", "pin", "--plugins", manifest},
		{gantry, "config", "check", "--phorge", p.Root(), "--plugins", manifest},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return gantry, []string{"--phorge", p.Root(), "--plugins", manifest}
}

// buildBinaries answers a directory with gantry and handler binaries.
func buildBinaries(t *testing.T, handlers ...string) string {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", module+"cmd/gantry")
	for _, handler := range handlers {
		command.Args = append(command.Args, module+"cmd/"+handler)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return dir
}

// gantryRun is a process of `gantry run`, or of another command that works on.
type gantryRun struct {
	*exec.Cmd
	log *harness.Buffer
}

// startGantryRun starts `gantry run`, which is killed when the test ends.
func startGantryRun(t *testing.T, gantry string, args ...string) gantryRun {
	t.Helper()
	return startCommand(t, gantry, append([]string{"run"}, args...)...)
}

func startCommand(t *testing.T, gantry string, args ...string) gantryRun {
	t.Helper()
	log := &harness.Buffer{}
	run := exec.Command(gantry, args...)
	run.Stderr = log
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
			t.Logf("what gantry logged:\n%s", log)
		}
	})
	return gantryRun{run, log}
}

// stop lets it end what it does, and answers how it ended.
func (r gantryRun) stop() error {
	return errors.Join(r.Process.Signal(syscall.SIGTERM), r.Wait())
}
