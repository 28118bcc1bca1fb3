package plugins_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// wants fails the test unless an error says something.
func wants(t testing.TB, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want an error that says %q", what, err, want)
	}
}

func TestWithoutASiteNothingOfPhorgeIsReached(t *testing.T) {
	handle := func(ctx context.Context, task *plugins.Task) error {
		_, err := task.DB("herald").Query(ctx, "SELECT 1")
		wants(t, "Query", err, "without a site")
		wants(t, "QueryRow", task.DB("herald").QueryRow(ctx, "SELECT 1").Scan(new(int)), "without a site")
		_, err = task.DB("herald").Exec(ctx, "DELETE FROM hook")
		wants(t, "Exec", err, "without a site")
		wants(t, "Transact", task.Transact(ctx, "herald", func(plugins.DB) error { return nil }), "without a site")
		wants(t, "Option", task.Option(ctx, "acme.list", new([]string)), "without a site")
		_, err = task.Lock(ctx, "x")
		wants(t, "Lock", err, "without a site")
		return nil
	}
	handler(handle).Execute(t.Context(), tasks.Task{ID: 1}, nil)
	handler(handle).Shadow(t.Context(), nil, tasks.Task{ID: 1})
	if err := handle(t.Context(), &plugins.Task{}); err != nil { // as tests of handlers make them
		t.Error(err)
	}
}

func TestWhatAHandlerDoesNotNameItDoesNotReach(t *testing.T) {
	s, _ := site(t)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		_, err := task.DB("config").Query(ctx, "SELECT * FROM config_entry")
		wants(t, "a database", err, "does not name it in its Databases")
		wants(t, "a transaction", task.Transact(ctx, "config", func(plugins.DB) error { return nil }), "does not name it in its Databases")
		wants(t, "an option", task.Option(ctx, "mysql.pass", new(string)), "does not name it in its Options")
		_, err = task.DB("herald").Query(ctx, "SELECT * FROM "+strings.ToUpper(s.Namespace)+"_user.user")
		wants(t, "a table of another database", err, "use Task.DB for each database")
		_, err = task.DB("herald").Exec(ctx, "DELETE h FROM hook h, `mysql`.user u WHERE h.id = u.id")
		wants(t, "a table of the server", err, "names the database mysql")
		var n int
		return task.DB("herald").QueryRow(ctx, "SELECT COUNT(*) FROM "+s.Namespace+"_herald.hook h WHERE h.id > 0").Scan(&n)
	})
}

func TestNothingOfATaskOutlivesIt(t *testing.T) {
	s, _ := site(t)
	var kept *plugins.Task
	var rows *sql.Rows
	at(t, s, func(ctx context.Context, task *plugins.Task) (err error) {
		kept = task
		rows, err = task.DB("herald").Query(ctx, "SELECT a.id FROM hook a, hook b, hook c")
		return err
	})
	if rows.Next() || rows.Close() != nil && rows.Err() == nil {
		t.Error("the rows of a task that has ended can be read")
	}
	ctx := t.Context()
	_, err := kept.DB("herald").Query(ctx, "SELECT 1")
	wants(t, "Query", err, "the task has ended")
	wants(t, "Transact", kept.Transact(ctx, "herald", func(plugins.DB) error { return nil }), "the task has ended")
	wants(t, "Option", kept.Option(ctx, "acme.list", new([]string)), "the task has ended")
	_, err = kept.Lock(ctx, "x")
	wants(t, "Lock", err, "the task has ended")
}

func TestRowsThatAreNotClosedHoldNoConnection(t *testing.T) {
	s, db := site(t)
	for range 5 * plugins.MaxConnections {
		at(t, s, func(ctx context.Context, task *plugins.Task) error {
			// Under a context that goes on: it is the task's end that closes them.
			_, err := task.DB("herald").Query(context.WithoutCancel(ctx), "SELECT a.id FROM hook a, hook b, hook c")
			return err
		})
		at(t, s, func(ctx context.Context, task *plugins.Task) error {
			task.DB("herald").QueryRow(ctx, "SELECT id FROM hook") // never scanned
			return nil
		})
	}
	if n := connections(t, db, s); n > plugins.MaxConnections {
		t.Errorf("%d connections are open", n)
	}
}

func TestATaskHasOneThingOpen(t *testing.T) {
	s, _ := site(t)
	both := func(run func(plugins.Handler) tasks.Outcome) {
		outcome := run(handler(func(ctx context.Context, task *plugins.Task) error {
			rows, err := task.DB("herald").Query(ctx, "SELECT id FROM hook ORDER BY id")
			if err != nil {
				return err
			}
			rows.Next()
			_, err = task.DB("user").Query(ctx, "SELECT 1")
			wants(t, "a query beside open rows", err, "rows of an earlier query are still open")
			wants(t, "an option beside open rows", task.Option(ctx, "acme.list", new([]string)), "rows of an earlier query are still open")
			for rows.Next() { // closes them at the end
			}
			return task.Transact(ctx, "herald", func(tx plugins.DB) error {
				_, err := task.DB("herald").Query(ctx, "SELECT 1")
				wants(t, "a query beside a transaction", err, "a transaction is open")
				_, err = task.Lock(ctx, "x")
				wants(t, "a lock within a transaction", err, "a transaction is open")
				wants(t, "another transaction", task.Transact(ctx, "user", func(plugins.DB) error { return nil }), "a transaction is open")
				rows, err := tx.Query(ctx, "SELECT id FROM hook")
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, "DELETE FROM hook")
				wants(t, "a write beside open rows", err, "rows of an earlier query are still open")
				return rows.Close()
			})
		}))
		if outcome.Kind != tasks.Succeeded {
			t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
		}
	}
	both(func(h plugins.Handler) tasks.Outcome { return h.ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil) })
	both(func(h plugins.Handler) tasks.Outcome {
		outcome, _ := h.Shadow(t.Context(), s, tasks.Task{ID: 1})
		return outcome
	})
}

func TestManyTasksShareFewConnections(t *testing.T) {
	s, db := site(t)
	var all sync.WaitGroup
	inside := make(chan struct{}, 64)
	leave := make(chan struct{})
	for range 64 {
		all.Go(func() {
			at(t, s, func(ctx context.Context, task *plugins.Task) error {
				err := task.Transact(ctx, "herald", func(tx plugins.DB) error {
					inside <- struct{}{}
					<-leave
					var n int
					return tx.QueryRow(ctx, "SELECT COUNT(*) FROM hook").Scan(&n)
				})
				if err != nil {
					return err
				}
				return task.Transact(ctx, "user", func(tx plugins.DB) error {
					_, err := tx.Exec(ctx, "UPDATE user SET name = 'x'")
					return err
				})
			})
		})
	}
	for range plugins.MaxConnections {
		<-inside
	}
	if n := connections(t, db, s); n != plugins.MaxConnections {
		t.Errorf("%d connections, with as many tasks in a transaction as may be; want %d", n, plugins.MaxConnections)
	}
	close(leave)
	all.Wait()
}

func TestATransactionIsAllOrNothing(t *testing.T) {
	s, db := site(t)
	boom := errors.New("boom")
	insert := func(name string, then func(ctx context.Context, tx plugins.DB) error) func(context.Context, *plugins.Task) error {
		return func(ctx context.Context, task *plugins.Task) error {
			return task.Transact(ctx, "herald", func(tx plugins.DB) error {
				if _, err := tx.Exec(ctx, "INSERT INTO hook (name) VALUES (?)", name); err != nil {
					return err
				}
				return then(ctx, tx)
			})
		}
	}
	run := func(handle func(context.Context, *plugins.Task) error) tasks.Outcome {
		return handler(handle).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	}
	if o := run(insert("error", func(context.Context, plugins.DB) error { return boom })); o.Reason != "boom" {
		t.Errorf("an error: %s: %s", o.Kind, o.Reason)
	}
	if o := run(insert("panic", func(context.Context, plugins.DB) error { panic(boom) })); !strings.Contains(o.Reason, "panic: boom") {
		t.Errorf("a panic: %s: %s", o.Kind, o.Reason)
	}
	if o := run(insert("cancelled", func(ctx context.Context, tx plugins.DB) error {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := tx.Exec(ended, "UPDATE hook SET name = 'x'")
		return err
	})); o.Kind != tasks.Retry {
		t.Errorf("a context that ended: %s", o.Kind)
	}
	if got := names(t, db, s); got != "one,two,three" {
		t.Errorf("the table holds %s", got)
	}
	if o := run(insert("kept", func(ctx context.Context, tx plugins.DB) error {
		_, err := tx.Query(ctx, "SELECT a.id FROM hook a, hook b") // left open
		return err
	})); o.Kind != tasks.Succeeded {
		t.Errorf("rows left open: %s: %s", o.Kind, o.Reason)
	}
	if got := names(t, db, s); got != "one,two,three,kept" {
		t.Errorf("the table holds %s", got)
	}
}

func TestB46AResultIsStoredAfterTheTaskWasCancelled(t *testing.T) {
	s, db := site(t)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := handler(func(ctx context.Context, task *plugins.Task) error {
		unlock, err := task.Lock(ctx, "webhook(A)")
		if err != nil {
			return err
		}
		defer unlock()
		cancel() // between the work and its result
		if _, err := task.DB("herald").Exec(ctx, "UPDATE hook SET name = 'never' WHERE id = 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("a call under a context that has ended: %v", err)
		}
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer done()
		_, err = task.DB("herald").Exec(ctx, "UPDATE hook SET name = 'sent' WHERE id = 1")
		return err
	}).ExecuteAt(ctx, s, tasks.Task{ID: 1}, nil)
	if outcome.Kind != tasks.Succeeded {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
	if got := names(t, db, s); got != "sent,two,three" {
		t.Errorf("the table holds %s", got)
	}
}

func TestACancelledTaskWaitsForNoStatement(t *testing.T) {
	s, db := site(t)
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE " + s.Namespace + "_herald.hook SET name = 'x'"); err != nil {
		t.Fatal(err)
	}
	running := fmt.Sprintf("SELECT id FROM hook WHERE '%s' <> '' FOR UPDATE", s.Namespace)
	go func() {
		harness.Eventually(t, "the statement runs", func() bool {
			var n int
			return db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = ?", running).Scan(&n) == nil && n == 1
		})
		cancel()
	}()
	outcome := handler(func(ctx context.Context, task *plugins.Task) error {
		return task.DB("herald").QueryRow(ctx, running).Scan(new(int))
	}).ExecuteAt(ctx, s, tasks.Task{ID: 1}, nil)
	if outcome.Kind != tasks.Retry || !strings.Contains(outcome.Reason, "canceled") {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
}

func TestTasksGoOnAfterTheServerRestarted(t *testing.T) {
	server, err := scratch.Start(scratch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, database := range []string{"ns_herald", "ns_repository"} {
		if err := server.Exec(t.Context(), "", "CREATE DATABASE "+database); err != nil {
			t.Fatal(err)
		}
	}
	s := &plugins.Site{Namespace: "ns", DSNs: map[string]string{"herald": server.DSN("ns_herald"), "repository": server.DSN("ns_repository")}}
	defer s.Close()
	use := func(ctx context.Context, task *plugins.Task) error {
		unlock, err := task.Lock(ctx, "webhook(A)")
		if err != nil {
			return err
		}
		defer unlock()
		return task.DB("herald").QueryRow(ctx, "SELECT 1").Scan(new(int))
	}
	at(t, s, use)
	outcome := handler(func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.Lock(ctx, "webhook(B)"); err != nil {
			return err
		}
		if err := server.Restart(); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the lock went with the server
		return ctx.Err()
	}).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	if !strings.Contains(outcome.Reason, "lost") {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
	at(t, s, use) // without a failed attempt
}

func TestPasswordsAreNotShown(t *testing.T) {
	s := &plugins.Site{
		Namespace: "ns",
		DSNs:      map[string]string{"herald": "u:hunter2@tcp(127.0.0.1:1)/ns_herald", "user": "u:hunter2@nonsense"},
	}
	shown := fmt.Sprintf("%v %+v %#v %s %d", s, s, s, s, s)
	handler(func(ctx context.Context, task *plugins.Task) error {
		for _, application := range []string{"herald", "user"} {
			err := task.DB(application).QueryRow(ctx, "SELECT 1").Scan(new(int))
			if err == nil {
				t.Error("connected")
			}
			shown += fmt.Sprint(err)
		}
		return nil
	}).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	if strings.Contains(shown, "hunter2") || !strings.Contains(shown, `Phorge "ns"`) {
		t.Error(shown)
	}
}

func TestOptionsAreReadAsPhorgeReadsThem(t *testing.T) {
	s, db := site(t)
	set := func(key, value string, deleted int) {
		execute(t, db, "REPLACE INTO "+s.Namespace+"_config.config_entry VALUES ('default', ?, ?, ?)", key, value, deleted)
	}
	read := func() (list []string, err error) {
		list = []string{"the", "default"}
		at(t, s, func(ctx context.Context, task *plugins.Task) error {
			err = task.Option(ctx, "acme.list", &list)
			return nil
		})
		return list, err
	}
	expect := func(why, want string) {
		t.Helper()
		got, err := read()
		if err != nil || fmt.Sprintf("%q", got) != want {
			t.Errorf("%s: %q, %v; want %s", why, got, err, want)
		}
	}
	expect("nobody set it", `["the" "default"]`)
	s.Options["acme.list"] = []byte(`["file"]`)
	expect("the file set it", `["file"]`)
	set("acme.list", `["database"]`, 0)
	expect("the database goes over the file", `["database"]`)
	set("acme.list", `null`, 0)
	expect("null is a value", `[]`)
	set("acme.list", `["database"]`, 1)
	expect("a deleted entry", `["file"]`)
	set("ACME.LIST", `["loud"]`, 0)
	expect("another option by the collation of the column", `["file"]`)
	set("acme.list", `"hunter2"`, 0)
	if _, err := read(); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "acme.list") {
		t.Errorf("a value that does not fit: %v", err)
	}
	set("acme.hooks", `[]`, 0)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		hooks := map[string]int{"default": 1}
		if err := task.Option(ctx, "acme.hooks", &hooks); err != nil || len(hooks) != 0 {
			t.Errorf("PHP's empty map: %v, %v", hooks, err)
		}
		set("acme.hooks", `{"a":1}`, 0)
		if err := task.Option(ctx, "acme.hooks", &hooks); err != nil || len(hooks) != 1 || hooks["a"] != 1 {
			t.Errorf("a map replaces the default: %v, %v", hooks, err)
		}
		wants(t, "no pointer", task.Option(ctx, "acme.hooks", hooks), "is no pointer")
		return nil
	})
}

// TestB27ConnectionsThatTheServerClosedCostNoAttempt lets the server close what
// was idle for a second.
func TestB27ConnectionsThatTheServerClosedCostNoAttempt(t *testing.T) {
	s, db := site(t)
	for application, dsn := range s.DSNs {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		s.DSNs[application] = dsn + separator + "wait_timeout=1"
	}
	for range 2 {
		var burst sync.WaitGroup
		for range 2 * plugins.MaxConnections {
			burst.Go(func() {
				at(t, s, func(ctx context.Context, task *plugins.Task) error {
					unlock, err := task.Lock(ctx, fmt.Sprintf("webhook(%p)", task))
					if err != nil {
						return err
					}
					defer unlock()
					return task.DB("herald").QueryRow(ctx, "SELECT ?", 1).Scan(new(int))
				})
			})
		}
		burst.Wait()
		harness.Eventually(t, "the server closes them", func() bool { return connections(t, db, s) == 0 })
	}
}

func TestAGoroutineThatIsLeftBehindHoldsNothing(t *testing.T) {
	s, db := site(t)
	blocker, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Rollback()
	if _, err := blocker.Exec("UPDATE " + s.Namespace + "_herald.hook SET name = 'x'"); err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 2)
	run := func(ctx context.Context, task *plugins.Task) error {
		waits := make(chan struct{})
		go func() {
			left <- task.Transact(context.WithoutCancel(ctx), "herald", func(tx plugins.DB) error {
				close(waits)
				_, err := tx.Exec(context.WithoutCancel(ctx), "DELETE FROM hook")
				return err
			})
		}()
		<-waits
		return nil
	}
	at(t, s, run)
	if err := <-left; err == nil {
		t.Error("a transaction outlived its task")
	}
	handler(run).Shadow(t.Context(), s, tasks.Task{ID: 1})
	if err := <-left; err == nil {
		t.Error("a transaction outlived its shadow run")
	}
}
