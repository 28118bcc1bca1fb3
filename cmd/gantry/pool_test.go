package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
)

// listening answers the socket of a Gantry with this status.
func listening(t *testing.T, report statusReport[any]) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	stop, err := serveStatus(path, nil, func() any { return report }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return path
}

func TestPoolStatusShowsTheProcesses(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	var state any = pool.State{
		Ready: true, Min: 1, Max: 4, Waiting: 1, Phorge: "07c1a513", PHP: "8.2.36", Namespace: "phabricator", Problem: "exit status 255",
		Processes: []pool.Process{
			{PID: 101, Phase: pool.Busy, Since: ago(3*time.Hour + time.Second/2), Began: ago(4 * 24 * time.Hour), Task: 4711, Tasks: 12, Memory: 43 << 20},
			{PID: 102, Phase: pool.Idle, Since: ago(2*time.Minute + time.Second/2), Began: ago(time.Hour + time.Second/2), Leaving: "it is old"},
		},
	}
	path := listening(t, statusReport[any]{Ready: true, PHP: phpStatus[any]{Route: "pool", State: &state}})
	expect(t, command(t, nil, "", "pool", "status", "--socket="+path), exitOK, `
The pool is ready: 1 to 4 processes, 1 task waits for one. Phorge 07c1a513, PHP 8.2.36, namespace phabricator.
The last that failed: exit status 255
PID  STATE  FOR     TASK  TASKS DONE  MEMORY  AGE     LEAVING BECAUSE
101  busy   3h0m0s  4711          12  43 MiB  4 days  -
102  idle   2m0s    -              0  -       1h0m0s  it is old
`[1:], "")
}

func TestPoolStatusShowsHowConduitIs(t *testing.T) {
	var state any = conduit.State{URL: "https://phorge.example.com", Since: time.Now(), Problem: "the Phorge is read-only", TaskClasses: []string{"A"}}
	path := listening(t, statusReport[any]{Problem: "no class can run here now", PHP: phpStatus[any]{Route: "conduit", State: &state}})
	expect(t, command(t, nil, "", "pool", "status", "--socket="+path), exitFailed, `
https://phorge.example.com is not ready for 0s: the Phorge is read-only
It runs 1 class: [A]
`[1:], "gantry: no class can run here now\n")
}

func TestPoolStatusOfAGantryWithoutPHPSaysWhy(t *testing.T) {
	path := listening(t, statusReport[any]{Ready: true, PHP: phpStatus[any]{Why: "php is off"}})
	expect(t, command(t, nil, "", "pool", "status", "--socket="+path), exitOK, "Nothing runs PHP here: php is off.\n", "")
	got := command(t, nil, "", "pool", "status", "--socket="+path, "--output=json")
	if got.code != exitOK || !strings.Contains(got.out, `"ready":true,"counts":{"leased":0`) || !strings.Contains(got.out, `"php":{"route":"","why":"php is off"}`) {
		t.Errorf("exit code %d, %s", got.code, got.out)
	}
}

func TestPoolStatusNeedsAGantryThatListens(t *testing.T) {
	got := command(t, nil, "", "pool", "status")
	if got.code != exitUsage || !strings.Contains(got.err, "name the socket of the running Gantry with --socket") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	got = command(t, nil, "", "pool", "status", "--socket=/nonexistent/s")
	if got.code != exitFailed || !strings.Contains(got.err, "no Gantry listens on /nonexistent/s") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}
