package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// queue is a namespace of the shared server, as SQL sees it.
type queue struct {
	t   testing.TB
	dsn string
	db  *sql.DB
}

func newQueue(t testing.TB) *queue {
	t.Helper()
	dsn := harness.Namespace(t)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &queue{t, dsn, db}
}

// open answers a store on the queue: another Gantry process.
func (q *queue) open(configure ...func(*Config)) *Store {
	q.t.Helper()
	c := Config{DSN: q.dsn, Host: "test"}
	for _, f := range configure {
		f(&c)
	}
	s, err := Open(context.Background(), c)
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { s.Close() })
	return s
}

func (q *queue) exec(statement string, args ...any) {
	q.t.Helper()
	if _, err := q.db.ExecContext(context.Background(), statement, args...); err != nil {
		q.t.Fatalf("%s: %v", statement, err)
	}
}

func (q *queue) number(statement string, args ...any) (n int64) {
	q.t.Helper()
	if err := q.db.QueryRowContext(context.Background(), statement, args...).Scan(&n); err != nil {
		q.t.Fatalf("%s: %v", statement, err)
	}
	return n
}

// rows is a range of ids to be inserted. The columns are SQL over seq, the id.
type rows struct {
	from, to                        int64
	class, owner, expires, priority string
}

// fill inserts rows as fast as the server can. Only the first thousand of a
// range have data.
func (q *queue) fill(all ...rows) {
	q.t.Helper()
	for _, r := range all {
		for column, otherwise := range map[*string]string{
			&r.class: "'A'", &r.owner: "NULL", &r.expires: "NULL", &r.priority: "2000",
		} {
			if *column == "" {
				*column = otherwise
			}
		}
		q.exec(fmt.Sprintf(`INSERT INTO worker_activetask
(id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, priority, dateCreated, dateModified)
SELECT seq, %s, %s, %s, 0, seq, %s, 1, 1 FROM seq_%d_to_%d`, r.class, r.owner, r.expires, r.priority, r.from, r.to))
		q.exec(fmt.Sprintf(`INSERT INTO worker_taskdata (id, data)
SELECT seq, CONCAT('{"n":', seq, '}') FROM seq_%d_to_%d`, r.from, min(r.to, r.from+999)))
		q.exec(`INSERT INTO lisk_counter VALUES ('worker_activetask', ?)
ON DUPLICATE KEY UPDATE counterValue = GREATEST(counterValue, VALUES(counterValue))`, r.to)
	}
}

// entries answers a function that counts the index entries which the server
// reads while do runs.
func (q *queue) entries() func(do func()) int64 {
	own := -q.handlerReads() + q.handlerReads() // SHOW STATUS itself reads a table
	return func(do func()) int64 {
		q.t.Helper()
		before := q.handlerReads()
		do()
		return q.handlerReads() - before - own
	}
}

func (q *queue) handlerReads() (sum int64) {
	q.t.Helper()
	found, err := q.db.QueryContext(context.Background(), "SHOW GLOBAL STATUS LIKE 'Handler_read%'")
	if err != nil {
		q.t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var name string
		var n int64
		if err := found.Scan(&name, &n); err != nil {
			q.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// lease makes one call. A search that goes on is no error here.
func lease(t testing.TB, s *Store, req tasks.LeaseRequest) []tasks.Task {
	t.Helper()
	leased, err := s.Lease(context.Background(), req)
	if err != nil && !errors.Is(err, tasks.ErrSearching) {
		t.Fatal(err)
	}
	return leased
}

func idsOf(leased []tasks.Task) []int64 {
	ids := make([]int64, len(leased))
	for i, task := range leased {
		ids[i] = task.ID
	}
	return ids
}
