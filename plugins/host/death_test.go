package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestB39EachCrashIsCountedOnceAndTheRestSucceeds(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	var crashed, succeeded int
	count := func(o tasks.Outcome, text string) {
		t.Helper()
		switch {
		case o.Kind == tasks.Succeeded:
			succeeded++
		case o.Kind == tasks.Crashed && strings.Contains(o.Reason, text):
			crashed++
		default:
			t.Fatalf("outcome %s: %s", o.Kind, o.Reason)
		}
		eventually(t, "the process runs", func() bool { return h.Ready("Do") })
	}
	for n := 1; n <= 10; n++ {
		switch n {
		case 1: // a panic that no recover of the SDK can catch
			count(run(t.Context(), h, "Do", map[string]any{"do": "panic elsewhere", "text": "the printer is on fire"}), "panic: the printer is on fire")
		case 5:
			outcome, pid := background(t, t.Context(), h, map[string]any{"do": "wait"})
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			count(<-outcome, "signal: killed")
		default:
			count(run(t.Context(), h, "Do", map[string]any{"do": "succeed"}), "")
		}
	}
	if crashed != 2 || succeeded != 8 {
		t.Errorf("%d crashed and %d succeeded", crashed, succeeded)
	}
	if s := h.List()[0]; s.Restarts != 2 || s.State != Ready || !strings.Contains(s.Problem, "signal: killed") {
		t.Errorf("the list says %+v", s)
	}
}

func TestAPanicInAHandlerIsOneFailedAttempt(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	other, pid := background(t, t.Context(), h, map[string]any{"do": "wait"})

	got := run(t.Context(), h, "Do", map[string]any{"do": "panic", "text": "the printer is on fire"})
	want(t, got, tasks.Retry, "panic: the printer is on fire\nmain.do\n")
	if len(got.Reason) > 1000 {
		t.Errorf("the stack is not trimmed:\n%s", got.Reason)
	}
	if !alive(pid) || h.List()[0].Running != 1 {
		t.Error("the panic touched the process or another task")
	}
	h.Close()
	<-other
}

func TestAHandlerThatExitsCrashesWhatItHeld(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	held, _ := background(t, t.Context(), h, map[string]any{"do": "wait"})
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "exit"}), tasks.Crashed, "died: exit status 4")
	want(t, <-held, tasks.Crashed, "died: exit status 4")
}

func TestATaskThatWaitsForItsTurnIsReleasedWhenTheProcessDies(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	first, _ := background(t, t.Context(), h, map[string]any{"do": "wait"})
	link := h.processes[0].link("Do")
	link.slots["Alone"] <- struct{}{} // as if another task had the only slot
	second := make(chan tasks.Outcome, 1)
	go func() { second <- run(context.Background(), h, "Alone", map[string]any{"do": "succeed"}) }()

	run(t.Context(), h, "Do", map[string]any{"do": "exit"})
	want(t, <-first, tasks.Crashed, "")
	want(t, <-second, tasks.Released, "stopped before the task started")
}

func TestCloseLeavesNothing(t *testing.T) {
	sockets := t.TempDir()
	t.Setenv("TMPDIR", sockets)
	for range 5 {
		h, _ := startReady(t, Config{Manifest: manifest(t, "")})
		outcome, pid := background(t, t.Context(), h, map[string]any{"do": "ignore"})
		for range 3 {
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want(t, <-outcome, tasks.Released, "cut short: Gantry stopped")
		if alive(pid) {
			t.Error("the process lives on")
		}
		if h.Ready("Do") || h.List()[0].State != Stopped {
			t.Errorf("the list says %+v", h.List()[0])
		}
		want(t, run(t.Context(), h, "Do", nil), tasks.Released, "not ready")
		if err := h.Start(t.Context()); err == nil {
			t.Error("a closed host started")
		}
	}
	if left, err := os.ReadDir(sockets); err != nil || len(left) > 0 {
		t.Errorf("left in the directory of the sockets: %v, %v", left, err)
	}
}

func TestCloseWhileTheProcessDies(t *testing.T) {
	for range 20 {
		h, _ := startReady(t, Config{Manifest: manifest(t, "")})
		outcome, pid := background(t, t.Context(), h, map[string]any{"do": "ignore"})
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		h.Close()
		if got := <-outcome; got.Kind != tasks.Crashed && got.Kind != tasks.Released {
			t.Errorf("outcome %s: %s", got.Kind, got.Reason)
		}
		if state := h.List()[0].State; state != Stopped {
			t.Errorf("the process is %s", state)
		}
	}
}

func TestATaskThatComesWhileTheProcessDiesIsNotBlamed(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	held, pid := background(t, t.Context(), h, map[string]any{"do": "wait"})
	link := h.processes[0].link("Do")
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-link.ended // the death is known, and is being explained
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "succeed"}), tasks.Released, "is not ready")
	want(t, link.execute(t.Context(), tasks.Task{Class: "Do"}, nil), tasks.Released, "stopped before the task started")
	want(t, <-held, tasks.Crashed, "signal: killed")
}

func TestCloseBeforeStart(t *testing.T) {
	h, err := New(Config{Manifest: manifest(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBackoffDoublesWithJitter(t *testing.T) {
	for _, c := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{0, 0, 250 * time.Millisecond},
		{0, 0.5, 375 * time.Millisecond},
		{1, 0, 500 * time.Millisecond},
		{3, 0, 2 * time.Second},
		{20, 0, 30 * time.Second},
		{1000, 0.5, 45 * time.Second},
	} {
		if got := backoff(c.failures, 500*time.Millisecond, time.Minute, c.random); got != c.want {
			t.Errorf("after %d failures, with %v: %v, want %v", c.failures, c.random, got, c.want)
		}
	}
}

func TestStatesThatDoNotFollowPanic(t *testing.T) {
	defer func() {
		if got, want := fmt.Sprint(recover()), "plugin host: a process went from stopped to ready"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}()
	Stopped.must(Ready)
}
