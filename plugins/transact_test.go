package plugins_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// rival is somebody else's transaction in the table of hooks.
type rival struct {
	t     testing.TB
	db    *sql.DB
	conn  *sql.Conn
	table string
	done  chan error
}

// newRival holds the second and the third hook, and has written so much that a
// deadlock is not at its cost.
func newRival(t testing.TB, db *sql.DB, s *plugins.Site) *rival {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &rival{t: t, db: db, conn: conn, table: s.Namespace + "_herald.hook"}
	r.run("BEGIN")
	r.run("UPDATE " + r.table + " SET name = 'rival' WHERE id IN (2, 3)")
	r.run("INSERT INTO " + r.table + " (name) VALUES ('x'), ('y'), ('z')")
	t.Cleanup(r.leave)
	return r
}

func (r *rival) run(query string) {
	r.t.Helper()
	if _, err := r.conn.ExecContext(context.Background(), query); err != nil {
		r.t.Errorf("the rival's %s: %v", query, err)
	}
}

// wantsTheFirst has the rival wait for the first hook.
func (r *rival) wantsTheFirst() {
	r.t.Helper()
	r.done = make(chan error, 1)
	go func() {
		_, err := r.conn.ExecContext(context.Background(), "UPDATE "+r.table+" SET name = 'rival' WHERE id = 1")
		r.done <- err
	}()
	harness.Eventually(r.t, "the rival waits", func() bool {
		var name string
		var waits int
		err := r.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &waits)
		return err == nil && waits == 1
	})
}

// leave undoes what the rival wrote.
func (r *rival) leave() {
	if r.conn == nil {
		return
	}
	if r.done != nil {
		if err := <-r.done; err != nil {
			r.t.Errorf("the rival: %v", err)
		}
	}
	r.run("ROLLBACK")
	r.conn.Close()
	r.conn = nil
}

// loses runs two statements, of which the second meets a deadlock, and answers
// its error.
func (r *rival) loses(ctx context.Context, on plugins.DB) error {
	r.t.Helper()
	if _, err := on.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 1"); err != nil {
		r.t.Error(err)
	}
	r.wantsTheFirst()
	_, err := on.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 2")
	if !isNumber(err, 1213) {
		r.t.Errorf("a deadlock answers %v", err)
	}
	r.leave()
	return err
}

func isNumber(err error, number uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && refused.Number == number
}

func TestATransactionThatADeadlockEndedIsNotCommittedInHalf(t *testing.T) {
	for name, answer := range map[string]error{"nil": nil, "another error": errors.New("gave up")} {
		t.Run(name, func(t *testing.T) {
			s, db := site(t)
			rival := newRival(t, db, s)
			at(t, s, func(ctx context.Context, task *plugins.Task) error {
				err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
					rival.loses(ctx, tx)
					_, err := tx.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 3")
					wants(t, "a statement after it", err, "the server has ended the transaction")
					wants(t, "a query after it", tx.QueryRow(ctx, "SELECT 1").Scan(new(int)), "the server has ended the transaction")
					return answer
				})
				if !isNumber(err, 1213) || answer != nil && !errors.Is(err, answer) {
					t.Errorf("Transact answers %v", err)
				}
				if got := names(t, db, s); got != "one,two,three" {
					t.Errorf("the table holds %s", got)
				}
				return task.Transact(ctx, "herald", func(tx plugins.DB) error { // tried again
					_, err := tx.Exec(ctx, "UPDATE hook SET name = 'again' WHERE id = 1")
					return err
				})
			})
			if got := names(t, db, s); got != "again,two,three" {
				t.Errorf("in the end the table holds %s", got)
			}
		})
	}
}

func TestADeadlockIsSeenThoughNothingIsRunAfterIt(t *testing.T) {
	s, db := site(t)
	rival := newRival(t, db, s)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
			rival.loses(ctx, tx)
			return nil
		})
		if !isNumber(err, 1213) {
			t.Errorf("Transact answers %v", err)
		}
		return nil
	})
	if got := names(t, db, s); got != "one,two,three" {
		t.Errorf("the table holds %s", got)
	}
}

// A deadlock behind the first row of a query shows to nobody who closes the
// rows after it.
func TestADeadlockBehindRowsThatNobodyReadsIsSeen(t *testing.T) {
	both := func(t *testing.T, run func(plugins.Handler, *plugins.Site) tasks.Outcome) {
		s, db := site(t)
		// More rows than the server sends at once.
		execute(t, db, "INSERT INTO "+s.Namespace+"_herald.hook (id, name) SELECT seq, 'many' FROM "+s.Namespace+"_herald.seq_100_to_20000")
		rival := newRival(t, db, s)
		rival.run("UPDATE " + rival.table + " SET name = 'rival' WHERE id = 20000")
		rival.run("INSERT INTO " + rival.table + " (id, name) SELECT seq, 'weight' FROM " + s.Namespace + "_herald.seq_30000_to_33000")
		outcome := run(handler(func(ctx context.Context, task *plugins.Task) error {
			err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
				if _, err := tx.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 1"); err != nil {
					return err
				}
				rival.wantsTheFirst()
				rows, err := tx.Query(ctx, "SELECT id, REPEAT('x', 100) FROM hook WHERE id >= 100 FOR UPDATE")
				if err != nil {
					return err
				}
				if !rows.Next() {
					t.Errorf("no row was sent before the deadlock: %v", rows.Err())
				}
				if err := rows.Close(); !isNumber(err, 1213) {
					t.Errorf("closing answers %v", err)
				}
				rival.leave()
				_, err = tx.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 2")
				return err
			})
			wants(t, "Transact", err, "the server has ended the transaction")
			return nil
		}), s)
		if outcome.Kind != tasks.Succeeded {
			t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
		}
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM " + s.Namespace + "_herald.hook WHERE name = 'mine'").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d hooks were written, %v", n, err)
		}
	}
	t.Run("for real", func(t *testing.T) {
		both(t, func(h plugins.Handler, s *plugins.Site) tasks.Outcome {
			return h.ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
		})
	})
	t.Run("in shadow", func(t *testing.T) {
		both(t, func(h plugins.Handler, s *plugins.Site) tasks.Outcome {
			outcome, effects := h.Shadow(t.Context(), s, tasks.Task{ID: 1})
			if len(effects.Writes) != 0 {
				t.Errorf("noted, and undone: %+v", effects.Writes)
			}
			return outcome
		})
	})
}

// fails runs a transaction whose second statement fails by the error that is
// given, and whose third is run all the same.
func fails(t *testing.T, s *plugins.Site, db *sql.DB, number uint16, meanwhile func(read int), second string) (err error) {
	t.Helper()
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		err = task.Transact(ctx, "herald", func(tx plugins.DB) error {
			if _, err := tx.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 1"); err != nil {
				return err
			}
			var id int
			if err := tx.QueryRow(ctx, "SELECT CONNECTION_ID() FROM hook WHERE id = 2").Scan(&id); err != nil {
				return err
			}
			meanwhile(id)
			if _, err := tx.Exec(ctx, second); number != 0 && !isNumber(err, number) {
				t.Errorf("the statement answers %v", err)
			}
			tx.Exec(ctx, "UPDATE hook SET name = 'mine' WHERE id = 3")
			return nil
		})
		return nil
	})
	return err
}

func TestAnErrorThatEndsOnlyItsStatementLeavesTheTransaction(t *testing.T) {
	s, db := site(t)
	if err := fails(t, s, db, 1062, func(int) {}, "INSERT INTO hook (id, name) VALUES (1, 'twice')"); err != nil {
		t.Error(err)
	}
	if got := names(t, db, s); got != "mine,two,mine" {
		t.Errorf("the table holds %s", got)
	}
}

func TestWhatElseEndsATransactionLeavesNoHalf(t *testing.T) {
	s, db := site(t)
	herald := s.DSNs["herald"]
	with := func(variable string) {
		separator := "?"
		if strings.Contains(herald, "?") {
			separator = "&"
		}
		s.DSNs["herald"] = herald + separator + variable
		s.Close()
		s = &plugins.Site{Namespace: s.Namespace, DSNs: s.DSNs}
	}
	unchanged := func(what, want string, err error) {
		t.Helper()
		wants(t, what, err, want)
		if got := names(t, db, s); !strings.HasPrefix(got, "one,") || !strings.HasSuffix(got, ",three") {
			t.Errorf("%s: the table holds %s", what, got)
		}
	}
	second := "UPDATE hook SET name = 'mine' WHERE id = 2"
	unchanged("a connection that was killed", "the connection died", fails(t, s, db, 0, func(id int) { execute(t, db, fmt.Sprintf("KILL %d", id)) }, second))
	with("innodb_snapshot_isolation=1")
	unchanged("a row that changed since it was read", "the server has ended the transaction", fails(t, s, db, 1020, func(int) {
		execute(t, db, "UPDATE "+s.Namespace+"_herald.hook SET name = 'changed' WHERE id = 2")
	}, second))
	s.Close()
}

func TestALockWaitThatIsGivenUpEndsATransactionWhereTheServerSaysSo(t *testing.T) {
	for _, option := range []string{"OFF", "ON"} {
		t.Run(option, func(t *testing.T) {
			server, err := scratch.Start(scratch.Options{Args: []string{"--innodb-rollback-on-timeout=" + option, "--innodb-lock-wait-timeout=1"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			db, err := sql.Open("mysql", server.DSN(""))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			execute(t, db, "CREATE DATABASE ns_herald")
			execute(t, db, "CREATE TABLE ns_herald.hook (id INT PRIMARY KEY, name VARCHAR(64)) ENGINE=InnoDB")
			execute(t, db, "INSERT INTO ns_herald.hook VALUES (1, 'one'), (2, 'two'), (3, 'three')")
			s := &plugins.Site{Namespace: "ns", DSNs: map[string]string{"herald": server.DSN("ns_herald")}}
			defer s.Close()
			other, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer other.Rollback()
			err = fails(t, s, db, 1205, func(int) {
				if _, err := other.Exec("UPDATE ns_herald.hook SET name = 'x' WHERE id = 2"); err != nil {
					t.Error(err)
				}
			}, "UPDATE hook SET name = 'mine' WHERE id = 2")
			want := "mine,two,mine"
			if option == "ON" {
				want = "one,two,three"
				wants(t, "Transact", err, "the server has ended the transaction")
			} else if err != nil {
				t.Error(err)
			}
			if got := names(t, db, s); got != want {
				t.Errorf("the table holds %s; want %s", got, want)
			}
		})
	}
}

func TestATransactionLeavesItsConnectionAsItWas(t *testing.T) {
	s, db := site(t)
	boom := errors.New("boom")
	for _, answer := range []error{nil, boom} {
		at(t, s, func(ctx context.Context, task *plugins.Task) error {
			var id int
			err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
				if err := tx.QueryRow(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
					return err
				}
				return answer
			})
			if !errors.Is(err, answer) {
				t.Errorf("Transact answers %v", err)
			}
			var now int
			if err := task.DB("herald").QueryRow(ctx, "SELECT CONNECTION_ID()").Scan(&now); err != nil || now != id {
				t.Errorf("connection %d after %d, %v; it was not kept", now, id, err)
			}
			_, err = task.DB("herald").Exec(ctx, "INSERT INTO hook (name) VALUES ('by itself')")
			return err
		})
	}
	if got := names(t, db, s); got != "one,two,three,by itself,by itself" {
		t.Errorf("the table holds %s", got)
	}
}

func TestAShadowRunThatLosesADeadlockLeavesNothing(t *testing.T) {
	var rival *rival
	again := func(ctx context.Context, on plugins.DB) error {
		_, err := on.Exec(ctx, "UPDATE hook SET name = 'again' WHERE id = 1")
		return err
	}
	noted := []string{"UPDATE user SET name = 'kept'", "UPDATE hook SET name = 'again' WHERE id = 1"}
	for name, work := range map[string]func(context.Context, *plugins.Task) error{
		"outside of a transaction": func(ctx context.Context, task *plugins.Task) error {
			rival.loses(ctx, task.DB("herald"))
			return again(ctx, task.DB("herald"))
		},
		"within one": func(ctx context.Context, task *plugins.Task) error {
			err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
				err := rival.loses(ctx, tx)
				wants(t, "a statement after it", again(ctx, tx), "the server has ended the transaction")
				return err
			})
			if !isNumber(err, 1213) || strings.Contains(err.Error(), "SAVEPOINT") {
				t.Errorf("Transact answers %v", err)
			}
			return task.Transact(ctx, "herald", func(tx plugins.DB) error { return again(ctx, tx) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, db := site(t)
			rival = newRival(t, db, s)
			outcome, effects := handler(func(ctx context.Context, task *plugins.Task) error {
				if _, err := task.DB("herald").Exec(ctx, "UPDATE hook SET name = 'before' WHERE id = 1"); err != nil {
					return err
				}
				if _, err := task.DB("user").Exec(ctx, noted[0]); err != nil {
					return err
				}
				return work(ctx, task)
			}).Shadow(t.Context(), s, tasks.Task{ID: 1})
			if outcome.Kind != tasks.Succeeded {
				t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
			}
			var queries []string
			for _, w := range effects.Writes {
				queries = append(queries, w.Query)
			}
			if strings.Join(queries, "; ") != strings.Join(noted, "; ") {
				t.Errorf("noted: %q; want %q", queries, noted)
			}
			if got := names(t, db, s); got != "one,two,three" {
				t.Errorf("the table holds %s", got)
			}
		})
	}
}
