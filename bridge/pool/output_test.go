package pool

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestB30WhatATaskPrintsIsLogOfThatTask(t *testing.T) {
	p, log := startReady(t, Config{})
	header := string(frame(t, answer{Type: "outcome", Request: strings.Repeat("0", 32)}, nil))
	for i, c := range []struct {
		name, text string
		times      int
	}{
		{"a megabyte without an end", "x", 1 << 20},
		{"bytes like a frame", header, 1},
		{"a warning", "PHP Warning:  Module already loaded\n", 1},
		{"control characters", "\x00\x01\u2028", 1},
		{"a megabyte of lines", strings.Repeat("y", 1023) + "\n", 1024},
	} {
		task := taskOf(map[string]any{"do": "print", "text": c.text, "times": c.times})
		task.ID = int64(1001 + i)
		want(t, p.Execute(t.Context(), task, nil), tasks.Succeeded, "")
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	}
	p.Close()
	for _, text := range []string{
		fmt.Sprintf(`"id":1001,"cut_bytes":%d,"message":"xxx`, 1<<20-maxLine),
		`"id":1005,"message":"yyy`,
		`"id":1003,"message":"PHP Warning:  Module already loaded"`,
	} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not have %s", text)
		}
	}
	if n := len(log.String()); n > 2*maxPerSec*(1024+200)*2 {
		t.Errorf("two megabytes became %d bytes of log", n)
	}
}

func TestB30WhatPHPPrintsAtItsStartIsLog(t *testing.T) {
	p, log := newFake(t, "print \x00\x00\x00\x02\x00\x00\x00\x00{}\nPHP Warning:  PHP Startup: no such module\n").start(Config{})
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	if got := log.String(); !strings.Contains(got, `"message":"PHP Warning:  PHP Startup: no such module"`) {
		t.Errorf("the log says\n%s", got)
	}
}

func TestEveryLineIsLoggedWithItsOwnTask(t *testing.T) {
	p, log := startReady(t, Config{})
	for id := range int64(150) {
		task := taskOf(map[string]any{"do": "print", "text": fmt.Sprintf("of %d.", id)})
		task.ID = id
		want(t, p.Execute(t.Context(), task, nil), tasks.Succeeded, "")
	}
	for id := range 150 {
		line := fmt.Sprintf(`"id":%d,"message":"of %d."`, id, id)
		if id == 0 {
			line = `"message":"of 0."`
		}
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log does not have %s", line)
		}
	}
}

func TestAReasonHasOnlyWhatItsOwnTaskPrinted(t *testing.T) {
	p, _ := startReady(t, Config{})
	want(t, run(t.Context(), p, map[string]any{"do": "print", "text": "of another task\n"}), tasks.Succeeded, "")
	got := run(t.Context(), p, map[string]any{"do": "exit", "text": "of this task"})
	want(t, got, tasks.Crashed, "; it printed last:\nof this task")

	got = run(t.Context(), p, map[string]any{"do": "exit", "text": strings.Repeat("much\n", 10000) + "the end"})
	want(t, got, tasks.Crashed, "much\nthe end")
	if len(got.Reason) > maxTail+1000 {
		t.Errorf("%d bytes: %s", len(got.Reason), got.Reason)
	}
}

func TestLinesAboveTheRateAreCounted(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &harness.Buffer{}
	now := time.Unix(0, 0)
	o, err := newOutput(read, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	o.log = zerolog.New(log)
	fmt.Fprint(write, strings.Repeat("again\n", maxPerSec+50))
	o.end()
	if got := strings.Count(log.String(), "again"); got != maxPerSec {
		t.Errorf("%d lines were logged in a second", got)
	}
	now = now.Add(time.Second)
	fmt.Fprintln(write, "later")
	write.Close()
	o.close()
	if got := log.String(); !strings.Contains(got, `"lines":50`) || !strings.Contains(got, "later") {
		t.Errorf("the log ends with:\n%s", got[strings.LastIndex(got, "again"):])
	}
}

func TestAnExceptionIsOneLineOfTheLogAndItsTraceIsForDebugging(t *testing.T) {
	const printed = "Task 7 (AcmeWorker): Exception: no\n\narcanist(head=master), phorge(head=master, ref.master=07c1a513)\n" +
		"  #0 AcmeWorker::doWork() called at [<phorge>/src/a.php:12]\n \r\n  #1 main() called at [b.php:1]\n"
	for level, want := range map[zerolog.Level]int{zerolog.InfoLevel: 1, zerolog.DebugLevel: 4} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOutput(read, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		log := &harness.Buffer{}
		o.log = zerolog.New(log).Level(level)
		fmt.Fprint(write, printed)
		write.Close()
		o.close()
		if got := log.String(); strings.Count(got, "\n") != want || strings.Count(got, `"message"`) != want ||
			strings.Count(got, `"info"`) != 1 || !strings.Contains(got, "Task 7 (AcmeWorker): Exception: no") {
			t.Errorf("at level %s the log is\n%s", level, got)
		}
		if got := o.lastLines(); !strings.Contains(got, "  #1 main()") {
			t.Errorf("a crash would be told with %q", got)
		}
	}
}
