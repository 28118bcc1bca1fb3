package endtoend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// mixture is n tasks of every deed, in turn.
func mixture(n int) (deeds []deed) {
	kinds := []deed{succeed, spread, retry, crash, yield, fail}
	for i := range n {
		deeds = append(deeds, kinds[i%len(kinds)])
	}
	return deeds
}

// isDone checks that every task and every follow-up came to its result.
func (w *world) isDone(rows map[int64]tasks.Record, ids []int64, deeds []deed) {
	w.Helper()
	want := len(ids)
	for i, id := range ids {
		if deeds[i] == spread {
			want += 2
		}
		if row := rows[id]; row.Archive == nil || row.Result != deeds[i].result() {
			w.Errorf("task %d, which was to %s, stands at %v, archived as %+v", id, deeds[i], row.Place, row.Archive)
		}
	}
	if len(rows) != want {
		w.Errorf("there are %d tasks, want %d", len(rows), want)
	}
}

// The leases are swept again and again meanwhile, as `phd start` does.
func TestTwoProcessesDrainOneQueueWhileItsLeasesAreSwept(t *testing.T) {
	w := newWorld(t, harness.Namespace(t))
	work := &doer{}
	a, b := w.node(work, 8), w.node(work, 8)
	deeds := append(mixture(1800), slow, slow, slow, slow)
	ids := w.enqueue(deeds...)
	w.must(a.Start())
	w.must(b.Start())
	for round := range 4 {
		harness.Eventually(t, "some tasks are done", func() bool {
			return a.Stats().Settled()+b.Stats().Settled() > round*500
		})
		w.must(a.recorder.Disturb(nil, w.sweep))
	}
	w.empty()
	if a.Stats().Settled() == 0 || b.Stats().Settled() == 0 {
		t.Error("one process did all the work")
	}
	w.isDone(w.prove(), ids, deeds)
}

// sweep expires every lease, in a statement that locks rows in another order
// than Gantry does: beside heavy writes the server often has to break a deadlock
// by refusing it.
func (w *world) sweep() error {
	for {
		_, err := w.db.Exec(`UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() WHERE leaseExpires > UNIX_TIMESTAMP()`)
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != 1213 {
			return err
		}
	}
}

func TestAServerThatDiesInMidDrainLosesNothingAndDoublesNothing(t *testing.T) {
	server, err := scratch.Start(scratch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	if err := harness.CreateNamespace(server, "outage"); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, server.DSN("outage_worker"))
	n := w.node(&doer{}, 8)
	deeds := append([]deed{slow, slow}, mixture(3000)...) // the slow ones outlast the outage
	ids := w.enqueue(deeds...)
	w.must(n.Start())
	harness.Eventually(t, "the drain is under way", func() bool { return n.Stats().Settled() > 100 })
	w.must(server.Kill())
	harness.Eventually(t, "the runtime notices", func() bool { return n.Ready() != nil })
	w.must(server.Restart())
	harness.Eventually(t, "the runtime recovers", func() bool { return n.Ready() == nil })
	w.empty()
	w.isDone(w.prove(), ids, deeds)
}

// Whatever place a task was leased from, it stands there again, and nothing is
// counted.
func TestAStopPutsTasksBackToTheirPlaces(t *testing.T) {
	places := []struct {
		name, owner, expires string
		back                 string // how the owner begins afterwards; the expiry stays
	}{
		{"never leased", "NULL", "NULL", "NULL"},
		{"retried by bin/worker", "NULL", "0", "NULL"},
		{"freed", "NULL", "1000", "NULL"},
		{"yielded", "'(yield)'", "1000", "(yield)"},
		{"failed", "'(retry):1a:2'", "1000", "(retry):1a:2"},
		{"left by a dead taskmaster", "'1234:1700000000:host:5'", "1000", "(back):"},
	}
	w := newWorld(t, harness.Namespace(t))
	n := w.node(tasks.ExecutorFunc(func(ctx context.Context, _ tasks.Task) tasks.Outcome {
		<-ctx.Done()
		return tasks.Outcome{Kind: tasks.Retry}
	}), len(places))
	ids := w.enqueue(slices.Repeat([]deed{succeed}, len(places))...)
	for i, p := range places {
		_, err := w.db.Exec(fmt.Sprintf(`UPDATE worker_activetask SET leaseOwner = %s, leaseExpires = %s WHERE id = ?`, p.owner, p.expires), ids[i])
		w.must(err)
	}
	w.must(n.Start())
	harness.Eventually(t, "all tasks run", func() bool { return n.Stats().Running == len(places) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w.must(n.Drain(ctx))
	for i, p := range places {
		row := w.row(ids[i])
		owner, expires := columns(row.Place)
		if !strings.HasPrefix(owner, p.back) || expires != p.expires || row.FailureCount != 0 || row.Archive != nil {
			t.Errorf("a task that was %s stands at (%s, %s) with failureCount %d, want (%s, %s) and 0",
				p.name, owner, expires, row.FailureCount, p.back, p.expires)
		}
	}
}

// columns answers leaseOwner and leaseExpires as SQL writes them.
func columns(p tasks.Place) (owner, expires string) {
	owner, expires = "NULL", "NULL"
	if p.Owner != nil {
		owner = *p.Owner
	}
	if p.Expires != nil {
		expires = fmt.Sprint(*p.Expires)
	}
	return owner, expires
}

func TestB03AStolenLeaseStopsTheWorkAndTheThiefIsLeftAlone(t *testing.T) {
	w := newWorld(t, harness.Namespace(t))
	stopped := make(chan int64, 1)
	n := w.node(tasks.ExecutorFunc(func(ctx context.Context, task tasks.Task) tasks.Outcome {
		if string(task.Data) == `"slow"` {
			<-ctx.Done()
			stopped <- task.ID
		}
		return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: newTasks(succeed)}
	}), 1)
	ids := w.enqueue(slow)
	w.must(n.Start())
	harness.Eventually(t, "the task runs", func() bool { return n.Stats().Running == 1 })
	_, err := w.db.Exec(`UPDATE worker_activetask SET leaseOwner = 'thief', leaseExpires = UNIX_TIMESTAMP() + 3600 WHERE id = ?`, ids[0])
	w.must(err)
	if id := <-stopped; id != ids[0] {
		t.Errorf("task %d was stopped", id)
	}
	next := w.enqueue(succeed)
	harness.Eventually(t, "the runtime goes on", func() bool { return w.row(next[0]).Archive != nil })
	w.must(n.Close())
	if row := w.row(ids[0]); row.Archive != nil || *row.Owner != "thief" || row.FailureCount != 0 {
		t.Errorf("the thief's row is %+v, archived as %+v", row.Task, row.Archive)
	}
	if got := n.Stats(); got.Lost != 1 {
		t.Errorf("%d leases were counted as lost", got.Lost)
	}
}
