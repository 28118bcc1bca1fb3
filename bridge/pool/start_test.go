package pool

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestB33AProcessThatCannotStartPausesLeasingAndSaysWhy(t *testing.T) {
	for _, c := range []struct{ name, start, problem string }{
		{"the wrong user", "exit Run this as phd-user.", "ended: exit status 2; it printed last:\nRun this as phd-user."},
		{"another protocol", "protocol", "it speaks version 7 of the pool's protocol, this Gantry speaks 1: use the php library of this Gantry"},
		{"another Phorge", "namespace other", `its Phorge uses storage namespace "other", and the tasks are in "phorge"`},
		{"a read-only Phorge", "read-only", "its Phorge is read-only"},
		{"bytes that are no frame", "garbage <?php echo 1;", `it broke the protocol and was killed: that is no frame: it begins with "<?php ec"`},
		{"a process that never gets ready", "hang Loading.", "it was not ready within 2s; it printed last:\nLoading."},
		{"a process that stops before it is ready", "stop", "it was stopped by a signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Namespace: "phorge", MinBackoff: time.Hour, MaxBackoff: time.Hour}
			if strings.HasPrefix(c.start, "hang") {
				config.StartTimeout = 2 * time.Second
			}
			p, log := newFake(t, c.start).start(config)
			s := p.State()
			if s.Ready || p.Ready("Do") || !strings.Contains(s.Problem, c.problem) {
				t.Errorf("state %+v; want the problem %q", s, c.problem)
			}
			if len(s.Processes) != 1 || s.Processes[0].Phase != Failed || alive(s.Processes[0].PID) {
				t.Errorf("processes %+v", s.Processes)
			}
			want(t, run(t.Context(), p, map[string]any{}), tasks.Released, "no PHP process runs: ")
			if got := log.String(); !strings.Contains(got, "PHP process does not run") || strings.Count(got, "does not run") != 1 {
				t.Errorf("the log says\n%s", got)
			}
		})
	}
}

func TestB33APoolComesBackByItself(t *testing.T) {
	f := newFake(t, "exit The database is away.")
	p, log := f.start(Config{Min: 3})
	eventually(t, "it was tried a few times", func() bool { return strings.Count(log.String(), "does not run") > 5 })
	if p.Ready("Do") {
		t.Error("it is ready")
	}
	f.starts("")
	eventually(t, "it is ready", func() bool { return p.Ready("Do") })
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	eventually(t, "all three run", func() bool { return len(pids(p, Idle)) == 3 })
	if s := p.State(); s.Problem != "" {
		t.Errorf("the problem is still %q", s.Problem)
	}
}

func TestACommandThatDoesNotExistIsAProblemOfTheState(t *testing.T) {
	p, _ := start(t, Config{Command: []string{filepath.Join(t.TempDir(), "php")}})
	if s := p.State(); s.Ready || !strings.Contains(s.Problem, "no such file or directory") {
		t.Errorf("state %+v", s)
	}
}

func TestProcessesThatEndIdleWithoutWorkBackOff(t *testing.T) {
	p, log := newFake(t, "quit").start(Config{MinBackoff: time.Hour, MaxBackoff: time.Hour})
	eventually(t, "it has failed", func() bool { return strings.Contains(log.String(), "exit status 3") })
	if s := p.State(); s.Ready || len(s.Processes) != 1 || s.Processes[0].Phase != Failed {
		t.Errorf("state %+v", s)
	}
	want(t, run(t.Context(), p, map[string]any{}), tasks.Released, "no PHP process runs: ")
}

func TestProcessesThatFailTogetherAreOneFailure(t *testing.T) {
	p, _ := newFake(t, "exit no").start(Config{Min: 3, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures != 1 {
		t.Errorf("they count as %d", p.failures)
	}
}

func TestTheTimeToStartEndsWhenAProcessIsReady(t *testing.T) {
	p, _ := startReady(t, Config{})
	r := p.idle[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit != nil {
		t.Error("it will be killed all the same")
	}
}

func TestAProcessThatIsReadyTwiceIsNotFit(t *testing.T) {
	p, log := newFake(t, "twice").start(Config{MinBackoff: time.Hour, MaxBackoff: time.Hour})
	eventually(t, "it has failed", func() bool { return strings.Contains(log.String(), "it said twice that it is ready") })
	if p.Ready("Do") {
		t.Error("it is ready")
	}
}

func TestAnEmptyMapOfClassesIsAnEmptyList(t *testing.T) {
	p, _ := newFake(t, "no-classes").start(Config{})
	if got := p.Classes(); !p.Ready("Do") || len(got) != 0 {
		t.Errorf("classes %q", got)
	}
}

func TestPHPGetsNoVariableOfGantry(t *testing.T) {
	got := environment([]string{
		"PATH=/bin", "GANTRY_DSN=secret", "LC_ALL=C", "PHABRICATOR_ENV=x", "TZ=UTC", "TZDIR=/", "AWS_SECRET=x", "HOME=/root",
	})
	if want := []string{"PATH=/bin", "LC_ALL=C", "PHABRICATOR_ENV=x", "TZ=UTC", "HOME=/root"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("GANTRY_DSN", "secret")
	p, _ := startReady(t, Config{})
	read, err := os.ReadFile("/proc/" + itoa(pids(p, Idle)[0]) + "/environ")
	if err != nil || strings.Contains(string(read), "secret") || !strings.Contains(string(read), "PATH=") {
		t.Errorf("the process has %q, %v", read, err)
	}
}

func TestAProcessHasItsOwnPipesAndTheyBlock(t *testing.T) {
	p, _ := startReady(t, Config{Min: 2})
	both := pids(p, Idle)
	for i, pid := range both {
		others := descriptors(t, both[1-i])
		for _, fd := range []string{"1", "2", "3", "4"} {
			pipe := descriptors(t, pid)[fd]
			if !strings.HasPrefix(pipe, "pipe:") || slices.Contains(slices.Collect(maps.Values(others)), pipe) {
				t.Errorf("descriptor %s of process %d is %s; the other has %v", fd, pid, pipe, others)
			}
			info, _ := os.ReadFile("/proc/" + itoa(pid) + "/fdinfo/" + fd)
			if octal(string(info))&unix.O_NONBLOCK != 0 {
				t.Errorf("descriptor %s of process %d does not block: %s", fd, pid, info)
			}
		}
	}
}

// descriptors answers what the descriptors of a process are open on.
func descriptors(t *testing.T, pid int) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]string{}
	for _, e := range entries {
		open[e.Name()], _ = os.Readlink("/proc/" + itoa(pid) + "/fd/" + e.Name())
	}
	return open
}

func TestStartEndsWithItsContext(t *testing.T) {
	p, err := New(Config{Command: newFake(t, "hang").command()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if err := p.Start(ctx); err == nil || !strings.Contains(err.Error(), "waiting for PHP processes to start: context canceled") {
		t.Errorf("%v", err)
	}
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, "Config.Command is missing"},
		{Config{Command: []string{"php"}, Min: 3, Max: 2}, "3 to 2 processes are configured"},
		{Config{Command: []string{"php"}, Min: -1}, "-1 to -1 processes are configured"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestAPoolThatDoesNotRunTakesNothing(t *testing.T) {
	p, err := New(Config{Command: newFake(t, "").command()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p.Ready("Do") {
			t.Error("it is ready")
		}
		want(t, run(t.Context(), p, map[string]any{}), tasks.Released, "the pool of PHP processes does not run")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Start(t.Context()); err == nil {
		t.Error("a closed pool started")
	}
}

func TestStartAndStopFiftyTimes(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	f := newFake(t, "")
	for round := range 50 {
		p, _ := f.start(Config{Min: 1 + round%3})
		var outcomes []<-chan tasks.Outcome
		var all []int
		for _, process := range p.State().Processes {
			all = append(all, process.PID)
		}
		if round%2 == 0 {
			outcome, _ := background(t, t.Context(), p, map[string]any{"do": "hang"})
			outcomes = append(outcomes, outcome)
		}
		go p.Close()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		for _, outcome := range outcomes {
			want(t, <-outcome, tasks.Released, "cut short: ")
		}
		if slices.ContainsFunc(all, alive) || len(p.State().Processes) > 0 || p.Ready("Do") {
			t.Fatalf("something is left: %+v", p.State())
		}
		goleak.VerifyNone(t, ignore)
	}
}

func TestCloseWhileProcessesStartAndDie(t *testing.T) {
	for _, how := range []string{"hang", "exit no", "quit", "stop"} {
		f := newFake(t, how)
		for range 5 {
			p, err := New(Config{Command: f.command(), Min: 3, MinBackoff: time.Microsecond, MaxBackoff: time.Microsecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go p.Start(ctx)
			eventually(t, "processes start", func() bool { return len(p.State().Processes) > 0 })
			p.Close()
			cancel()
		}
	}
}

func TestStepsThatAProcessCannotTakePanic(t *testing.T) {
	defer func() {
		if got := recover(); got != "pool: a process went from stopped to idle" {
			t.Errorf("%v", got)
		}
	}()
	Stopped.must(Idle)
}

func TestBackoffDoublesWithJitter(t *testing.T) {
	for _, c := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{1, 0, 250 * time.Millisecond},
		{1, 0.5, 375 * time.Millisecond},
		{2, 0, 500 * time.Millisecond},
		{4, 0, 2 * time.Second},
		{20, 0, 30 * time.Second},
		{1000, 0.5, 45 * time.Second},
	} {
		if got := backoff(c.failures, 500*time.Millisecond, time.Minute, c.random); got != c.want {
			t.Errorf("after %d failures, with %v: %v, want %v", c.failures, c.random, got, c.want)
		}
	}
}
