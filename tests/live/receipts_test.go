package live

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// dyingWorker ends the process that executes it.
const dyingWorker = "GantryLiveDyingWorker"

// lookup asks for the receipts of tasks, and answers their states.
func (g *ground) lookup(t *testing.T, tasks ...leased) []string {
	t.Helper()
	got, err := g.send(t.Context(), with(g.newCall(t, tasks...), func(c *signedCall) {
		c.body = strings.Replace(c.body, `"run"`, `"lookup"`, 1)
	}))
	if err != nil || got.Code != "" {
		t.Fatalf("a lookup was answered with %s, %v", got.text, err)
	}
	return got.states()
}

func (a answer) states() (states []string) {
	for _, task := range a.Result.Tasks {
		states = append(states, task.State)
	}
	return states
}

// allowDying lets worker.execute run dyingWorker, until the test ends.
func (g *ground) allowDying(t *testing.T) {
	t.Helper()
	reset, err := g.Override(map[string]any{"gantry.task-classes": append(slices.Clone(allowed), dyingWorker)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reset(); err != nil {
			t.Error(err)
		}
	})
}

// TestAProcessThatDiesTakesOneTaskWithIt has a good task before the one that
// kills the process, and one behind it.
func TestAProcessThatDiesTakesOneTaskWithIt(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	for _, how := range []string{"exit", "memory", "fatal"} {
		t.Run(how, func(t *testing.T) {
			batch := []leased{g.lease(t, nil), g.leaseOf(t, dyingWorker, map[string]any{"die": how}), g.lease(t, nil)}
			if got, err := g.send(t.Context(), g.newCall(t, batch...)); err == nil {
				t.Fatalf("a process that died answered %s", got.text)
			}
			g.died(t, batch)
		})
	}
	t.Run("SIGKILL", func(t *testing.T) {
		batch := []leased{g.lease(t, nil), g.leaseOf(t, dyingWorker, map[string]any{"duration": 60}), g.lease(t, nil)}
		call, answered := g.newCall(t, batch...), make(chan error, 1)
		go func() {
			_, err := g.send(t.Context(), call)
			answered <- err
		}()
		pid := g.runs(t, batch[1])
		if got, want := g.lookup(t, batch...), []string{"done", "running", "absent"}; !slices.Equal(got, want) {
			t.Errorf("in mid-task the receipts say %q, want %q", got, want)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err == nil {
			t.Error("a process that was killed answered")
		}
		g.died(t, batch)
	})
}

// runs waits until PHP executes a task and answers the process that does.
func (g *ground) runs(t *testing.T, task leased) (pid int) {
	t.Helper()
	harness.Eventually(t, "PHP executes the task", func() bool {
		_, pids := phpRuns(t, g.Phorge)
		pid = pids[task.ID]
		return pid != 0
	})
	return pid
}

// died makes sure that of a batch the first task is done, the second died and
// is never run again, and the third, which was looked up before it began, cannot
// begin under this lease any more.
func (g *ground) died(t *testing.T, batch []leased) {
	t.Helper()
	want := []string{"done", "dead", "absent"}
	var got []string
	harness.Eventually(t, "the death is known", func() bool {
		got = g.lookup(t, batch...)
		return got[1] != "running"
	})
	if !slices.Equal(got, want) {
		t.Errorf("the receipts say %q, want %q", got, want)
	}
	again, err := g.send(t.Context(), g.newCall(t, batch...))
	if err != nil || !slices.Equal(again.states(), want) {
		t.Errorf("the same call again was answered with %s, %v; want %q", again.text, err, want)
	}
	for i, want := range []int{1, 1, 0} {
		if n := g.ran(t, batch[i].ID); n != want {
			t.Errorf("task %d ran %d times, not %d", batch[i].ID, n, want)
		}
	}
}

// TestARequestThatCannotBeClearedRunsNoFurtherTask has a task that leaves a
// lock that cannot be released.
func TestARequestThatCannotBeClearedRunsNoFurtherTask(t *testing.T) {
	g := newGround(t)
	odd, good := g.leaseOf(t, "GantryLiveOddWorker", map[string]any{"do": "stuck-lock"}), g.lease(t, nil)
	for i, want := range [][]string{{"done", "absent"}, {"done", "done"}} {
		got, err := g.send(t.Context(), g.newCall(t, odd, good))
		if err != nil || !slices.Equal(got.states(), want) {
			t.Errorf("answered %s, %v; want %q", got.text, err, want)
		}
		if n := g.ran(t, good.ID); n != i {
			t.Errorf("the task behind it ran %d times after %d calls", n, i+1)
		}
	}
}

func TestCallsForOneTaskAtTheSameMomentRunItOnce(t *testing.T) {
	g := newGround(t)
	for range 5 {
		task := g.lease(t, map[string]any{"duration": 0.1})
		var calls [children]signedCall
		for i := range calls {
			calls[i] = g.newCall(t, task)
		}
		var states [children]string
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				if got, err := g.send(t.Context(), calls[i]); err == nil && len(got.Result.Tasks) == 1 {
					states[i] = got.Result.Tasks[0].State
				}
			})
		}
		wg.Wait()
		for _, state := range states {
			if state != "done" && state != "running" {
				t.Errorf("the calls were answered with %q", states)
			}
		}
		if n := g.ran(t, task.ID); n != 1 {
			t.Errorf("the task ran %d times", n)
		}
		if got := g.lookup(t, task); got[0] != "done" {
			t.Errorf("the receipt says %q", got)
		}
	}
}

// TestAnOutcomeOutlivesTheConnectionOfItsReceipt ends the connection that holds
// the lock of the process while the task runs.
func TestAnOutcomeOutlivesTheConnectionOfItsReceipt(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	q := openQueue(t, g.Phorge)
	batch := []leased{g.leaseOf(t, dyingWorker, map[string]any{"duration": 1}), g.lease(t, nil)}
	call := g.newCall(t, batch...)
	answered := make(chan answer, 1)
	go func() {
		got, _ := g.send(t.Context(), call)
		answered <- got
	}()
	g.runs(t, batch[0])
	connection := q.count(t, "SELECT IS_USED_LOCK(processLock) FROM live_gantry.receipts WHERE taskID = ?", batch[0].ID)
	q.exec(t, "KILL ?", connection)
	want := []string{"done", "done"}
	if got := <-answered; !slices.Equal(got.states(), want) {
		t.Errorf("answered %s, want %q", got.text, want)
	}
	if got := g.lookup(t, batch...); !slices.Equal(got, want) {
		t.Errorf("the receipts say %q, want %q", got, want)
	}
}

// TestATripThatIsCutOffIsMadeAgain ends the connection, or the statement, while
// a claim waits for a row, after other statements of the same trip have
// answered. PHP takes a lost connection for answers that were not fetched.
func TestATripThatIsCutOffIsMadeAgain(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	q := openQueue(t, g.Phorge)
	for _, kill := range []string{"KILL ?", "KILL QUERY ?"} {
		t.Run(kill, func(t *testing.T) {
			batch := []leased{g.leaseOf(t, dyingWorker, map[string]any{"duration": 1}), g.lease(t, nil)}
			row, err := q.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer row.Rollback()
			if _, err := row.ExecContext(t.Context(), "SELECT id FROM worker_activetask WHERE id = ? FOR UPDATE", batch[1].ID); err != nil {
				t.Fatal(err)
			}
			call, answered := g.newCall(t, batch...), make(chan answer, 1)
			go func() {
				got, _ := g.send(t.Context(), call)
				answered <- got
			}()
			g.runs(t, batch[0])
			const waits = "FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO `live_gantry`.`receipts`%'"
			harness.Eventually(t, "the second claim waits for the row", func() bool { return q.count(t, "SELECT COUNT(*) "+waits) > 0 })
			q.exec(t, kill, q.count(t, "SELECT ID "+waits))
			if err := row.Rollback(); err != nil {
				t.Fatal(err)
			}
			g.doneOnce(t, <-answered, batch)
		})
	}
}

// TestAnOutcomeIsWrittenAlthoughItsStatementIsKilled ends the statement that
// writes the outcome of the last task of a call.
func TestAnOutcomeIsWrittenAlthoughItsStatementIsKilled(t *testing.T) {
	g := newGround(t)
	g.allowDying(t)
	q := openQueue(t, g.Phorge)
	batch := []leased{g.leaseOf(t, dyingWorker, map[string]any{"duration": 1})}
	call, answered := g.newCall(t, batch...), make(chan answer, 1)
	go func() {
		got, _ := g.send(t.Context(), call)
		answered <- got
	}()
	g.runs(t, batch[0])
	row, err := q.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Rollback()
	if _, err := row.ExecContext(t.Context(), "SELECT taskID FROM live_gantry.receipts WHERE taskID = ? FOR UPDATE", batch[0].ID); err != nil {
		t.Fatal(err)
	}
	const waits = "FROM information_schema.PROCESSLIST WHERE INFO LIKE 'UPDATE `live_gantry`.`receipts`%'"
	harness.Eventually(t, "the outcome waits for the row", func() bool { return q.count(t, "SELECT COUNT(*) "+waits) > 0 })
	q.exec(t, "KILL QUERY ?", q.count(t, "SELECT ID "+waits))
	if err := row.Rollback(); err != nil {
		t.Fatal(err)
	}
	g.doneOnce(t, <-answered, batch)
}

// doneOnce makes sure that every task of a call was executed once, and that the
// answer and the receipts say so.
func (g *ground) doneOnce(t *testing.T, got answer, batch []leased) {
	t.Helper()
	want := slices.Repeat([]string{"done"}, len(batch))
	if !slices.Equal(got.states(), want) {
		t.Errorf("answered %s, want %q", got.text, want)
	}
	if got := g.lookup(t, batch...); !slices.Equal(got, want) {
		t.Errorf("the receipts say %q, want %q", got, want)
	}
	for _, task := range batch {
		if n := g.ran(t, task.ID); n != 1 {
			t.Errorf("task %d ran %d times", task.ID, n)
		}
	}
}

// TestReceiptsAndNoncesGoWhenTheyHaveDoneTheirDuty calls until the garbage is
// collected, which one call in 64 does.
func TestReceiptsAndNoncesGoWhenTheyHaveDoneTheirDuty(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	over, held, recent := g.lease(t, nil), g.lease(t, nil), g.lease(t, nil)
	g.accepted(t, g.newCall(t, over))
	g.accepted(t, g.newCall(t, held))
	g.accepted(t, g.newCall(t, recent))
	q.exec(t, "UPDATE live_gantry.receipts SET epoch = epoch - 3600 WHERE taskID IN (?, ?)", over.ID, held.ID)
	q.exec(t, "UPDATE live_gantry.nonces SET epoch = epoch - 3600")
	q.exec(t, "DELETE FROM worker_activetask WHERE id IN (?, ?)", over.ID, recent.ID)
	for n := 0; q.count(t, "SELECT COUNT(*) FROM live_gantry.receipts WHERE taskID = ?", over.ID) == 1; n++ {
		if n == 2000 {
			t.Fatal("a receipt whose lease is gone is there after 2000 calls")
		}
		if _, err := g.send(t.Context(), g.newCall(t, held)); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.lookup(t, held, recent); !slices.Equal(got, []string{"done", "done"}) {
		t.Errorf("the receipts of a lease that is held and of a recent one are %q", got)
	}
	if n := q.count(t, "SELECT COUNT(*) FROM live_gantry.nonces WHERE epoch < UNIX_TIMESTAMP() - 3000"); n != 0 {
		t.Errorf("%d old nonces are left", n)
	}
}
