package harness

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestScheduledTasksAreDrainedByAStockTaskmaster(t *testing.T) {
	p := Live(t)
	const count = 20
	ids, err := p.Schedule(t.Context(), LiveWorker, count, map[string]any{"duration": 0}, map[string]any{"priority": 1234})
	if err != nil {
		t.Fatal(err)
	}
	db := Open(t, p.DSN())
	if got := query(t, db, "SELECT COUNT(*) FROM worker_activetask WHERE priority = 1234"); got != "20" {
		t.Fatalf("%s tasks are queued, want 20", got)
	}
	taskmaster, err := p.StartTaskmaster()
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the taskmaster archives every task", func() bool {
		return query(t, db, "SELECT COUNT(*) FROM worker_archivetask WHERE result = 0") == "20"
	})
	runs, err := p.Executions()
	if err != nil {
		t.Fatal(err)
	}
	var ran []int64
	for _, run := range runs {
		ran = append(ran, run.ID)
		if run.PID != taskmaster.PID() {
			t.Errorf("task %d ran in process %d, want %d", run.ID, run.PID, taskmaster.PID())
		}
	}
	if !slices.Equal(ran, ids) {
		t.Errorf("tasks %v ran, want %v", ran, ids)
	}
	if err := taskmaster.Stop(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(taskmaster.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the taskmaster is still there: %v", err)
	}
}

func TestATemporaryFailureEndsATaskmaster(t *testing.T) {
	p := Live(t)
	if _, err := p.Schedule(t.Context(), LiveWorker, 1, map[string]any{"doWork": "fail-temporary"}, nil); err != nil {
		t.Fatal(err)
	}
	taskmaster, err := p.StartTaskmaster()
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the taskmaster ends", func() bool {
		select {
		case <-taskmaster.Done():
			return true
		default:
			return false
		}
	})
	log, err := taskmaster.Log()
	if err != nil || !strings.Contains(log, "Temporary failure, as asked.") {
		t.Errorf("the log does not tell why: %v\n%s", err, log)
	}
}

func TestBinAnswersWhatItPrintedAndFailsWithIt(t *testing.T) {
	p := Live(t)
	out, err := p.Bin(t.Context(), "worker", "cancel", "--class", "NoSuchWorker")
	if err != nil || !strings.Contains(out, "No tasks selected to cancel.") {
		t.Errorf("answered %q, %v", out, err)
	}
	if _, err := p.Bin(t.Context(), "worker", "cancel"); err == nil || !strings.Contains(err.Error(), "constraint") {
		t.Errorf("answered %v, want the complaint about missing constraints", err)
	}
}

func TestDaemonsOfPhdEndWithThePhorge(t *testing.T) {
	p, err := InstallPhorge(Shared(t), "ended")
	if errors.Is(err, ErrNoPhorge) {
		Live(t) // skips, as every live test
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.Bin(t.Context(), "phd", "start"); err != nil || !strings.Contains(out, "(Pool: 0) PhabricatorTaskmasterDaemon") {
		t.Errorf("phd start: %v\n%s", err, out)
	}
	var pids []string
	Eventually(t, "an overseer and three daemons run", func() bool {
		pids = titled(t, p.Instance())
		return len(pids) == 4
	})
	if err := p.Remove(); err != nil {
		t.Fatal(err)
	}
	if left := titled(t, p.Instance()); len(left) > 0 {
		t.Errorf("processes %v are left of %v", left, pids)
	}
	if _, err := os.Stat(p.Dir()); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", p.Dir(), err)
	}
}

// titled answers the processes that carry an argument.
func titled(t *testing.T, argument string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		title, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(title), "\x00")
		if at := slices.Index(args, "-l"); at >= 0 && slices.Contains(args[at:], argument) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func TestPhorgeIsFoundOrMissedAsTheEnvironmentSays(t *testing.T) {
	empty := t.TempDir()
	checkout := t.TempDir()
	for _, file := range []string{"scripts/__init_script__.php", "support/init/init-script.php"} {
		path := filepath.Join(checkout, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PHORGE_ROOT", checkout)
	t.Setenv("ARCANIST_ROOT", checkout)
	if found, err := FindPhorge(); found.Phorge != checkout || found.Arcanist != checkout || err != nil {
		t.Errorf("answered %v, %v; want %s twice", found, err, checkout)
	}
	t.Setenv("ARCANIST_ROOT", empty)
	if _, err := FindPhorge(); err == nil || errors.Is(err, ErrNoPhorge) || !strings.Contains(err.Error(), empty) {
		t.Errorf("answered %v; a wrong ARCANIST_ROOT is a mistake to name, not a reason to skip", err)
	}
}
