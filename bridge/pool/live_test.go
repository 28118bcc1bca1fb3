package pool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// startLive starts a pool of real processes of a real Phorge, which knows the
// class of testdata besides its own.
func startLive(t testing.TB, c Config) (*Pool, *harness.Buffer) {
	t.Helper()
	return startOn(t, harness.Live(t), c)
}

func startOn(t testing.TB, phorge *harness.Phorge, c Config) (*Pool, *harness.Buffer) {
	t.Helper()
	const worker = "GantryPoolTestWorker.php"
	content, err := os.ReadFile(filepath.Join("testdata", worker))
	if err == nil {
		err = os.WriteFile(filepath.Join(phorge.Root(), "src", "extensions", worker), content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Command, c.Namespace = phorge.PoolCommand(), phorge.Namespace()
	p, log := start(t, c)
	if !p.Ready("PhabricatorTestWorker") {
		t.Fatalf("the pool is not ready: %s", p.State().Problem)
	}
	return p, log
}

// live answers a task for the class of testdata.
func live(order map[string]any) tasks.Task {
	task := taskOf(order)
	task.Class, task.Priority = "GantryPoolTestWorker", tasks.PriorityDefault
	task.Lease = &tasks.Lease{Owner: "gantry:1:0:n:h", Expires: time.Now().Add(time.Minute).Unix()}
	return task
}

func execute(t testing.TB, p *Pool, class, data string) tasks.Outcome {
	t.Helper()
	task := live(map[string]any{})
	task.Class, task.Data = class, []byte(data)
	return p.Execute(t.Context(), task, func(time.Duration) {})
}

func TestLiveProcessesRunTasksOfEveryKind(t *testing.T) {
	p, log := startLive(t, Config{})
	s := p.State()
	if s.Namespace == "" || s.PHP == "" {
		t.Errorf("state %+v", s)
	}
	for _, class := range []string{"PhabricatorSearchWorker", "HeraldWebhookWorker", "GantryPoolTestWorker"} {
		if !slices.Contains(p.Classes(), class) {
			t.Errorf("PHP does not know %s", class)
		}
	}
	if got := p.Publishers(); !slices.Equal(got, []string{"DoorkeeperAsanaFeedWorker", "DoorkeeperJIRAFeedWorker"}) {
		t.Errorf("stories are published by %q", got)
	}
	want(t, execute(t, p, "GantryLiveWorker", `{}`), tasks.Succeeded, "")
	want(t, execute(t, p, "GantryLiveWorker", `{"doWork":"fail-permanent"}`), tasks.Failed, "Permanent failure, as asked.")
	if got := execute(t, p, "GantryLiveWorker", `{"doWork":"yield","yield":77}`); got.Kind != tasks.Yielded || got.Wait != 77*time.Second {
		t.Errorf("a yield became %+v", got)
	}
	if got := execute(t, p, "GantryLiveWorker", `{"doWork":"fail-temporary","getWaitBeforeRetry":5}`); got.Kind != tasks.Retry || got.Wait != 5*time.Second {
		t.Errorf("a failure became %+v", got)
	}
	if got := execute(t, p, "GantryNobodyWorker", `{}`); got.Kind != tasks.Retry || got.Wait != tasks.DefaultWait || got.Category != "unknown-class" {
		t.Errorf("an unknown class became %+v", got)
	}
	var required time.Duration
	task := live(map[string]any{})
	task.Class, task.Data = "GantryLiveWorker", []byte(`{"getRequiredLeaseTime":86400}`)
	want(t, p.Execute(t.Context(), task, func(lease time.Duration) { required = lease }), tasks.Succeeded, "")
	if required != 24*time.Hour {
		t.Errorf("it required a lease of %v", required)
	}
	eventually(t, "the process that saw an exception is replaced, and no other", func() bool {
		return strings.Count(log.String(), "is ready") == 2 && len(p.State().Processes) == 1
	})
}

func TestB18LiveDataThatPHPCannotReadIsOneFailure(t *testing.T) {
	p, _ := startLive(t, Config{})
	for _, c := range []struct{ data, seen string }{
		{"{\"p\":\"\x83\x65\"}", "The data is null."},
		{"", "The data is null."},
		{`{"a":`, "The data is null."},
		{`"\ud800"`, "The data is null."},
		{`"🦎"`, `The data is "\ud83e\udd8e".`},
		{`9007199254740993`, "The data is 9007199254740993."},
	} {
		want(t, execute(t, p, "GantryLiveOddWorker", c.data), tasks.Failed, c.seen)
	}
	task := live(map[string]any{})
	task.Class, task.Data = "GantryLiveOddWorker", nil
	want(t, p.Execute(t.Context(), task, nil), tasks.Failed, "The data is null.")
}

func TestB30LiveWhatATaskPrintsIsLog(t *testing.T) {
	p, log := startLive(t, Config{})
	pid := pids(p, Idle)[0]
	task := live(map[string]any{"do": "print"})
	task.ID = 1234
	want(t, p.Execute(t.Context(), task, nil), tasks.Succeeded, "")
	want(t, p.Execute(t.Context(), live(map[string]any{}), nil), tasks.Succeeded, "")
	for _, text := range []string{
		fmt.Sprintf(`"pid":%d,"id":1234,"cut_bytes":%d,"message":"xxx`, pid, 1<<20-maxLine),
		fmt.Sprintf(`"pid":%d,"id":1234,"message":"A word on stderr."`, pid),
	} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not have %s", text)
		}
	}
}

func TestB32LiveASoftLimitEndsNoTask(t *testing.T) {
	p, log := startLive(t, Config{})
	pid := pids(p, Idle)[0]
	file := filepath.Join(t.TempDir(), "end")
	started := filepath.Join(t.TempDir(), "started")
	outcome := make(chan tasks.Outcome, 1)
	go func() {
		order := map[string]any{"do": "hold", "bytes": 300 << 20, "file": file, "started": started}
		outcome <- p.Execute(t.Context(), live(order), nil)
	}()
	if got := readPID(t, started); got != pid {
		t.Fatalf("process %d works, not %d", got, pid)
	}
	writePID(file, 1)
	want(t, <-outcome, tasks.Succeeded, "")
	eventually(t, "another process is alone", func() bool {
		now := pids(p, Idle)
		return len(p.State().Processes) == 1 && len(now) == 1 && now[0] != pid
	})
	if !strings.Contains(log.String(), fmt.Sprintf(`"pid":%d,"reason":"memory"`, pid)) {
		t.Errorf("the log says\n%s", log)
	}

	got := p.Execute(t.Context(), live(map[string]any{"do": "exhaust"}), nil)
	want(t, got, tasks.Crashed, "Allowed memory size of")
	want(t, p.Execute(t.Context(), live(map[string]any{}), nil), tasks.Succeeded, "")
}

func TestB33LiveStoppedProcessesAreReplaced(t *testing.T) {
	p, _ := startLive(t, Config{Min: 2})
	before := pids(p, Idle)
	for _, pid := range before {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "others run", func() bool {
		now := pids(p, Idle)
		return len(now) == 2 && !slices.Contains(before, now[0]) && !slices.Contains(before, now[1])
	})
	want(t, p.Execute(t.Context(), live(map[string]any{}), nil), tasks.Succeeded, "")
}

func TestLiveAProcessIsReplacedAfterItsTasksAndNoneIsLost(t *testing.T) {
	phorge := harness.Live(t)
	reset, err := phorge.Override(map[string]any{"gantry.pool.max-tasks": 20})
	if err != nil {
		t.Fatal(err)
	}
	defer reset()
	p, log := startOn(t, phorge, Config{})
	for range 100 {
		want(t, execute(t, p, "PhabricatorTestWorker", `{}`), tasks.Succeeded, "")
	}
	eventually(t, "one process is left", func() bool { return len(p.State().Processes) == 1 })
	if got := strings.Count(log.String(), `"reason":"tasks"`); got == 0 || strings.Contains(log.String(), "ended") {
		t.Errorf("it was replaced %d times:\n%s", got, log)
	}
}

func TestLiveLargeDataReachesPHP(t *testing.T) {
	p, _ := startLive(t, Config{})
	data := `{"a":"` + strings.Repeat("x", 20<<20) + `","getRequiredLeaseTime":4711}`
	var required time.Duration
	task := live(nil)
	task.Class, task.Data = "PhabricatorTestWorker", []byte(data)
	want(t, p.Execute(t.Context(), task, func(lease time.Duration) { required = lease }), tasks.Succeeded, "")
	if required != 4711*time.Second {
		t.Errorf("it required a lease of %v", required)
	}
}

func TestLiveDeathsOfAProcess(t *testing.T) {
	p, _ := startLive(t, Config{})
	want(t, p.Execute(t.Context(), live(map[string]any{"do": "exit"}), nil), tasks.Crashed, "exit status 7")

	file := filepath.Join(t.TempDir(), "orphan")
	want(t, p.Execute(t.Context(), live(map[string]any{"do": "orphan", "file": file}), nil), tasks.Crashed, "signal: killed")
	orphan := readPID(t, file)
	defer unix.Kill(orphan, unix.SIGKILL)
	if !alive(orphan) {
		t.Error("the orphan is dead, so this has shown nothing")
	}

	file = filepath.Join(t.TempDir(), "program")
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- p.Execute(ctx, live(map[string]any{"do": "sleep", "file": file}), nil) }()
	program := readPID(t, file)
	pid := pids(p, Busy)[0]
	cancel()
	want(t, <-outcome, tasks.Released, "was cancelled")
	eventually(t, "the process and its program are gone", func() bool { return !alive(pid) && !alive(program) })
	want(t, p.Execute(t.Context(), live(map[string]any{}), nil), tasks.Succeeded, "")
}

func TestLiveAProcessThatIsAskedToEndFinishesItsTask(t *testing.T) {
	p, _ := startLive(t, Config{})
	file, started := filepath.Join(t.TempDir(), "end"), filepath.Join(t.TempDir(), "started")
	outcome := make(chan tasks.Outcome, 1)
	go func() {
		outcome <- p.Execute(t.Context(), live(map[string]any{"do": "hold", "bytes": 1, "file": file, "started": started}), nil)
	}()
	pid := readPID(t, started)
	if err := unix.Kill(pid, unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	writePID(file, 1)
	want(t, <-outcome, tasks.Succeeded, "")
	eventually(t, "another process is ready", func() bool { now := pids(p, Idle); return len(now) == 1 && now[0] != pid && !alive(pid) })
}

func TestLiveATaskWhoseProcessGetsSIGTERMCountsNothing(t *testing.T) {
	p, _ := startLive(t, Config{})
	started := filepath.Join(t.TempDir(), "started")
	outcome := make(chan tasks.Outcome, 1)
	go func() {
		outcome <- p.Execute(t.Context(), live(map[string]any{"do": "hold", "bytes": 1, "file": "/nowhere", "started": started}), nil)
	}()
	if err := unix.Kill(readPID(t, started), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want(t, <-outcome, tasks.Released, "exit status 143")
}

func TestLiveAPoolClosesAtOnceWithProcessesThatEndInOrder(t *testing.T) {
	p, log := startLive(t, Config{Min: 3})
	all := pids(p, Idle)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(all, alive) || strings.Contains(log.String(), "did not end within") {
		t.Errorf("of %d something is left, or was killed:\n%s", all, log)
	}
}

func TestLiveAnotherNamespaceIsRefused(t *testing.T) {
	phorge := harness.Live(t)
	p, _ := start(t, Config{Command: phorge.PoolCommand(), Namespace: "elsewhere"})
	if s := p.State(); s.Ready || !strings.Contains(s.Problem, `and the tasks are in "elsewhere"`) {
		t.Errorf("state %+v", s)
	}
}

func TestLiveAWrongDirectoryIsAProblemThatSaysWhatToDo(t *testing.T) {
	command := harness.Live(t).PoolCommand()
	command[len(command)-1] = t.TempDir()
	p, _ := start(t, Config{Command: command, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	if s := p.State(); s.Ready || !strings.Contains(s.Problem, "exit status 2") || !strings.Contains(s.Problem, "There is no Phorge in") {
		t.Errorf("state %+v", s)
	}
}

func TestLivePublishersOfASiteAreNamed(t *testing.T) {
	phorge := harness.Live(t)
	file := filepath.Join(phorge.Root(), "src", "extensions", "AcmeFeedWorker.php")
	const class = "<?php\n\nfinal class AcmeFeedWorker extends DoorkeeperFeedWorker {\n\n  public function isEnabled() {\n    return true;\n  }\n\n  protected function publishFeedStory() {}\n\n}\n"
	if err := os.WriteFile(file, []byte(class), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	p, _ := startOn(t, phorge, Config{})
	if got := p.Publishers(); !slices.Equal(got, []string{"AcmeFeedWorker", "DoorkeeperAsanaFeedWorker", "DoorkeeperJIRAFeedWorker"}) {
		t.Errorf("stories are published by %q; %s", got, p.State().Problem)
	}
}
