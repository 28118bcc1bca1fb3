package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSocketAnswersHowAGantryIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stop, err := serveStatus(path, func() error { return nil }, func() any { return map[string]int{"pid": 7} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	var got struct{ PID int }
	if err := askStatus(t.Context(), path, &got); err != nil || got.PID != 7 {
		t.Errorf("it answers %+v, %v", got, err)
	}
	if _, err := serveStatus(path, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "another Gantry answers on it") {
		t.Errorf("a second Gantry on the same socket: %v", err)
	}
	stop()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
	if err := askStatus(t.Context(), path, &got); err == nil || !strings.Contains(err.Error(), "no Gantry listens on "+path) {
		t.Errorf("without a Gantry: %v", err)
	}
}

func TestReadinessIsAnAnswerOfItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var problem error
	stop, err := serveStatus(path, func() error { return problem }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, c := range []struct {
		problem error
		code    int
		body    string
	}{
		{nil, 200, "ready\n"},
		{errors.New("no class can run here now"), 503, "no class can run here now\n"},
	} {
		problem = c.problem
		code, body, err := ask(t.Context(), path, "/readyz")
		if err != nil || code != c.code || string(body) != c.body {
			t.Errorf("it answers %d, %q, %v; want %d, %q", code, body, err, c.code, c.body)
		}
	}
}

func TestASocketThatNobodyListensOnIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	var got map[string]int
	if err := askStatus(t.Context(), path, &got); err == nil || !strings.Contains(err.Error(), "no Gantry listens on") {
		t.Errorf("nobody listens: %v", err)
	}
	stop, err := serveStatus(path, nil, func() any { return map[string]int{"pid": 8} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := askStatus(t.Context(), path, &got); err != nil || got["pid"] != 8 {
		t.Errorf("it answers %v, %v", got, err)
	}
}

func TestAFileThatIsNoSocketIsLeftAlone(t *testing.T) {
	path := writeFile(t, "precious", "words", 0o600)
	if _, err := serveStatus(path, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("it answers %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "words" {
		t.Errorf("the file became %q, %v", content, err)
	}
	for path, want := range map[string]string{
		"/nonexistent/s": "no such file",
		t.TempDir() + "/" + strings.Repeat("x", 90): "the path is too long for a socket",
	} {
		if _, err := serveStatus(path, nil, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCheckTellsWhetherAGantryCanListenOnItsSocket(t *testing.T) {
	used := filepath.Join(t.TempDir(), "s")
	stop, err := serveStatus(used, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	free := filepath.Join(t.TempDir(), "s")
	file := writeFile(t, "precious", "words", 0o600)
	for _, c := range []struct{ path, want string }{
		{free, "ok       socket: this user can listen on " + free},
		{used, "ok       socket: a Gantry answers on " + used},
		{"/nonexistent/s", "warning  socket: the directory of /nonexistent/s is not there"},
		{file, "problem  socket: no Gantry can listen on " + file + ": the file is there and is no socket"},
		{file + "/s", "problem  socket: no Gantry can listen on " + file + "/s: "},
	} {
		got := command(t, newMemory(), "", "config", "check", "--socket="+c.path)
		if got.code != exitFailed || !strings.Contains(findings(got), c.want) { // there is nothing to run in this test
			t.Errorf("exit code %d, %s%s\nwant %s", got.code, got.out, got.err, c.want)
		}
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("the socket in use: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(free)); err != nil || len(entries) != 0 {
		t.Errorf("the check left %v, %v", entries, err)
	}
}
