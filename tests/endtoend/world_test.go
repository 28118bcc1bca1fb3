// Package endtoend runs the runtime on the Phorge store in a real MariaDB, and
// proves from the recorded history that nothing was lost or doubled.
package endtoend

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const class = "Work"

// world is one queue, and the processes that work on it.
type world struct {
	*testing.T
	dsn   string
	db    *sql.DB
	nodes []*node
}

// node is one Gantry process: a runtime with a store handle of its own.
type node struct {
	*runtime.Runtime
	store    *phorge.Store
	recorder *storetest.Recorder
	history  bytes.Buffer
}

func newWorld(t *testing.T, dsn string) *world {
	t.Helper()
	db := harness.Open(t, dsn)
	return &world{T: t, dsn: dsn, db: db}
}

// node makes a process that runs tasks with an executor. It is not started.
func (w *world) node(executor tasks.Executor, slots int, change ...func(*runtime.Config)) *node {
	w.Helper()
	store, err := phorge.Open(w.Context(), phorge.Config{DSN: w.dsn})
	w.must(err)
	w.Cleanup(func() { store.Close() })
	n := &node{store: store}
	n.recorder = storetest.NewRecorder(store, &n.history)
	c := runtime.Config{
		Store:     n.recorder,
		Classes:   map[string]runtime.Class{class: {Executor: n.recorder.Executor(executor)}},
		Slots:     slots,
		LeaseTime: 3 * time.Second,
	}
	for _, f := range change {
		f(&c)
	}
	n.Runtime, err = runtime.New(c)
	w.must(err)
	w.Cleanup(func() { n.Close() })
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// enqueue queues a task for each deed, through the first process.
func (w *world) enqueue(deeds ...deed) []int64 {
	w.Helper()
	ids, err := w.nodes[0].recorder.Enqueue(w.Context(), newTasks(deeds...))
	w.must(err)
	return ids
}

func newTasks(deeds ...deed) (news []tasks.NewTask) {
	for _, d := range deeds {
		news = append(news, tasks.NewTask{Class: class, Data: strconv.AppendQuote(nil, string(d))})
	}
	return news
}

// empty waits until every task is archived.
func (w *world) empty() {
	w.Helper()
	harness.Eventually(w, "every task is archived", func() bool {
		var left int
		return w.db.QueryRow(`SELECT COUNT(*) FROM worker_activetask`).Scan(&left) == nil && left == 0
	})
}

// rows answers every task, active and archived.
func (w *world) rows() (all []tasks.Record) {
	w.Helper()
	for _, state := range []tasks.State{tasks.Active, tasks.Archived} {
		for after := int64(0); ; {
			page, err := w.nodes[0].store.List(w.Context(), tasks.Filter{State: state, After: after, Limit: 1000})
			w.must(err)
			all = append(all, page.Tasks...)
			if after = page.Next; after == 0 {
				break
			}
		}
	}
	return all
}

func (w *world) row(id int64) tasks.Record {
	w.Helper()
	record, err := w.nodes[0].store.Get(w.Context(), id)
	w.must(err)
	return record
}

// prove closes the processes, checks what they recorded against the rows, and
// answers the rows by id.
func (w *world) prove() map[int64]tasks.Record {
	w.Helper()
	var history []storetest.Event
	for _, n := range w.nodes {
		w.must(n.Close())
		events, err := storetest.ReadHistory(&n.history)
		w.must(err)
		history = append(history, events...)
	}
	rows := w.rows()
	report := storetest.Check(history, rows)
	for _, v := range report.Violations {
		w.Error(v)
	}
	w.Logf("%d tasks, %d archived; %d executions, of them repeated because they asked for it: %d, because a lease was lost: %d",
		report.Tasks, report.Archived, report.Executions, report.Asked, report.Lost)
	byID := map[int64]tasks.Record{}
	for _, row := range rows {
		byID[row.ID] = row
	}
	return byID
}

// deed is what a task is to do: its data.
type deed string

const (
	succeed deed = "succeed"
	spread  deed = "spread" // succeeds with two follow-ups
	slow    deed = "slow"   // succeeds after more than a lease time
	retry   deed = "retry"  // fails once, then succeeds
	crash   deed = "crash"  // takes its process down once, then succeeds
	yield   deed = "yield"  // yields once, then succeeds
	fail    deed = "fail"   // fails permanently
)

// result is the result that a task of the deed is archived with.
func (d deed) result() int {
	if d == fail {
		return tasks.ResultFailure
	}
	return tasks.ResultSuccess
}

// doer does the deeds.
type doer struct{ yielded sync.Map }

func (*doer) Ready(string) bool { return true }

func (d *doer) Execute(ctx context.Context, task tasks.Task, _ func(time.Duration)) tasks.Outcome {
	var do deed
	if err := json.Unmarshal(task.Data, &do); err != nil {
		return tasks.Outcome{Kind: tasks.Failed, Reason: err.Error()}
	}
	switch {
	case do == spread:
		return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: newTasks(succeed, succeed)}
	case do == slow:
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
			return tasks.Outcome{Kind: tasks.Retry}
		}
	case do == retry && task.FailureCount == 0:
		return tasks.Outcome{Kind: tasks.Retry, Wait: -time.Second}
	case do == crash && task.FailureCount == 0:
		return tasks.Outcome{Kind: tasks.Crashed, Wait: -time.Second}
	case do == yield:
		if _, again := d.yielded.LoadOrStore(task.ID, true); !again {
			return tasks.Outcome{Kind: tasks.Yielded}
		}
	case do == fail:
		return tasks.Outcome{Kind: tasks.Failed}
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}
