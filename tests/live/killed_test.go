package live

import (
	"syscall"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestADeathIsKnownAlthoughTheDatabaseDiedToo kills both in mid-task: the server
// that comes back knows nothing of the lock that proved the process alive.
func TestADeathIsKnownAlthoughTheDatabaseDiedToo(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	server := harness.Shared(t)
	task := g.leaseOf(t, dyingWorker, map[string]any{"duration": 600})
	call, answered := g.newCall(t, task), make(chan error, 1)
	go func() {
		_, err := g.send(t.Context(), call)
		answered <- err
	}()
	pid := g.runs(t, task)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "Phorge finds its database again", func() bool {
		again, err := g.send(t.Context(), g.newCall(t, task))
		return err == nil && again.Code == ""
	})
	if got := g.lookup(t, task)[0]; got != "running" {
		t.Errorf("after the server died the receipt of a running task says %q", got)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Error("a process that was killed answered")
	}
	harness.Eventually(t, "the death is known", func() bool { return g.lookup(t, task)[0] == "dead" })
}
