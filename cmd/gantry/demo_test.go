package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// demoSite is a built gantry and a folder for a demo.
type demoSite struct {
	site
	folder string
}

// TestDemo runs the built program as somebody who has nothing else.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	for _, c := range []struct {
		name string
		test func(*demoSite)
	}{
		{"a demo that is killed goes on and proves that nothing was lost or doubled", killedDemoGoesOn},
		{"a demo that is stopped goes on", stoppedDemoGoesOn},
		{"a demo needs nothing but this program", demoNeedsNothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they wait for leases to end
			s := &demoSite{site{t: t, dir: dir}, filepath.Join(t.TempDir(), "demo")}
			s.withPHP(true)
			c.test(s)
		})
	}
}

// withPHP says whether there is a program php.
func (s *demoSite) withPHP(is bool) {
	path := "/nonexistent"
	if is {
		path = os.Getenv("PATH")
	}
	// A variable that means nothing is refused elsewhere. The demo reads none.
	s.env = []string{"PATH=" + path, "TMPDIR=" + os.TempDir(), "GANTRY_NONSENSE=1"}
}

// proof runs a demo to its end.
func (s *demoSite) proof() (p demoProof) {
	s.t.Helper()
	got := s.gantry("demo", "--dir", s.folder, "--tasks=3000", "--output=json")
	if err := json.Unmarshal([]byte(got.out), &p); got.code != exitOK || err != nil {
		s.t.Fatalf("exit code %d, %v\n%s%s", got.code, err, got.out, got.err)
	}
	return p
}

func killedDemoGoesOn(s *demoSite) {
	t := s.t
	if _, err := exec.LookPath("php"); err != nil {
		t.Skip("there is no PHP here")
	}
	first := s.start("demo", "--dir", s.folder, "--tasks=3000")
	harness.Eventually(t, "it is in the middle", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.folder, "ledger"))
		return strings.Contains(string(text), " chosen ") && strings.Count(string(text), " go ") > 300 && strings.Contains(string(text), " php ")
	})
	if got := s.gantry("demo", "--dir", s.folder); got.code != exitFailed || !strings.Contains(got.err, "a demo is at work in "+s.folder) {
		t.Errorf("beside it: exit code %d, %s", got.code, got.err)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done

	s.withPHP(false)
	second := s.proof()
	if second.Held == 0 || second.Left == 0 || second.Queued != 3000 || second.Succeeded != 3000 || second.Lost+second.Unrun+second.Doubled > 0 {
		t.Errorf("without PHP: %+v", second)
	}
	s.withPHP(true)
	third := s.proof()
	if third.Left != 0 || third.Queued != 3300 || third.Succeeded != 3300 || third.Lost+third.Unrun+third.Doubled > 0 {
		t.Errorf("with PHP again: %+v", third)
	}
	tasksBy := map[string]int{}
	for _, who := range third.Who {
		tasksBy[who.Did] += who.Tasks
		if who.PID == 0 || who.Tasks == 0 {
			t.Errorf("somebody is nobody: %+v", who)
		}
	}
	if want := map[string]int{"queued": 3304, "executed": third.Executions, "leased and archived": 3302}; !cmp.Equal(tasksBy, want) {
		t.Errorf("who did what: %v, want %v", tasksBy, want)
	}
	if of := first.cmd.Process.Pid; !slices.ContainsFunc(third.Who, func(w demoWho) bool { return w.Did == "leased and archived" && w.PID == of }) {
		t.Errorf("nothing is said of what process %d archived: %+v", of, third.Who)
	}
	if again := s.proof(); again.Held != 0 || again.Queued != 3300 || again.Executions != 3303 {
		t.Errorf("after one that came to its end: %+v", again)
	}
}

func demoNeedsNothing(s *demoSite) {
	t := s.t
	s.withPHP(false)
	s.env = append(s.env, "XDG_CACHE_HOME="+s.folder)
	got := s.gantry("demo", "--tasks=500")
	for _, want := range []string{
		"The queue is one SQLite file, " + filepath.Join(s.folder, "gantry-demo", "queue.db"),
		"tasks of DemoPHPWorker are left out: there is no program php here",
		"fails, is tried again in 10 min  (retry):",
		"500 tasks were to succeed, and by the ledger and the archive 500 did:\n0 lost, 0 doubled, 0 that nobody ran.",
	} {
		if got.code != exitOK || !strings.Contains(got.out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", got.code, want, got.out, got.err)
		}
	}
}

func stoppedDemoGoesOn(s *demoSite) {
	t := s.t
	s.withPHP(false)
	run := s.start("demo", "--dir", s.folder, "--tasks=3000")
	harness.Eventually(t, "it works", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.folder, "ledger"))
		return strings.Contains(string(text), " go ")
	})
	run.signal()
	if got := run.wait(); got.code != exitFailed || !strings.Contains(got.out, "Stopped. Run it again, and it goes on.") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	if p := s.proof(); p.Queued != 3000 || p.Succeeded != 3000 || p.Held != 0 || p.Again != 0 || p.Lost+p.Unrun+p.Doubled > 0 {
		t.Errorf("afterwards: %+v", p)
	}
}

func TestADemoLeavesTheQueuesOfOthersAlone(t *testing.T) {
	file := writeFile(t, "queue.db", "", 0o600)
	got := command(t, nil, "", "demo", "--dir", filepath.Dir(file))
	if content, err := os.ReadFile(file); got.code != exitUsage || !strings.Contains(got.err, file+" is there, and is no demo's") || err != nil || len(content) > 0 {
		t.Errorf("exit code %d, %s; the file holds %d bytes, %v", got.code, got.err, len(content), err)
	}
}

func TestADemoWithoutAFolderSaysWhatToName(t *testing.T) {
	file := writeFile(t, "file", "", 0o600)
	got := command(t, nil, "", "demo", "--dir", filepath.Join(file, "demo"))
	if got.code == exitOK || !strings.Contains(got.err, "not a directory; name another with --dir") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func TestTheProofOfADemoSeesWhatWentWrong(t *testing.T) {
	text := "plan 500;\nbegan 7;\nqueued 7 go-0 4;\n" +
		"ran 1 go 8 7;\nran 2 go 8 7;\nran 2 go 8 7;\nran 3 go 8 7;\nran 3 go 8 7;\nheld 3 7;\nran 5 g" // cut short
	path := writeFile(t, "ledger", text, 0o600)
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.note("ran 6 go 8 7"); err != nil {
		t.Fatal(err)
	}
	if l.executions() != 6 || len(l.ran[5]) != 0 || len(l.ran[6]) != 1 {
		t.Errorf("it reads %v", l.ran)
	}
	succeeded := func(class string) tasks.Record {
		return tasks.Record{Task: tasks.Task{Class: class}, Archive: &tasks.Archive{Result: tasks.ResultSuccess}}
	}
	failed := tasks.Record{Task: tasks.Task{Class: demoGoClass}, Archive: &tasks.Archive{Result: tasks.ResultFailure}}
	d := &demo{ledger: l, run: &demoRun{}, flood: []int64{1, 2, 3, 4, 5, 6}}
	var got demoProof
	d.prove(&got, map[int64]tasks.Record{
		1: succeeded(demoGoClass), // as it should be
		2: succeeded(demoGoClass), // ran twice, and nobody was killed
		3: succeeded(demoGoClass), // ran twice, and whoever held it was killed
		// 4 is in no archive
		5: succeeded(demoGoClass), // nobody ran it
		6: failed,
		7: succeeded(demoGoClass),  // nobody queued it
		8: succeeded(demoPHPClass), // of another demo, that had PHP
	})
	if want := (demoProof{Queued: 6, Succeeded: 4, Again: 2, Lost: 2, Unrun: 1, Doubled: 2}); !cmp.Equal(got, want) {
		t.Errorf("it says %+v, want %+v", got, want)
	}

	if _, err := openLedger(writeFile(t, "ledger", "ran x;\n", 0o600)); err == nil || !strings.Contains(err.Error(), `"ran x"`) {
		t.Errorf("a ledger of nonsense: %v", err)
	}
}
