package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
	"golang.org/x/sys/unix"
)

func classOf(name string, active, leased int) topClass {
	return topClass{ClassStats: tasks.ClassStats{Class: name, Active: active, Leased: leased}}
}

// atNoon is a view of a queue with two classes.
func atNoon() topView {
	return topView{
		At: time.Unix(noon, 0).UTC(), Every: time.Second,
		Queues: []topQueue{{Instance: "phorge", Active: 30, Leased: 4, Oldest: new(int64(75)), Classes: []topClass{
			classOf("BetaWorker", 10, 4), classOf("AlphaWorker", 20, 0)}}},
		Running: &topRunning{PID: 7, Since: time.Unix(noon-60, 0).UTC(), Ready: true, Held: 5, Running: 4, Counts: counts{Succeeded: 100, Failed: 2, Retried: 9},
			Processes: []topProcess{{"handler-acme", 8, "ready", 3}, {"PHP", 9, "busy", 1}},
			of:        map[string]counts{"": {Succeeded: 100, Failed: 2, Retried: 9}}},
	}
}

func TestAPictureOfTheQueue(t *testing.T) {
	before := atNoon()
	before.At = before.At.Add(-2 * time.Second)
	before.Queues = []topQueue{{Instance: "phorge", Active: 40, Classes: []topClass{classOf("BetaWorker", 15, 0)}}}
	before.Running = &topRunning{PID: 7, Since: before.Running.Since, of: map[string]counts{"": {Succeeded: 50, Failed: 2}}}
	want := `
gantry top  12:00:00  every 1s
gantry run, process 7, ready for 1m0s: 4 running, 5 held; so far 100 succeeded, 2 failed, 0 lost
  handler-acme, process 8, ready, 3 tasks
  PHP, process 9, busy, 1 task

QUEUE   QUEUED  LEASED  WAITING  FAILING       IN/S      OUT/S   GROWTH/S  OLDEST
phorge      30       4        0        0       20.0       25.0       -5.0  1m15s

CLASS        QUEUED  LEASED  WAITING  FAILING   GROWTH/S
AlphaWorker      20       0        0        0       10.0
BetaWorker       10       4        0        0       -2.5
q quits, s sorts (by queued)`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(atNoon().rates(before).draw(200, 50, 0, false), "\n")); diff != "" {
		t.Errorf("the picture (-want +got):\n%s", diff)
	}
	sorted := strings.Join(atNoon().draw(200, 50, 1, false), "\n")
	if beta, alpha := strings.Index(sorted, "BetaWorker"), strings.Index(sorted, "AlphaWorker"); beta > alpha || !strings.Contains(sorted, "(by leased)") {
		t.Errorf("sorted by what is leased:\n%s", sorted)
	}
}

func TestRatesAreNotMadeUp(t *testing.T) {
	earlier := func(change func(*topView)) topView {
		v := atNoon()
		v.At = v.At.Add(-time.Second)
		change(&v)
		return v
	}
	for name, before := range map[string]topView{
		"there was no look before":     {},
		"the queue was not readable":   earlier(func(v *topView) { v.Queues[0].Problem = "down" }),
		"counting had stopped":         earlier(func(v *topView) { v.Queues[0].More = true }),
		"it is another queue":          earlier(func(v *topView) { v.Queues[0].Instance = "other" }),
		"another process answers":      earlier(func(v *topView) { v.Running.PID = 6 }),
		"its process id is used again": earlier(func(v *topView) { v.Running.Since = v.Running.Since.Add(-time.Hour) }),
		"nothing answered":             earlier(func(v *topView) { v.Running = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			if q := atNoon().rates(before).Queues[0]; q.In != nil || q.Growth != nil && q.Out != nil {
				t.Errorf("it says %v in, %v out, %v growth", q.In, q.Out, q.Growth)
			}
		})
	}
}

func TestEachInstanceHasItsOwnRates(t *testing.T) {
	at := func(seconds int, acme, jobs int) topView {
		return topView{
			At: time.Unix(noon+int64(seconds), 0), Queues: []topQueue{{Instance: "acme", Active: 50}, {Instance: "jobs", Active: 60}, {Instance: "spare"}},
			Running: &topRunning{PID: 7, of: map[string]counts{"acme": {Succeeded: acme}, "jobs": {Failed: jobs}}},
		}
	}
	got := at(2, 100, 8).rates(at(0, 0, 0)).Queues
	if *got[0].Out != 50 || *got[0].In != 50 || *got[1].Out != 4 || got[2].Out != nil {
		t.Errorf("%+v", got)
	}
	one := at(2, 100, 8)
	one.Running.of = map[string]counts{"": {Succeeded: 100}}
	later := one
	later.At = later.At.Add(time.Second)
	if got := later.rates(one).Queues; got[0].Growth == nil || got[0].Out != nil {
		t.Errorf("of a Gantry that works on one queue, nobody says which: %+v", got)
	}
}

func TestAPictureFitsAndDoesNothingToTheTerminal(t *testing.T) {
	v := atNoon()
	hostile := []string{"\x1b]0;title\a", "\x1b[2J", "a\r\nb", "\u202egnp.exe", "\xff\xfe", "日本語ワーカー", "e\u0301", strings.Repeat("W", 64)}
	v.Queues[0].Instance = "q\x1b[31m"
	for i := range 60 {
		v.Queues[0].Classes = append(v.Queues[0].Classes, classOf(fmt.Sprint(hostile[i%len(hostile)], i), i, 0))
	}
	v.Running.Processes[0].Name, v.Problem, v.Running.Problem = "\x1bc", "\x9b2J", "\u2028"
	for width := range 130 {
		for height := 1; height < 30; height++ {
			lines := v.draw(width, height, 0, false)
			if len(lines) > height {
				t.Fatalf("%d lines on a screen of %d", len(lines), height)
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) > max(1, width) || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Fatalf("on a screen of %d: %q", width, line)
				}
			}
		}
	}
	if text := strings.Join(v.draw(200, 30, 0, true), "\n"); !strings.Contains(text, "日本語ワーカー") || strings.Count(text, "\x1b") != 2*strings.Count(text, reset) {
		t.Errorf("with colours:\n%q", text)
	}
}

func TestTopElsewhereThanOnATerminalIsOnePicture(t *testing.T) {
	got := command(t, seed(t), "", "top", "--dsn", "user@tcp(db)/shop_worker")
	for _, want := range []string{"\nshop ", "PhabricatorTestWorker ", "  1m40s\n"} {
		if got.code != exitOK || !strings.Contains(got.out, want) || strings.Contains(got.out, "q quits") {
			t.Errorf("exit code %d, no %q in\n%s%s", got.code, want, got.out, got.err)
		}
	}
	got = command(t, seed(t), "", "top", "--dsn", "user@tcp(db)/shop_worker", "--output=json", "--socket=/nonexistent")
	var v topView
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitOK || len(v.Queues) != 1 || v.Queues[0].Active != 8 || !strings.Contains(v.Problem, "no Gantry listens") {
		t.Errorf("in JSON: exit code %d, %v, %+v", got.code, err, v)
	}
	if got := command(t, nil, "", "top", "--dsn", "user@tcp(db)/shop_worker"); got.code == exitOK || got.out != "" {
		t.Errorf("without a store: exit code %d, %s", got.code, got.out)
	}
	if got := command(t, seed(t), "", "top", "--interval=1ms"); got.code != exitUsage {
		t.Errorf("an interval of a millisecond: exit code %d", got.code)
	}
}

func TestTopShowsTheInstancesThatItCanReach(t *testing.T) {
	file := writeFile(t, "gantry.yaml", "instances:\n  acme: {sqlite: acme.db}\n  jobs: {sqlite: jobs.db}\n", 0o600)
	down := map[string]error{"jobs": errors.New("the disk is gone")}
	run := func() result {
		var out, said bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &said, open: func(_ context.Context, c *config) (store, error) {
			return seed(t), down[c.Instance]
		}}
		return result{a.main([]string{"top", "--config=" + file}), out.String(), said.String()}
	}
	got := run()
	for _, want := range []string{"\nacme        8       1 ", "\njobs                                             -", "the disk is gone", "\nPhabricatorTestWorker          6 "} {
		if got.code != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", got.code, want, got.out, got.err)
		}
	}
	down["acme"] = errors.New("the other disk is gone")
	if got := run(); got.code != exitFailed || got.out != "" || got.err != "gantry: the other disk is gone\n" {
		t.Errorf("when none can be reached: exit code %d, %s%s", got.code, got.out, got.err)
	}
}

// terminalPair is a terminal: what a program has of it, and what a person has.
func terminalPair(t *testing.T) (program, person *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	person = os.NewFile(uintptr(fd), "person")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close(); person.Close() })
	return program, person
}

// TestTop runs the built program on a terminal.
func TestTop(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	queue := filepath.Join(dir, "queue.db")
	s := &site{t: t, dir: dir, env: []string{"TERM=xterm", "GANTRY_SQLITE=" + queue, "GANTRY_CONFIG=" + writeFile(t, "gantry.yaml", "", 0o600)}}
	made, err := openStore(t.Context(), &config{SQLite: queue})
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
	if got := s.gantry("tasks", "flood", "--count=7"); got.code != exitOK {
		t.Fatal(got.err)
	}
	for _, c := range []struct {
		name string
		end  func(t *testing.T, person *os.File, process *os.Process)
		code int
	}{
		{"q ends it", func(t *testing.T, person *os.File, _ *os.Process) { typeKeys(t, person, "q") }, exitOK},
		{"Ctrl-C ends it", func(t *testing.T, person *os.File, _ *os.Process) { typeKeys(t, person, "\x03") }, exitOK},
		{"SIGTERM ends it", func(t *testing.T, _ *os.File, p *os.Process) {
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}, exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			program, person := terminalPair(t)
			resize(t, person, 90, 20)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			var shown harness.Buffer
			go func() { _, _ = io.Copy(&shown, person) }() // until the terminal is closed
			cmd := exec.Command(filepath.Join(dir, "gantry"), "top", "--interval=100ms")
			cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.env, program, program, program
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			sees := func(what string) {
				t.Helper()
				harness.Eventually(t, "it shows "+what, func() bool { return strings.Contains(shown.String(), what) })
			}
			sees("PhabricatorTestWorker       7")
			sees("(by queued)")
			typeKeys(t, person, "sZ\x1a\xff") // the last three do nothing
			sees("(by leased)")
			resize(t, person, 20, 20)
			sees("QUEUE    QUEUED  LE…")
			c.end(t, person, cmd.Process)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("it ended with %v", err)
			}
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil || !cmp.Equal(before, after) {
				t.Errorf("the terminal is not as it was: %v\n%s", err, cmp.Diff(before, after))
			}
			sees(leaveScreen)
		})
	}
}

func TestAPanicLeavesTheTerminalAsItWas(t *testing.T) {
	program, person := terminalPair(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	var shown harness.Buffer
	go func() { _, _ = io.Copy(&shown, person) }() // until the terminal is closed
	func() {
		defer func() {
			if what := recover(); what != "oh no" {
				t.Errorf("it panics with %v", what)
			}
		}()
		_ = topLive(t.Context(), program, program, time.Second, false, func(context.Context) topView { panic("oh no") })
	}()
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil || !cmp.Equal(before, after) {
		t.Errorf("the terminal is not as it was: %v\n%s", err, cmp.Diff(before, after))
	}
	harness.Eventually(t, "the picture is gone", func() bool { return strings.Contains(shown.String(), leaveScreen) })
}

func typeKeys(t *testing.T, person *os.File, keys string) {
	t.Helper()
	if _, err := person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func resize(t *testing.T, person *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}
