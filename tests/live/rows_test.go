package live

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// queue looks at the worker tables with SQL of its own, so that neither side
// answers for itself.
type queue struct{ *sql.DB }

func openQueue(t *testing.T, p *harness.Phorge) queue {
	t.Helper()
	db := harness.Open(t, p.DSN())
	return queue{db}
}

// row is what the tables say about a task.
type row struct {
	Archived bool
	Result   int // of an archived task
	Owner    string
	Expires  int64
	Failures int
	Priority int
}

// row answers a task, which must be in exactly one of the two tables.
func (q queue) row(t *testing.T, id int64) row {
	t.Helper()
	var active, archived row
	inQueue := q.scan(t, `SELECT IFNULL(leaseOwner, 'NULL'), IFNULL(leaseExpires, -1), failureCount, priority
		FROM worker_activetask WHERE id = ?`, id,
		&active.Owner, &active.Expires, &active.Failures, &active.Priority)
	archived.Archived = q.scan(t, `SELECT IFNULL(leaseOwner, 'NULL'), IFNULL(leaseExpires, -1), failureCount, priority, result
		FROM worker_archivetask WHERE id = ?`, id,
		&archived.Owner, &archived.Expires, &archived.Failures, &archived.Priority, &archived.Result)
	switch {
	case inQueue && archived.Archived:
		// It moved between the two reads.
		return archived
	case !inQueue && !archived.Archived:
		t.Fatalf("task %d is in neither table", id)
	case inQueue:
		return active
	}
	return archived
}

func (q queue) scan(t *testing.T, statement string, id int64, into ...any) (found bool) {
	t.Helper()
	err := q.QueryRow(statement, id).Scan(into...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("%s: %v", statement, err)
	}
	return err == nil
}

// count answers a number.
func (q queue) count(t *testing.T, statement string, args ...any) int {
	t.Helper()
	var n int
	if err := q.QueryRow(statement, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

func (q queue) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := q.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// status answers a status variable of the server.
func (q queue) status(t *testing.T, name string) int {
	t.Helper()
	return q.count(t, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = ?", name)
}

// lock locks rows, until release is called.
func (q queue) lock(t *testing.T, statement string) (release func()) {
	t.Helper()
	tx, err := q.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// owners answers the leaseOwner of every archived task, and fails on a task
// that did not succeed.
func (q queue) owners(t *testing.T) map[int64]string {
	t.Helper()
	rows, err := q.Query("SELECT id, IFNULL(leaseOwner, 'NULL'), result FROM worker_archivetask")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	owners := map[int64]string{}
	for rows.Next() {
		var id int64
		var owner string
		var result int
		if err := rows.Scan(&id, &owner, &result); err != nil {
			t.Fatal(err)
		}
		if result != 0 {
			t.Errorf("task %d was archived with result %d", id, result)
		}
		owners[id] = owner
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return owners
}

// drained waits until no task is left in the queue.
func (q queue) drained(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "the queue is empty", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_activetask") == 0
	})
}

// phpRuns answers how often PHP executed each task, and in which process it
// did so last.
func phpRuns(t *testing.T, p *harness.Phorge) (runs, pids map[int64]int) {
	t.Helper()
	executions, err := p.Executions()
	if err != nil {
		t.Fatal(err)
	}
	runs, pids = map[int64]int{}, map[int64]int{}
	for _, e := range executions {
		runs[e.ID]++
		pids[e.ID] = e.PID
	}
	return runs, pids
}

func (r row) String() string {
	if r.Archived {
		return fmt.Sprintf("archived with result %d, owner %s, %d failures, priority %d", r.Result, r.Owner, r.Failures, r.Priority)
	}
	return fmt.Sprintf("active, owner %s, expires %d, %d failures, priority %d", r.Owner, r.Expires, r.Failures, r.Priority)
}

func itoa(id int64) string { return strconv.FormatInt(id, 10) }
