package pool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestATaskWhoseProcessDiesCrashesWithWhatItPrintedLast(t *testing.T) {
	p, _ := startReady(t, Config{})
	for range 3 {
		got := run(t.Context(), p, map[string]any{"do": "exit", "text": "PHP Fatal error:  the printer is on fire"})
		want(t, got, tasks.Crashed, "ended: exit status 4; it printed last:\nPHP Fatal error:  the printer is on fire")
		if got.Wait != tasks.DefaultWait {
			t.Errorf("it waits %v", got.Wait)
		}
		eventually(t, "the next process is ready", func() bool { return p.Ready("Do") })
	}
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestAKilledProcessIsReplaced(t *testing.T) {
	p, log := startReady(t, Config{Min: 2})
	outcome, pid := background(t, t.Context(), p, map[string]any{"do": "hang"})
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want(t, <-outcome, tasks.Crashed, fmt.Sprintf("PHP process %d ended: signal: killed", pid))
	idle := pids(p, Idle)[0]
	if err := unix.Kill(idle, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two others run", func() bool { return len(pids(p, Idle)) == 2 && !alive(idle) })
	if got := p.State().Problem; !strings.Contains(got, "signal: killed") {
		t.Errorf("the problem is %q", got)
	}
	if !strings.Contains(log.String(), "signal: killed") {
		t.Error("the log says nothing of it")
	}
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	if got := p.State().Problem; got != "" {
		t.Errorf("the problem after work was done is %q", got)
	}
}

// terminate sends SIGTERM to the process of a task and answers the outcome.
func terminate(t *testing.T, p *Pool) tasks.Outcome {
	t.Helper()
	outcome, pid := background(t, t.Context(), p, map[string]any{"do": "hang"})
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return <-outcome
}

func TestATaskWhoseProcessGetsSIGTERMCountsNothing(t *testing.T) {
	p, _ := startReady(t, Config{})
	got := terminate(t, p)
	want(t, got, tasks.Released, "cut short by whoever sent SIGTERM: ")
	if got.Wait != terminatedWait {
		t.Errorf("it waits %v", got.Wait)
	}
}

func TestATaskWhoseProcessGetsSIGTERMAgainCrashes(t *testing.T) {
	p, _ := startReady(t, Config{})
	want(t, terminate(t, p), tasks.Released, "")
	for range 3 {
		eventually(t, "the next process is ready", func() bool { return p.Ready("Do") })
		got := terminate(t, p)
		want(t, got, tasks.Crashed, "ended: signal: terminated")
		if got.Wait != tasks.DefaultWait {
			t.Errorf("it waits %v", got.Wait)
		}
	}
}

// Phorge's handler of SIGTERM exits with 143.
func TestSIGTERMIsHeldAgainstItsTaskAloneAndUntilThatIsAnswered(t *testing.T) {
	p, _ := startReady(t, Config{})
	exit := func(id int64) tasks.Outcome {
		task := taskOf(map[string]any{"do": "exit", "times": 143})
		task.ID = id
		eventually(t, "a process is ready", func() bool { return p.Ready("Do") })
		return p.Execute(t.Context(), task, nil)
	}
	want(t, exit(7), tasks.Released, "exit status 143")
	want(t, exit(8), tasks.Released, "")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "") // of task 7
	want(t, exit(7), tasks.Released, "")
	want(t, exit(7), tasks.Crashed, "")
	want(t, exit(8), tasks.Crashed, "")
}

// As with systemd's default KillMode: PHP and Gantry in the same moment.
func TestNoTaskCountsWhenEveryProcessOfTheServiceGetsSIGTERM(t *testing.T) {
	const processes = 4
	p, _ := startReady(t, Config{Min: processes})
	outcomes := make(chan tasks.Outcome, processes)
	var pids []int
	for i := range processes {
		started := filepath.Join(t.TempDir(), "started")
		task := taskOf(map[string]any{"do": "hang", "started": started})
		task.ID += int64(i)
		go func() { outcomes <- p.Execute(t.Context(), task, nil) }()
		pids = append(pids, readPID(t, started))
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	for range processes {
		want(t, <-outcomes, tasks.Released, "cut short")
	}
}

func TestAnAnswerThatWasGivenBeforeDeathCounts(t *testing.T) {
	p, _ := startReady(t, Config{})
	for range 20 {
		want(t, run(t.Context(), p, map[string]any{"do": "answer and exit"}), tasks.Succeeded, "")
		eventually(t, "the next process is ready", func() bool { return len(pids(p, Idle)) == 1 && p.State().Processes[0].Tasks == 0 })
	}
}

func TestAnAnswerCountsAlthoughTheDeathIsSeenFirst(t *testing.T) {
	p, _ := startReady(t, Config{})
	idle := func(r *resident) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Contains(p.idle, r)
	}
	for seen := 0; seen < 10; {
		eventually(t, "a process is idle", func() bool { return len(pids(p, Idle)) == 1 })
		p.mu.Lock()
		r := p.idle[0]
		p.mu.Unlock()
		asked := false
		got := p.Execute(t.Context(), taskOf(map[string]any{"do": "start, answer and exit"}), func(time.Duration) {
			asked = true
			<-r.dead
		})
		want(t, got, tasks.Succeeded, "")
		if asked { // otherwise the answer overtook the start, and nothing is known of a death
			seen++
			if idle(r) {
				t.Error("the dead process will be handed a task")
			}
		}
		eventually(t, "the process is gone", func() bool { return !r.lives() && !idle(r) })
	}
}

func TestATaskOfWhichNothingWasReadIsReleased(t *testing.T) {
	p, _ := newFake(t, "deaf").start(Config{})
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- run(t.Context(), p, map[string]any{}) }()
	eventually(t, "the task is in the pipe", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return waiting(p.processes[0].requests) > 0
	})
	if err := unix.Kill(pids(p, Busy)[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want(t, <-outcome, tasks.Released, "signal: killed")
}

// A program that a task has left behind holds the pipes open, out of reach.
func TestDeathIsSeenAlthoughAnOrphanHoldsThePipes(t *testing.T) {
	p, _ := startReady(t, Config{})
	file := filepath.Join(t.TempDir(), "orphan")
	want(t, run(t.Context(), p, map[string]any{"do": "leave an orphan", "file": file}), tasks.Crashed, "exit status 4")
	orphan := readPID(t, file)
	defer unix.Kill(orphan, unix.SIGKILL)
	if !alive(orphan) {
		t.Error("the orphan is dead, so this has shown nothing")
	}
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestALateAnswerReachesNobody(t *testing.T) {
	p, _ := startReady(t, Config{})
	file := filepath.Join(t.TempDir(), "orphan")
	outcome, pid := background(t, t.Context(), p, map[string]any{"do": "leave an orphan that answers", "file": file})
	orphan := readPID(t, file)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want(t, <-outcome, tasks.Crashed, "signal: killed")
	next, _ := background(t, t.Context(), p, map[string]any{"do": "hang"})
	if err := os.WriteFile(file+".answer", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan has answered and ended", func() bool { return !alive(orphan) })
	p.Close()
	want(t, <-next, tasks.Released, "cut short")
}

func TestWhatATaskLeftInItsGroupEndsWithTheProcess(t *testing.T) {
	p, _ := startReady(t, Config{})
	file := filepath.Join(t.TempDir(), "program")
	outcome, pid := background(t, t.Context(), p, map[string]any{"do": "start a program", "file": file})
	program := readPID(t, file)
	if group, err := unix.Getpgid(program); err != nil || group != pid {
		t.Fatalf("the program is in group %d (%v), its process is %d", group, err, pid)
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("process %d is in session %d (%v)", pid, session, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-outcome
	eventually(t, "the program is gone", func() bool { return !alive(program) })
}

func TestProcessesEndWithAGantryThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "start"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gantry := exec.Command(os.Args[0], "fake-gantry", dir)
	if err := gantry.Start(); err != nil {
		t.Fatal(err)
	}
	defer gantry.Wait()
	defer gantry.Process.Kill()
	pid := readPID(t, filepath.Join(dir, "pid"))
	if err := gantry.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is gone", func() bool { return !alive(pid) })
}

func TestB33StoppedProcessesAreReplaced(t *testing.T) {
	p, _ := startReady(t, Config{Min: 3})
	before := pids(p, Idle)
	for _, pid := range before {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three others run", func() bool {
		isOld := func(pid int) bool { return slices.Contains(before, pid) }
		now := pids(p, Idle)
		return len(now) == 3 && !slices.ContainsFunc(now, isOld)
	})
	if got := p.State().Problem; !strings.Contains(got, "it was stopped by a signal") {
		t.Errorf("the problem is %q", got)
	}
	want(t, run(t.Context(), p, map[string]any{"do": "stop"}), tasks.Crashed, "it was stopped by a signal")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestB33AProcessThatDoesNotTakeItsTaskIsKilledAndTheTaskReleased(t *testing.T) {
	f := newFake(t, "deaf")
	p, _ := f.start(Config{TakeTimeout: 20 * time.Millisecond})
	f.starts("")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Released, "did not take task 7 within 20ms")
	eventually(t, "another process takes it", func() bool { return run(t.Context(), p, map[string]any{}).Kind == tasks.Succeeded })
}

func TestAProcessThatTookPartOfItsTaskIsBlamed(t *testing.T) {
	for _, size := range []int{10, 1 << 20} { // the pipe holds it all, or not
		p, _ := newFake(t, "nibble").start(Config{TakeTimeout: 500 * time.Millisecond, LeaveTimeout: time.Millisecond})
		got := p.Execute(t.Context(), tasks.Task{ID: 7, Class: "Do", Data: bytesOf(size)}, nil)
		want(t, got, tasks.Crashed, "did not take task 7 within 500ms")
		p.Close()
	}
}

func TestAProcessThatClosesItsRequestsIsKilledAndTheTaskReleased(t *testing.T) {
	f := newFake(t, "shut")
	p, _ := f.start(Config{LeaveTimeout: 20 * time.Millisecond})
	f.starts("")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Released, "closed its requests")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestAProcessThatClosesItsAnswersIsKilled(t *testing.T) {
	p, _ := startReady(t, Config{LeaveTimeout: 20 * time.Millisecond})
	want(t, run(t.Context(), p, map[string]any{"do": "close the answers"}), tasks.Crashed, "it closed its answers and did not end within 20ms")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}
