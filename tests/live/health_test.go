package live

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

const notRunning = "Daemons Are Not Running"

// issuesPage answers the page with the setup issues of Phorge, which runs the
// checks.
func (g *ground) issuesPage(t *testing.T, session string) string {
	t.Helper()
	status, page := g.page(t, "/config/issue/", session)
	if status != 200 || !strings.Contains(page, "Setup Issues") {
		t.Fatalf("the page of setup issues has status %d:\n%.3000s", status, page)
	}
	return page
}

func TestPhorgeKnowsWhetherItsQueueIsDrained(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	session, err := g.PHP(t.Context(), "session.php", g.world.Alice.PHID)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(g.issuesPage(t, session), notRunning) {
		t.Fatal("Phorge does not say that nothing drains its queue")
	}
	gantry := filepath.Join(buildBinaries(t), "gantry")

	run := startGantryRun(t, gantry, "--phorge", g.Root())
	id := g.schedule(t, harness.LiveWorker, nil, nil)
	harness.Eventually(t, "gantry run executes a task in PHP", func() bool { return q.row(t, id).Archived })
	if page := g.issuesPage(t, session); strings.Contains(page, notRunning) || strings.Contains(page, "Gantry Is Silent") {
		t.Error("the queue is drained and Phorge says that it is not")
	}
	if _, page := g.page(t, "/daemon/", session); !strings.Contains(page, "PhabricatorTaskmasterDaemon") {
		t.Error("the console does not list Gantry among the daemons")
	}

	if err := run.stop(); err != nil {
		t.Errorf("gantry run ended with %v", err)
	}
	if !strings.Contains(g.issuesPage(t, session), notRunning) {
		t.Error("Gantry was stopped and Phorge does not say so")
	}

	// After kill -9 Phorge keeps quiet; the setup check of the library speaks
	// after six minutes.
	run = startGantryRun(t, gantry, "--phorge", g.Root())
	harness.Eventually(t, "the heartbeat of the second one", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM live_daemon.daemon_log WHERE status = 'run'") == 1
	})
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	q.exec(t, "UPDATE live_daemon.daemon_log SET dateModified = dateModified - 365 WHERE status = 'run'")
	if page := g.issuesPage(t, session); strings.Contains(page, notRunning) || !strings.Contains(page, "Gantry Is Silent") {
		t.Error("Gantry died, and what is said of it is not that it is silent")
	}
}

func TestTheTablesThatGantryMakesAreThoseOfStorageUpgrade(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	q.exec(t, "DROP DATABASE live_gantry")
	gantry := filepath.Join(buildBinaries(t), "gantry")
	if out, err := exec.CommandContext(t.Context(), gantry, "storage", "upgrade", "--phorge", g.Root()).CombinedOutput(); err != nil {
		t.Fatalf("gantry storage upgrade: %v\n%s", err, out)
	}
	for _, command := range []string{"upgrade", "adjust"} {
		out, err := g.Bin(t.Context(), "storage", command, "--force")
		if err != nil || command == "adjust" && !strings.Contains(out, "Found no adjustments for schemata.") {
			t.Errorf("after gantry storage upgrade, bin/storage %s: %v\n%s", command, err, out)
		}
	}
}

// TestFailingTasksDelayNobody has three that always fail before a good one. Under
// a stock taskmaster it waits for its overseer each time; here it is the next.
func TestFailingTasksDelayNobody(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			g := newGround(t)
			q := openQueue(t, g.Phorge)
			var order []int64
			for range 3 {
				order = append(order, g.schedule(t, harness.LiveWorker, map[string]any{"doWork": "fail-temporary"}, map[string]any{"priority": 1000}))
			}
			good := g.schedule(t, harness.LiveWorker, nil, nil)
			order = append(order, good)
			failures := r.drain(t, g)
			runs, err := g.Executions()
			if err != nil {
				t.Fatal(err)
			}
			if len(failures) != 3 || len(runs) != 4 {
				t.Fatalf("%d failures and %d runs, want 3 and 4", len(failures), len(runs))
			}
			for i, run := range runs {
				if run.ID != order[i] {
					t.Errorf("task %d ran in place %d, want %d", run.ID, i+1, order[i])
				}
			}
			if got := q.row(t, good); !got.Archived || got.Result != 0 {
				t.Errorf("the good task is %s", got)
			}
			if n := q.count(t, "SELECT COUNT(*) FROM live_gantry.attempts WHERE taskID IN (?, ?, ?)", order[0], order[1], order[2]); n != 3 {
				t.Errorf("%d attempts are recorded, want one for each failure", n)
			}
			took := q.count(t, "SELECT MAX(archivedEpoch) - MIN(dateCreated) FROM worker_archivetask WHERE id = ?", good)
			t.Logf("the good task was archived %d s after it was queued", took)
		})
	}
}
