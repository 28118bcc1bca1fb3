package live

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// heraldEntry is what the manifest says of handler-herald.
const heraldEntry = "    phorge: true\n    classes:\n      " + harness.WebhookWorker + ": {}\n"

// oneHook queues so many calls of one webhook, whose receiver is given.
func oneHook(t *testing.T, p *harness.Phorge, receiver *harness.Receiver, calls int) []int64 {
	t.Helper()
	return hooks(t, p, receiver, 1, calls)
}

// hooks queues calls of webhooks, each of which gets its turn.
func hooks(t *testing.T, p *harness.Phorge, receiver *harness.Receiver, count, calls int) []int64 {
	t.Helper()
	queued := slices.Repeat([]tasks.NewTask{{Class: harness.WebhookWorker, Data: []byte("{}")}}, calls)
	ids, err := openStore(t, p).Enqueue(t.Context(), queued)
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.MakeWebhooks(t.Context(), receiver.URL(), count)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

func startReceiver(t *testing.T, answer step) *harness.Receiver {
	t.Helper()
	r, err := harness.StartReceiver(func(call context.Context) { answer(call) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A hook that is being called makes every other task for it yield. It must cost
// no connection that stays, as it once did in Phorge.
func TestB29TasksThatWaitForOneHookLeakNoConnections(t *testing.T) {
	const count, most = 10_000, 64
	p := harness.Live(t)
	q := openQueue(t, p)
	receiver := startReceiver(t, takes(100*time.Millisecond))
	oneHook(t, p, receiver, count)
	q.exec(t, "SET GLOBAL max_connections = 200")
	defer q.exec(t, "SET GLOBAL max_connections = DEFAULT")
	gantry, args := pinned(t, p, "handler-herald", heraldEntry)
	q.exec(t, "FLUSH STATUS") // Max_used_connections counts from here
	before := q.status(t, "Max_used_connections")

	run := startGantryRun(t, gantry, append(args, "--slots", "32", "--php", "off")...)
	harness.Eventually(t, "every task is tried", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner IS NULL") == 0
	})
	held := q.status(t, "Threads_connected")
	if err := run.stop(); err != nil {
		t.Errorf("gantry run ended with %v", err)
	}

	sent := q.count(t, "SELECT COUNT(*) FROM live_herald.herald_webhookrequest WHERE status = 'sent' AND lastRequestResult = 'okay'")
	yielded := q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner = ?", tasks.YieldOwner)
	left := q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE failureCount = 0")
	if calls := receiver.Calls(); calls != sent || sent < 10 || sent+left != count || yielded < count*9/10 {
		t.Errorf("of %d tasks, %d made calls, %d of which are noted as sent, and %d are left without a failure, %d of which yielded",
			count, calls, sent, left, yielded)
	}
	if n := len(q.owners(t)); n != sent {
		t.Errorf("%d tasks are archived, and %d calls were sent", n, sent)
	}
	if err := receiver.Together(); err != nil {
		t.Error(err)
	}
	peak := q.status(t, "Max_used_connections")
	if peak-before > most || held-before > most {
		t.Errorf("%d connections were held at once, and %d at the end, beside %d of others; want at most %d", peak-before, held-before, before, most)
	}
	t.Logf("%d tasks of one hook: %d called it and %d yielded; %d connections at most", count, sent, yielded, peak-before)
}

// A deploy stops a Gantry while a hook is called, or when the receiver has
// answered and the answer is not noted yet. The instance beside it must not call
// the hook again, then or before.
func TestB46AStopInTheMiddleOfACallRepeatsNothing(t *testing.T) {
	p := harness.Live(t)
	q := openQueue(t, p)
	gantry, args := pinned(t, p, "handler-herald", heraldEntry)
	args = append(args, "--php", "off", "--lease", "2s")
	for _, stop := range []struct {
		name    string
		early   bool // before the receiver answers
		signals int
		says    string // in the log of Gantry, before anything else goes on
	}{
		{"while the receiver works", true, 1, "runtime stops"},
		{"before the note", false, 1, "runtime stops"},
		{"before the note, at once", false, 2, "running tasks are cancelled"},
	} {
		t.Run(stop.name, func(t *testing.T) {
			harness.Live(t) // empties the queue
			gate := newGate()
			defer gate.release()
			receiver := startReceiver(t, gate.step)
			id := oneHook(t, p, receiver, 1)[0]

			leaving := startGantryRun(t, gantry, args...)
			harness.Eventually(t, "the hook is called", func() bool { return receiver.Calls() == 1 })
			staying := startGantryRun(t, gantry, args...)
			harness.Eventually(t, "the other instance runs", func() bool { return strings.Contains(staying.log.String(), "runtime started") })
			for range 2 { // the lease that there was when the other started is over then
				lease := q.row(t, id).Expires
				harness.Eventually(t, "the lease is renewed", func() bool { return q.row(t, id).Expires > lease })
			}

			signal := func() {
				for range stop.signals {
					if err := leaving.Process.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
					// The second would be lost while the first is pending.
					harness.Eventually(t, "the signal is noticed", func() bool { return strings.Contains(leaving.log.String(), "stopping") })
				}
				harness.Eventually(t, "the instance stops", func() bool { return strings.Contains(leaving.log.String(), stop.says) })
			}
			if stop.early {
				signal()
			}
			noted := q.lock(t, "SELECT id FROM live_herald.herald_webhookrequest FOR UPDATE")
			gate.release()
			harness.Eventually(t, "the note waits for the row", func() bool {
				return q.status(t, "Innodb_row_lock_current_waits") == 1
			})
			if !stop.early {
				signal()
			}
			noted()
			if err := leaving.Wait(); err != nil {
				t.Errorf("gantry run ended with %v", err)
			}

			if got := q.row(t, id); !got.Archived || got.Result != tasks.ResultSuccess || got.Failures != 0 {
				t.Errorf("the task is %v; want it archived as a success of the first attempt", got)
			}
			if n := q.count(t, "SELECT COUNT(*) FROM live_herald.herald_webhookrequest WHERE status = 'sent' AND lastRequestResult = 'okay'"); n != 1 {
				t.Error("the result of the call was not saved")
			}
			if err := staying.stop(); err != nil {
				t.Errorf("the other instance ended with %v", err)
			}
			if calls := receiver.Calls(); calls != 1 {
				t.Errorf("the hook was called %d times", calls)
			}
		})
	}
}

// A restart of the database ends the lock under which a hook is called, and
// nobody can note a result for a while. The hook has been called all the same.
func TestB46ARestartOfTheDatabaseInTheMiddleOfACallRepeatsNothing(t *testing.T) {
	p := harness.Live(t)
	server := harness.Shared(t)
	gantry, args := pinned(t, p, "handler-herald", heraldEntry)
	for _, how := range []string{"shut down", "killed"} {
		t.Run(how, func(t *testing.T) {
			harness.Live(t) // empties the queue
			q := openQueue(t, p)
			gate := newGate()
			defer gate.release()
			receiver := startReceiver(t, gate.step)
			ids := hooks(t, p, receiver, 2, 2)
			later := "UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = UNIX_TIMESTAMP() + ? WHERE id = ?"
			q.exec(t, later, tasks.DelayOwner, 3600, ids[1])
			run := startGantryRun(t, gantry, append(args, "--php", "off")...)
			harness.Eventually(t, "the hook is called", func() bool { return receiver.Calls() == 1 })

			if how == "killed" {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			// Locks share a connection: who takes another one finds it dead.
			q.exec(t, later, tasks.DelayOwner, -1, ids[1])
			harness.Eventually(t, "the other hook is tried", func() bool {
				return receiver.Calls() == 2 || q.row(t, ids[1]).Failures > 0
			})
			gate.release()
			harness.Eventually(t, "the task ends", func() bool {
				row := q.row(t, ids[0])
				return row.Archived || row.Failures > 0
			})

			if got := q.row(t, ids[0]); !got.Archived || got.Result != tasks.ResultSuccess || got.Failures != 0 {
				t.Errorf("the task is %v; want it archived as a success of the first attempt", got)
			}
			const sent = "SELECT COUNT(*) FROM live_herald.herald_webhookrequest WHERE phid = CONCAT('PHID-HWBR-', LPAD(?, 20, '0')) AND status = 'sent'"
			if q.count(t, sent, ids[0]) != 1 {
				t.Error("the result of the call was not saved")
			}
			if err := run.stop(); err != nil {
				t.Errorf("gantry run ended with %v", err)
			}
		})
	}
}
