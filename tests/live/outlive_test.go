package live

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// endless is the data of a task of dyingWorker that works until end is called.
func endless(t *testing.T) (data map[string]any, end func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "end")
	end = func() {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return map[string]any{"until": file}, end
}

// leaseAs gives a task to another owner, as when its lease has ended.
func (g *ground) leaseAs(t *testing.T, task leased, owner string) leased {
	t.Helper()
	task.Owner = owner
	openQueue(t, g.Phorge).exec(t,
		"UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = UNIX_TIMESTAMP() + 600 WHERE id = ?", owner, task.ID)
	return task
}

// runOne asks to run one task and answers its state and code.
func (g *ground) runOne(t *testing.T, task leased) string {
	t.Helper()
	return g.one(t, g.newCall(t, task))
}

// one sends a call for one task and answers its state and code.
func (g *ground) one(t *testing.T, call signedCall) string {
	t.Helper()
	got, err := g.send(t.Context(), call)
	if err != nil || len(got.Result.Tasks) != 1 {
		t.Fatalf("answered %s, %v", got.text, err)
	}
	return strings.TrimSpace(got.Result.Tasks[0].State + " " + got.Result.Tasks[0].Code)
}

// TestATaskThatOutlivesItsGantry stops a Gantry in mid-task. The next one does
// not run the task beside itself, and takes over its success.
func TestATaskThatOutlivesItsGantry(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	q := openQueue(t, g.Phorge)
	data, end := endless(t)
	id := g.schedule(t, dyingWorker, data, nil)
	start := func() (*conduit.Executor, *runtime.Runtime) {
		e := g.executor(t, conduit.Config{})
		rt, err := runtime.New(runtime.Config{
			Store: openStore(t, g.Phorge), Log: quiet(t),
			Classes: map[string]runtime.Class{dyingWorker: {Executor: e, Limit: &runtime.Limit{Slots: e.Slots}}},
		})
		if err == nil {
			err = rt.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return e, rt
	}
	e, rt := start()
	g.runs(t, leased{ID: id})
	modified := "SELECT dateModified FROM worker_activetask WHERE id = ?"
	saved := q.count(t, modified, id)
	if err := errors.Join(e.Close(), rt.Close()); err != nil {
		t.Error(err)
	}
	got, wait := q.row(t, id), q.count(t, "SELECT leaseExpires - UNIX_TIMESTAMP() FROM worker_activetask WHERE id = ?", id)
	if !strings.HasPrefix(got.Owner, "(back)") || tasks.Crashes(got.Owner) != 0 || got.Failures != 0 || wait < 30 {
		t.Errorf("the task that still runs is %s and waits %d s", got, wait)
	}

	due := "UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() - 1 WHERE id = ?"
	q.exec(t, due, id)
	e, rt = start()
	harness.Eventually(t, "the second Gantry is refused", func() bool { return rt.Stats().Released > 0 })
	if got := q.row(t, id); got.Failures != 0 || g.ran(t, id) != 1 {
		t.Errorf("the task is %s and ran %d times", got, g.ran(t, id))
	}
	if n := q.count(t, modified, id); n != saved {
		t.Errorf("giving the task back changed its dateModified from %d to %d", saved, n)
	}

	end()
	harness.Eventually(t, "the first execution has its outcome", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM live_gantry.receipts WHERE taskID = ? AND outcome LIKE '%succeeded%'", id) == 1
	})
	q.exec(t, due, id)
	harness.Eventually(t, "the second Gantry settles it", func() bool { return q.row(t, id).Archived })
	if got := q.row(t, id); got.Result != tasks.ResultSuccess || got.Failures != 0 || g.ran(t, id) != 1 {
		t.Errorf("the task is %s and ran %d times", got, g.ran(t, id))
	}
	if err := errors.Join(rt.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

func TestASuccessThatNobodySettledIsTakenOverUntilTheTaskIsSaved(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	task := g.lease(t, nil)
	for _, owner := range []string{"gantry:1:0:live", "gantry:2:0:live", "gantry:3:0:live"} {
		if got := g.runOne(t, g.leaseAs(t, task, owner)); got != "done" {
			t.Errorf("%s is answered with %q", owner, got)
		}
	}
	if n := g.ran(t, task.ID); n != 1 {
		t.Errorf("the task ran %d times under three leases", n)
	}
	other := g.leaseAs(t, task, "gantry:4:0:live")
	q.exec(t, "UPDATE worker_activetask SET dateModified = UNIX_TIMESTAMP() + 1 WHERE id = ?", task.ID)
	if got := g.runOne(t, other); got != "done" || g.ran(t, task.ID) != 2 {
		t.Errorf("after somebody saved the task, it is answered with %q and ran %d times", got, g.ran(t, task.ID))
	}
}

// TestB28ASuccessIsTakenOverWhateverTheClockOfPHPSays has a task that PHP saved
// by a clock that is ahead of the database's.
func TestB28ASuccessIsTakenOverWhateverTheClockOfPHPSays(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	for _, ahead := range []int{-3600, 3600} {
		task := g.lease(t, nil)
		q.exec(t, "UPDATE worker_activetask SET dateModified = UNIX_TIMESTAMP() + ? WHERE id = ?", ahead, task.ID)
		if got := g.runOne(t, task); got != "done" {
			t.Fatalf("the task is answered with %q", got)
		}
		second := g.leaseAs(t, task, "gantry:second:0:live")
		if got := g.runOne(t, second); got != "done" {
			t.Errorf("%d s ahead: the next lease is answered with %q", ahead, got)
		}
		if n := g.ran(t, task.ID); n != 1 {
			t.Errorf("%d s ahead: the task ran %d times", ahead, n)
		}
	}
}

func TestAFailureThatNobodySettledIsTriedAgain(t *testing.T) {
	g := newGround(t)
	task := g.lease(t, map[string]any{"doWork": "fail-temporary"})
	for i, owner := range []string{"gantry:1:0:live", "gantry:2:0:live"} {
		if got := g.runOne(t, g.leaseAs(t, task, owner)); got != "done" || g.ran(t, task.ID) != i+1 {
			t.Errorf("%s is answered with %q, and it ran %d times", owner, got, g.ran(t, task.ID))
		}
	}
}

// TestAnExecutionIsInTheWayAsLongAsItsProcessLives has two good tasks around the
// one that an earlier lease runs.
func TestAnExecutionIsInTheWayAsLongAsItsProcessLives(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	data, end := endless(t)
	task := g.leaseOf(t, dyingWorker, data)
	call, answered := g.newCall(t, task), make(chan error, 1)
	go func() {
		_, err := g.send(t.Context(), call)
		answered <- err
	}()
	g.runs(t, task)
	second := g.leaseAs(t, task, "gantry:second:0:live")
	batch := []leased{g.lease(t, nil), second, g.lease(t, nil)}
	got, err := g.send(t.Context(), g.newCall(t, batch...))
	if want := []string{"done", "refused", "done"}; err != nil || !slices.Equal(got.states(), want) || got.Result.Tasks[1].Code != "still-running" {
		t.Errorf("answered %s, %v; want %q, still-running", got.text, err, want)
	}
	if n := g.ran(t, task.ID); n != 1 {
		t.Errorf("the task ran %d times", n)
	}

	// A connection that is cut takes the lock along, and not the process.
	q := openQueue(t, g.Phorge)
	q.exec(t, "KILL ?", q.count(t, "SELECT IS_USED_LOCK(processLock) FROM live_gantry.receipts WHERE taskID = ? AND outcome IS NULL", task.ID))
	harness.Eventually(t, "the lock is free", func() bool {
		return q.count(t, "SELECT IS_FREE_LOCK(processLock) FROM live_gantry.receipts WHERE taskID = ? AND outcome IS NULL", task.ID) == 1
	})
	if got := g.runOne(t, second); got != "refused still-running" {
		t.Errorf("with its connection cut it is answered with %q", got)
	}

	// A lock that its server does not know any more proves nothing yet: it was
	// restarted, or it is another one after a failover.
	lock := "SELECT processLock FROM live_gantry.receipts WHERE taskID = ? AND outcome IS NULL"
	var name string
	if !q.scan(t, lock, task.ID, &name) || len(name) > 64 || len(strings.Split(name, ":")) != 4 {
		t.Fatalf("the lock is %q", name)
	}
	parts := strings.Split(name, ":")
	q.exec(t, "UPDATE live_gantry.receipts SET processLock = ? WHERE taskID = ?",
		strings.Join([]string{parts[0], "", "00000000", parts[3]}, ":"), task.ID)
	if got := g.runOne(t, second); got != "refused still-running" {
		t.Errorf("with a lock of another server it is answered with %q", got)
	}
	if got := g.lookup(t, task); got[0] != "running" {
		t.Errorf("with a lock of another server the receipt says %q", got)
	}
	end()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestAnOutcomeWaitsForALockThatTheServerStillHolds cuts the connection of a
// process and lets another one hold its lock, as a server does that has not
// noticed the cut.
func TestAnOutcomeWaitsForALockThatTheServerStillHolds(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	q := openQueue(t, g.Phorge)
	data, end := endless(t)
	task := g.leaseOf(t, dyingWorker, data)
	call, answered := g.newCall(t, task), make(chan answer, 1)
	go func() {
		got, _ := g.send(t.Context(), call)
		answered <- got
	}()
	g.runs(t, task)
	connection := q.count(t, "SELECT IS_USED_LOCK(processLock) FROM live_gantry.receipts WHERE taskID = ?", task.ID)
	ghost, err := q.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ghost.Close()
	ask := func(statement string, args ...any) (n int) {
		t.Helper()
		if err := ghost.QueryRowContext(t.Context(), statement, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	q.exec(t, "KILL ?", connection)
	if ask("SELECT GET_LOCK(processLock, 60) FROM live_gantry.receipts WHERE taskID = ?", task.ID) != 1 {
		t.Fatal("the lock of the connection that was killed is not free")
	}
	last := ask("SELECT MAX(ID) FROM information_schema.PROCESSLIST")
	end()
	harness.Eventually(t, "the process comes back for its lock", func() bool {
		return ask("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID > ? AND DB = 'live_worker' AND COMMAND = 'Sleep'", last) > 0
	})
	select {
	case got := <-answered:
		t.Fatalf("answered %s while its lock is held", got.text)
	default:
	}
	ask("SELECT RELEASE_ALL_LOCKS()")
	if got := <-answered; !slices.Equal(got.states(), []string{"done"}) {
		t.Errorf("answered %q", got.text)
	}
	if got := g.lookup(t, task); got[0] != "done" {
		t.Errorf("the receipt says %q", got)
	}
}

// TestReceiptsOfTasksInTheQueueAreKeptForLaterLeases calls until the garbage is
// collected.
func TestReceiptsOfTasksInTheQueueAreKeptForLaterLeases(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	unsettled, settled := g.lease(t, nil), g.lease(t, nil)
	g.accepted(t, g.newCall(t, unsettled))
	g.accepted(t, g.newCall(t, settled))
	q.exec(t, "UPDATE live_gantry.receipts SET epoch = epoch - 3600")
	q.exec(t, "UPDATE worker_activetask SET leaseOwner = '(retry)', dateModified = dateModified + IF(id = ?, 1, 0)", settled.ID)
	count := "SELECT COUNT(*) FROM live_gantry.receipts WHERE taskID = ?"
	for n := 0; q.count(t, count, settled.ID) == 1; n++ {
		if n == 2000 {
			t.Fatal("a receipt that was settled is there after 2000 calls")
		}
		if _, err := g.send(t.Context(), g.newCall(t, unsettled)); err != nil {
			t.Fatal(err)
		}
	}
	if n := q.count(t, count, unsettled.ID); n != 1 {
		t.Errorf("there are %d receipts of a success that was not settled", n)
	}
	if got := g.runOne(t, g.leaseAs(t, unsettled, "gantry:later:0:live")); got != "done" || g.ran(t, unsettled.ID) != 1 {
		t.Errorf("later it is answered with %q, and it ran %d times", got, g.ran(t, unsettled.ID))
	}
}
