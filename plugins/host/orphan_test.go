package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// hostMain is the test binary as a host of its own, which a test can kill. It
// runs the orders that HOST_MAIN names files for, and waits to be killed.
func hostMain() {
	_, digest, err := openBinary(handler)
	if err != nil {
		panic(err)
	}
	h, err := New(Config{Log: zerolog.Nop(), Manifest: &Manifest{Plugins: []Plugin{{
		Name: "handler", Path: handler, SHA256: digest, Classes: map[string]Class{"Do": {}},
	}}}})
	if err != nil {
		panic(err)
	}
	if err := h.Start(context.Background()); err != nil {
		panic(err)
	}
	dir := os.Getenv("HOST_MAIN")
	run(context.Background(), h, "Do", map[string]any{"do": "start a program", "text": filepath.Join(dir, "program")})
	run(context.Background(), h, "Do", map[string]any{"do": "ignore and print", "started": filepath.Join(dir, "handler")})
}

func TestB40HandlersEndWithAHostThatIsKilled(t *testing.T) {
	dir, sockets := t.TempDir(), t.TempDir()
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), "HOST_MAIN="+dir, "HANDLER_BINARY="+handler, "TMPDIR="+sockets)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	program := readPID(t, filepath.Join(dir, "program"))
	worker := readPID(t, filepath.Join(dir, "handler"))
	if group, err := unix.Getpgid(worker); err != nil || group != worker {
		t.Errorf("the handler is in process group %d (%v), not in one of its own", group, err)
	}

	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler ends, which ignores everything", func() bool { return !alive(worker) })
	eventually(t, "the program that the handler started ends", func() bool { return !alive(program) })
	left, err := os.ReadDir(sockets)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the directory of the sockets: %v, %v", left, err)
	}
}

// A service manager that stops a service signals every process of it. The host
// drains then, and needs its handlers.
func TestSIGTERMIsIgnoredWhileTheHostLives(t *testing.T) {
	h, log := startReady(t, Config{Manifest: manifest(t, "")})
	pid := h.List()[0].PID
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler says that it stays", func() bool { return contains(log, "SIGTERM is ignored") })
	if got := h.List()[0].PID; got != pid || !h.Ready("Do") {
		t.Errorf("the process was %d and is %d", pid, got)
	}
}

func TestAProgramThatAHandlerLeftEndsWithIt(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	file := filepath.Join(t.TempDir(), "program")
	run(t.Context(), h, "Do", map[string]any{"do": "start a program", "text": file})
	program := readPID(t, file)
	if !alive(program) {
		t.Fatal("the program does not run")
	}
	run(t.Context(), h, "Do", map[string]any{"do": "exit"})
	eventually(t, "the program ends", func() bool { return !alive(program) })
}
