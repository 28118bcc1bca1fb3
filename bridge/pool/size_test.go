package pool

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

// occupy keeps n processes of a pool busy until the answered function is
// called, which answers the outcomes.
func occupy(t *testing.T, p *Pool, n int) (end func() []tasks.Outcome) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "end")
	outcomes := make(chan tasks.Outcome, n)
	for range n {
		go func() { outcomes <- run(t.Context(), p, map[string]any{"do": "wait for file", "file": file}) }()
	}
	return func() (all []tasks.Outcome) {
		writePID(file, 1)
		for range n {
			all = append(all, <-outcomes)
		}
		return all
	}
}

func TestAPoolGrowsToItsMaximumAndShrinksToItsMinimum(t *testing.T) {
	p, _ := startReady(t, Config{Min: 1, Max: 3, IdleTimeout: 50 * time.Millisecond})
	first := pids(p, Idle)
	if p.Slots() != 3 {
		t.Errorf("%d slots", p.Slots())
	}
	end := occupy(t, p, 5)
	eventually(t, "three processes work and two tasks wait", func() bool { return len(pids(p, Busy)) == 3 && p.State().Waiting == 2 })
	if n := len(p.State().Processes); n != 3 {
		t.Errorf("%d processes", n)
	}
	for _, outcome := range end() {
		want(t, outcome, tasks.Succeeded, "")
	}
	eventually(t, "one process is left", func() bool { return len(p.State().Processes) == 1 && len(pids(p, Idle)) == 1 })
	t.Logf("process %d was first, %d is left", first, pids(p, Idle))
}

func TestASuccessorWhosePlaceIsGoneEndsWhenItIsIdle(t *testing.T) {
	f := newFake(t, "")
	p, _ := f.start(Config{Min: 1, Max: 2, IdleTimeout: 10 * time.Millisecond})
	file := filepath.Join(t.TempDir(), "end")
	first, _ := background(t, t.Context(), p, map[string]any{"do": "wait for file", "file": file})
	second, _ := background(t, t.Context(), p, map[string]any{"do": "wait for file", "file": file})
	p.mu.Lock()
	p.target = 1 // as if there had been three, and one had been trimmed meanwhile
	p.mu.Unlock()
	writePID(file, 1)
	want(t, <-first, tasks.Succeeded, "")
	want(t, <-second, tasks.Succeeded, "")
	eventually(t, "one process is left", func() bool { return len(p.State().Processes) == 1 })
}

func TestAFixedPoolKeepsItsSize(t *testing.T) {
	p, _ := startReady(t, Config{Min: 2, IdleTimeout: time.Millisecond})
	before := pids(p, Idle)
	end := occupy(t, p, 4)
	eventually(t, "two tasks wait", func() bool { return p.State().Waiting == 2 })
	end()
	if now := pids(p, Idle); len(before) != 2 || !sameSet(now, before) {
		t.Errorf("the processes were %d and are %d", before, now)
	}
}

func sameSet(a, b []int) bool {
	return cmp.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func TestAProcessThatWantsToLeaveServesUntilItsSuccessorIsThere(t *testing.T) {
	for _, do := range []string{"leave", "leave while idle"} {
		f := newFake(t, "")
		p, log := f.start(Config{})
		old := pids(p, Idle)[0]
		f.starts("hang") // the successor takes its time
		want(t, run(t.Context(), p, map[string]any{"do": do, "text": "memory"}), tasks.Succeeded, "")
		eventually(t, "a successor starts", func() bool { return len(pids(p, Starting)) == 1 })
		if s := p.State().Processes[0]; s.PID != old || s.Leaving != "memory" || s.Phase != Idle {
			t.Errorf("it is %+v", s)
		}
		if !p.Ready("Do") {
			t.Error("the pool is not ready")
		}
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
		if !strings.Contains(log.String(), `"reason":"memory","message":"PHP process will be replaced"`) {
			t.Errorf("the log says\n%s", log)
		}
		p.Close()
	}
}

func TestAProcessThatIsReplacedEndsByItself(t *testing.T) {
	p, log := startReady(t, Config{})
	old := pids(p, Idle)[0]
	want(t, run(t.Context(), p, map[string]any{"do": "leave", "text": "tasks"}), tasks.Succeeded, "")
	eventually(t, "another process is alone", func() bool {
		now := pids(p, Idle)
		return len(p.State().Processes) == 1 && len(now) == 1 && now[0] != old
	})
	if alive(old) {
		t.Error("it lives on")
	}
	if s := p.State(); s.Problem != "" || strings.Contains(log.String(), "ended") {
		t.Errorf("its end was taken for a problem: %q\n%s", s.Problem, log)
	}
}

func TestAYoungProcessIsNotReplacedForWhatATaskThrew(t *testing.T) {
	throw := map[string]any{"do": "outcome", "text": `{"kind":"retry","wait":300,"uncaught":true}`}
	p, _ := startReady(t, Config{MinService: time.Hour})
	for range 5 {
		want(t, run(t.Context(), p, throw), tasks.Retry, "")
	}
	if s := p.State().Processes; len(s) != 1 || s[0].Tasks != 5 || s[0].Leaving != "throwable" {
		t.Errorf("processes %+v", s)
	}
	p.Close()
	p, _ = startReady(t, Config{MinService: 300 * time.Millisecond})
	young := pids(p, Idle)[0]
	want(t, run(t.Context(), p, throw), tasks.Retry, "")
	eventually(t, "another process is alone", func() bool {
		now := pids(p, Idle)
		return len(p.State().Processes) == 1 && len(now) == 1 && now[0] != young
	})
}

func TestAnUncaughtThrowableReplacesTheProcess(t *testing.T) {
	p, _ := startReady(t, Config{})
	old := pids(p, Idle)[0]
	want(t, run(t.Context(), p, map[string]any{"do": "outcome", "text": `{"kind":"retry","wait":300,"uncaught":true}`}), tasks.Retry, "")
	eventually(t, "another process is alone", func() bool {
		now := pids(p, Idle)
		return len(p.State().Processes) == 1 && len(now) == 1 && now[0] != old
	})
}

func TestB32AProcessAboveItsSoftLimitFinishesItsTaskAndIsReplaced(t *testing.T) {
	p, _ := startReady(t, Config{Min: 2})
	file := filepath.Join(t.TempDir(), "end")
	large, pid := background(t, t.Context(), p, map[string]any{"do": "wait for file", "file": file})
	// The other process is above its limit while this one works, and is
	// replaced; the work of this one goes on.
	other := pids(p, Idle)[0]
	want(t, run(t.Context(), p, map[string]any{"do": "leave", "text": "memory"}), tasks.Succeeded, "")
	eventually(t, "the other is replaced", func() bool { return !alive(other) && len(pids(p, Idle)) == 1 })
	if got := pids(p, Busy); !cmp.Equal(got, []int{pid}) {
		t.Errorf("process %d was at work, and now %d", pid, got)
	}
	writePID(file, 1)
	want(t, <-large, tasks.Succeeded, "")
}

func TestB32AProcessThatDiesOfItsMemoryLimitIsOneFailureWithPHPsMessage(t *testing.T) {
	p, _ := startReady(t, Config{})
	got := run(t.Context(), p, map[string]any{"do": "exit", "text": "PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted in w.php on line 3\n"})
	want(t, got, tasks.Crashed, "Allowed memory size of 134217728 bytes exhausted in w.php on line 3")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestSuccessorsStartOneAtATime(t *testing.T) {
	f := newFake(t, "")
	p, _ := f.start(Config{Min: 3})
	f.starts("hang")
	end := occupy(t, p, 2)
	eventually(t, "two work", func() bool { return len(pids(p, Busy)) == 2 })
	want(t, run(t.Context(), p, map[string]any{"do": "leave", "text": "age"}), tasks.Succeeded, "")
	end()
	for range 9 {
		run(t.Context(), p, map[string]any{"do": "leave", "text": "age"})
	}
	var leaving int
	for _, process := range p.State().Processes {
		if process.Leaving != "" {
			leaving++
		}
	}
	if got := pids(p, Starting); leaving == 0 || len(got) != 1 {
		t.Errorf("%d want to leave and %d start", leaving, len(got))
	}
}

func TestAProcessWhoseSuccessorCannotStartServesNoLonger(t *testing.T) {
	f := newFake(t, "")
	p, _ := f.start(Config{Min: 2, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	file := filepath.Join(t.TempDir(), "end")
	other, busy := background(t, t.Context(), p, map[string]any{"do": "wait for file", "file": file})
	f.starts("read-only")
	want(t, run(t.Context(), p, map[string]any{"do": "leave", "text": "read-only"}), tasks.Succeeded, "")
	eventually(t, "only the other process is left", func() bool {
		return cmp.Equal(pids(p, Busy), []int{busy}) && len(pids(p, Idle))+len(pids(p, Leaving)) == 0
	})
	writePID(file, 1)
	want(t, <-other, tasks.Succeeded, "")
	if s := p.State(); !s.Ready || !strings.Contains(s.Problem, "its Phorge is read-only") {
		t.Errorf("the work of an older process hides the problem: %+v", s)
	}
	want(t, run(t.Context(), p, map[string]any{"do": "leave", "text": "read-only"}), tasks.Succeeded, "")
	eventually(t, "the pool pauses", func() bool { return !p.Ready("Do") })
}

func TestAProcessThatDoesNotEndWhenToldIsKilled(t *testing.T) {
	f := newFake(t, "deaf")
	p, err := New(Config{Command: f.command(), LeaveTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := pids(p, Idle)[0]
	if err := p.Close(); err != nil || alive(pid) {
		t.Errorf("process %d is left, %v", pid, err)
	}
}

func TestTheProcessThatWorkedLastWorksNext(t *testing.T) {
	p, _ := startReady(t, Config{Min: 3, Max: 5})
	for range 9 {
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	}
	var served []int
	for _, process := range p.State().Processes {
		served = append(served, process.Tasks)
	}
	slices.Sort(served)
	if !cmp.Equal(served, []int{0, 0, 9}) {
		t.Errorf("they served %d tasks", served)
	}
}
