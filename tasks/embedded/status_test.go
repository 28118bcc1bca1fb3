package embedded

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// work is what SQLite did for the statements of a connection.
type work struct {
	steps int // of its virtual machine: each row or index entry takes some
	scans int // rows passed over in a scan of a whole table
	sorts int // sorts
	runs  map[string]int
}

// worked sums up what SQLite counted for every statement that a connection
// keeps. The driver has no call for it.
func worked(t testing.TB, c *conn) work {
	t.Helper()
	w := work{runs: map[string]int{}}
	err := c.Raw(func(driverConn any) error {
		fields := reflect.ValueOf(driverConn).Elem()
		tls := (*libc.TLS)(fields.FieldByName("tls").UnsafePointer())
		db := uintptr(fields.FieldByName("db").Uint())
		for s := sqlite3.Xsqlite3_next_stmt(tls, db, 0); s != 0; s = sqlite3.Xsqlite3_next_stmt(tls, db, s) {
			count := func(what int32) int { return int(sqlite3.Xsqlite3_stmt_status(tls, s, what, 0)) }
			w.steps += count(sqlite3.SQLITE_STMTSTATUS_VM_STEP)
			w.sorts += count(sqlite3.SQLITE_STMTSTATUS_SORT) + count(sqlite3.SQLITE_STMTSTATUS_AUTOINDEX)
			text := libc.GoString(sqlite3.Xsqlite3_sql(tls, s))
			w.runs[text] += count(sqlite3.SQLITE_STMTSTATUS_RUN)
			if !strings.Contains(text, "json_each") && !strings.Contains(text, "WITH RECURSIVE") && !strings.Contains(text, "FROM queue") {
				w.scans += count(sqlite3.SQLITE_STMTSTATUS_FULLSCAN_STEP)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// allConns runs something with each connection of a store that nobody uses.
func (s *Store) allConns(do func(*conn)) {
	do(s.writer.conn)
	for range readConns {
		c := <-s.readers
		do(c)
		s.readers <- c
	}
}

// during answers what SQLite did while f ran.
func during(t testing.TB, s *Store, f func()) work {
	t.Helper()
	var before, after work
	s.allConns(func(c *conn) { before.add(worked(t, c)) })
	f()
	s.allConns(func(c *conn) { after.add(worked(t, c)) })
	runs := map[string]int{}
	for text, n := range after.runs {
		runs[text] = n - before.runs[text]
	}
	return work{after.steps - before.steps, after.scans - before.scans, after.sorts - before.sorts, runs}
}

func (w *work) add(other work) {
	w.steps += other.steps
	w.scans += other.scans
	w.sorts += other.sorts
	if w.runs == nil {
		w.runs = map[string]int{}
	}
	for text, n := range other.runs {
		w.runs[text] += n
	}
}

// plan answers the lines of EXPLAIN QUERY PLAN.
func plan(t testing.TB, c *conn, query string) (lines []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	found, err := c.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer found.Close()
	for found.Next() {
		var ignored int
		var line string
		if err := found.Scan(&ignored, &ignored, &ignored, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}
