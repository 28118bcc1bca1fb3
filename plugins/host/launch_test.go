package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// wantRefused starts a host whose process must not come up, and checks that
// the reason is shown, that no task reaches it, and that it is tried again.
func wantRefused(t *testing.T, c Config, reasons ...string) {
	t.Helper()
	c.MaxBackoff = 10 * time.Millisecond
	h, log := start(t, c)
	for _, reason := range reasons {
		if problem := h.List()[0].Problem; !strings.Contains(problem, reason) {
			t.Errorf("the problem is %q; want %q in it", problem, reason)
		}
	}
	if h.Ready("Do") {
		t.Error("the class is ready")
	}
	want(t, run(t.Context(), h, "Do", nil), tasks.Released, "")
	eventually(t, "it is tried again", func() bool { return h.List()[0].Restarts > 1 })
	if !contains(log, "again_in") {
		t.Errorf("the log does not say when it is tried again:\n%s", log)
	}
}

func TestB36StartsThatFailSayWhy(t *testing.T) {
	for _, c := range []struct {
		start   string
		reasons []string
	}{
		{"print", []string{`printed "loading the frobnicator" before the handshake`, "look at init functions"}},
		{"panic", []string{"ended at start: exit status 2", "panic: no frobnicator"}},
		{"exit", []string{"ended at start: exit status 3", "the licence has expired"}},
		{"old", []string{"speaks version 0 of the handler protocol, this Gantry speaks 1"}},
	} {
		t.Run(c.start, func(t *testing.T) {
			wantRefused(t, Config{Manifest: manifest(t, c.start)}, c.reasons...)
		})
	}
	t.Run("silent", func(t *testing.T) {
		wantRefused(t, Config{Manifest: manifest(t, "silent"), StartTimeout: 500 * time.Millisecond}, "was not ready within 500ms")
	})
}

func TestB36ABinaryThatIsMendedIsStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "handler")
	m := manifestOf(t, handler)
	m.Plugins[0].Path = path
	h, _ := start(t, Config{Manifest: m, MaxBackoff: 10 * time.Millisecond})
	if problem := h.List()[0].Problem; !strings.Contains(problem, "no such file") {
		t.Errorf("the problem is %q", problem)
	}
	if err := os.Symlink(handler, path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the binary runs", func() bool { return h.Ready("Do") })
}

func TestBinariesThatCannotRunHereAreRefused(t *testing.T) {
	program, err := os.ReadFile(handler)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Clone(program)
	binary.LittleEndian.PutUint16(foreign[18:], 0x16) // e_machine: S/390
	for _, c := range []struct {
		name    string
		content []byte
		mode    fs.FileMode
		reason  string
	}{
		{"one that is not executable", program, 0o644, "is not executable for this user (permission denied); chmod +x it"},
		{"one for another architecture", foreign, 0o755, "is built for another architecture, EM_S390"},
		{"one that is no program", []byte("#!/bin/sh\n"), 0o755, "is not a Linux program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "handler")
			if err := os.WriteFile(path, c.content, c.mode); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, Config{Manifest: manifestOf(t, path)}, path, c.reason)
		})
	}
	t.Run("a directory", func(t *testing.T) {
		wantRefused(t, Config{Manifest: manifestOf(t, t.TempDir())}, "is not a file")
	})
}

func TestABinaryWithOtherBytesIsRefused(t *testing.T) {
	changed := manifest(t, "")
	changed.Plugins[0].SHA256 = strings.Repeat("0", 64)
	wantRefused(t, Config{Manifest: changed}, "has changed: its sha256 is", "gantry plugins pin")

	unpinned := manifest(t, "")
	unpinned.Plugins[0].SHA256 = ""
	wantRefused(t, Config{Manifest: unpinned}, "has no sha256 in the manifest", "gantry plugins pin")
}

func TestTheBytesThatWereHashedAreTheBytesThatRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "handler")
	if err := os.Symlink(handler, path); err != nil {
		t.Fatal(err)
	}
	binary, _, err := openBinary(path)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if err := errors.Join(os.Remove(path), os.Symlink("/bin/true", path)); err != nil {
		t.Fatal(err)
	}
	s := spawn.NewThread()
	defer s.Close()
	child := newChild(path, binary, &capture{log: zerolog.Nop(), now: time.Now}, s)
	if err := child.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-child.done
	if got := child.epitaph(); !strings.Contains(got, "this program executes tasks of Alone") {
		t.Errorf("another program ran: %s", got)
	}
}

func TestOnlyAHandshakeIsTakenForOne(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|unix|/tmp/plugin-dir1/plugin2|grpc|MIIC": "1",
		"1|12|tcp|127.0.0.1:1234|netrpc":              "12",
		"a|b|c|d":                                     "",
		"2026-01-01|1|unix|x":                         "",
		"":                                            "",
	} {
		if version, ok := handshakeVersion(line); version != want || ok != (want != "") {
			t.Errorf("%q offers version %q, %v", line, version, ok)
		}
	}
}

func TestB38SocketDirectoriesThatCannotBeUsedAreRefused(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Run("too long", func(t *testing.T) {
		t.Setenv("TMPDIR", long)
		wantRefused(t, Config{Manifest: manifest(t, "")}, long, "the system's limit is 107", "set TMPDIR to a shorter path")
	})
	t.Run("missing", func(t *testing.T) {
		t.Setenv("TMPDIR", "/nowhere")
		wantRefused(t, Config{Manifest: manifest(t, "")}, "/nowhere, which cannot be written", "set TMPDIR")
	})
	t.Run("as long as it may be", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "gantry")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		fits := filepath.Join(dir, strings.Repeat("x", maxSocketPath-len(socketName)-len(dir)-1))
		if err := os.Mkdir(fits, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", fits)
		startReady(t, Config{Manifest: manifest(t, "")})
	})
}

// TestB38MountsThatForbid runs again, in a mount namespace of its own, with
// file systems that cannot be made otherwise.
func TestB38MountsThatForbid(t *testing.T) {
	if os.Getenv("MOUNTS_PRIVATE") == "" {
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), "MOUNTS_PRIVATE=1", "HANDLER_BINARY="+handler)
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := again.CombinedOutput()
		if ran := bytes.Count(out, []byte("    --- PASS: ")); err != nil || ran != 2 {
			t.Fatalf("%d parts passed: %v\n%s", ran, err, out)
		}
		return
	}
	mount := func(t *testing.T, flags uintptr) string {
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "tmpfs", flags, ""); err != nil {
			t.Fatalf("mount: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(dir, 0) })
		return dir
	}
	t.Run("execution", func(t *testing.T) {
		path := filepath.Join(mount(t, syscall.MS_NOEXEC), "handler")
		program, err := os.ReadFile(handler)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, Config{Manifest: manifestOf(t, path)}, path, "mounted noexec; move it")
	})
	t.Run("writing", func(t *testing.T) {
		t.Setenv("TMPDIR", mount(t, syscall.MS_RDONLY))
		wantRefused(t, Config{Manifest: manifest(t, "")}, "cannot be written", "read-only file system", "set TMPDIR")
	})
}

func TestTheEnvironmentIsClean(t *testing.T) {
	t.Setenv("DATABASE_PASSWORD", "hunter2")
	t.Setenv("TZ", "Antarctica/Troll")
	m := manifest(t, "")
	m.Plugins[0].Env = []string{"TZ", "NOT_SET"}
	h, _ := startReady(t, Config{Manifest: m})
	// What go-plugin and the handshake need, and what the manifest passes.
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "environment"}), tasks.Failed,
		"GANTRY_HANDLERS PLUGIN_CLIENT_CERT PLUGIN_MAX_PORT PLUGIN_MIN_PORT PLUGIN_PROTOCOL_VERSIONS PLUGIN_UNIX_SOCKET_DIR TZ and TZ is Antarctica/Troll")
}

func TestAHandlerBinaryStartedByHandSaysWhatItIs(t *testing.T) {
	byHand := exec.Command(handler)
	out, err := byHand.CombinedOutput()
	if byHand.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "this program executes tasks of Alone, Do, Limited, Nothing; it is started by Gantry") {
		t.Errorf("%v: %s", err, out)
	}
}
