package plugins_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// inShadow runs a handler in shadow and insists that nothing of it remains.
func inShadow(t testing.TB, handle func(context.Context, *plugins.Task) error) (tasks.Outcome, plugins.Effects) {
	t.Helper()
	s, db := site(t)
	outcome, effects := handler(handle).Shadow(t.Context(), s, tasks.Task{ID: 1})
	if got := names(t, db, s); got != "one,two,three" {
		t.Errorf("the table holds %s", got)
	}
	harness.Eventually(t, "no connection is kept", func() bool { return connections(t, db, s) == 0 })
	return outcome, effects
}

func TestAShadowRunAnswersWhatTheRunWouldDo(t *testing.T) {
	outcome, effects := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
		herald := task.DB("herald")
		result, err := herald.Exec(ctx, "INSERT INTO hook (name) VALUES (?)", "four")
		if err != nil {
			return err
		}
		if id, err := result.LastInsertId(); err != nil || id != 4 {
			t.Errorf("the row has the id %d, %v", id, err)
		}
		var n int
		if err := herald.QueryRow(ctx, "SELECT COUNT(*) FROM hook").Scan(&n); err != nil || n != 4 {
			t.Errorf("it sees %d rows of its own, %v; want 4", n, err)
		}
		undone := errors.New("undone")
		err = task.Transact(ctx, "herald", func(tx plugins.DB) error {
			if _, err := tx.Exec(ctx, "DELETE FROM hook"); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Errorf("the transaction answers %v", err)
		}
		err = task.Transact(ctx, "herald", func(tx plugins.DB) error {
			_, err := tx.Exec(ctx, "UPDATE hook SET name = ? WHERE id >= ?", nil, 2)
			if err == nil {
				t.Error("NULL was written where it must not be")
			}
			_, err = tx.Exec(ctx, "UPDATE hook SET name = ? WHERE id >= ? OR name = ?", []byte("x"), 2, nil)
			return err
		})
		if err != nil {
			return err
		}
		task.Queue(tasks.NewTask{Class: "Next", Data: []byte("1")})
		_, err = task.DB("user").Exec(ctx, "UPDATE user SET name = 'alice'") // changes nothing
		return err
	})
	if outcome.Kind != tasks.Succeeded || len(outcome.FollowUps) != 1 {
		t.Errorf("%s: %s, %d follow-ups", outcome.Kind, outcome.Reason, len(outcome.FollowUps))
	}
	want := plugins.Effects{Writes: []plugins.Written{
		{Database: "herald", Query: "INSERT INTO hook (name) VALUES (?)", Args: []string{"four"}, Rows: 1},
		{Database: "herald", Query: "UPDATE hook SET name = ? WHERE id >= ? OR name = ?", Args: []string{"x", "2", "NULL"}, Rows: 3},
		{Database: "user", Query: "UPDATE user SET name = 'alice'", Rows: 0},
	}}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Error(diff)
	}
}

func TestAShadowRunSendsNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer server.Close()
	outcome, effects := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
		client := &http.Client{Transport: task.Transport(nil)}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/é?a=b", strings.NewReader("payload\xff"))
		if err != nil {
			return err
		}
		request.Header.Set("X-Signature", "s")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || len(body) != 0 {
			t.Errorf("it is answered with %s and %q", response.Status, body)
		}
		return err
	})
	if outcome.Kind != tasks.Succeeded {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
	want := []plugins.Sent{{
		Method: "POST", URL: server.URL + "/%C3%A9?a=b", Header: http.Header{"X-Signature": {"s"}}, Body: []byte("payload\xff"),
	}}
	if diff := cmp.Diff(want, effects.Requests); diff != "" {
		t.Error(diff)
	}
}

func TestARunThatIsNoShadowSends(t *testing.T) {
	base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent by base") })
	task := &plugins.Task{}
	request := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	if _, err := task.Transport(base).RoundTrip(request); err == nil || err.Error() != "sent by base" {
		t.Errorf("base answers %v", err)
	}
	if task.Transport(nil) != http.DefaultTransport {
		t.Error("no base is not the default")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestAShadowRunThatBreaksIsUndoneToo(t *testing.T) {
	write := func(ctx context.Context, task *plugins.Task) error {
		return task.Transact(ctx, "herald", func(tx plugins.DB) error {
			_, err := tx.Exec(ctx, "DELETE FROM hook")
			return err
		})
	}
	t.Run("by a panic", func(t *testing.T) {
		outcome, effects := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
			if err := write(ctx, task); err != nil {
				return err
			}
			panic("no frobnicator")
		})
		if outcome.Kind != tasks.Retry || !strings.Contains(outcome.Reason, "no frobnicator") || len(effects.Writes) != 1 {
			t.Errorf("%s: %s, %d writes", outcome.Kind, outcome.Reason, len(effects.Writes))
		}
	})
	t.Run("by a panic within a transaction", func(t *testing.T) {
		outcome, effects := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
			return task.Transact(ctx, "herald", func(tx plugins.DB) error {
				if _, err := tx.Exec(ctx, "DELETE FROM hook"); err != nil {
					return err
				}
				panic("no frobnicator")
			})
		})
		if outcome.Kind != tasks.Retry || len(effects.Writes) != 0 {
			t.Errorf("%s: %s, %d writes", outcome.Kind, outcome.Reason, len(effects.Writes))
		}
	})
	t.Run("by the end of its goroutine", func(t *testing.T) {
		s, db := site(t)
		var ended sync.WaitGroup
		ended.Go(func() {
			handler(func(ctx context.Context, task *plugins.Task) error {
				if err := write(ctx, task); err != nil {
					t.Error(err)
				}
				runtime.Goexit()
				return nil
			}).Shadow(t.Context(), s, tasks.Task{ID: 1})
		})
		ended.Wait()
		if got := names(t, db, s); got != "one,two,three" {
			t.Errorf("the table holds %s", got)
		}
	})
	t.Run("by rows that it leaves open", func(t *testing.T) {
		outcome, _ := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
			if err := write(ctx, task); err != nil {
				return err
			}
			_, err := task.DB("herald").Query(ctx, "SELECT * FROM hook")
			return err
		})
		if outcome.Kind != tasks.Succeeded {
			t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
		}
	})
	t.Run("by its cancellation", func(t *testing.T) {
		outcome, _ := inShadow(t, func(ctx context.Context, task *plugins.Task) error {
			ended, cancel := context.WithCancel(ctx)
			err := task.Transact(ended, "herald", func(tx plugins.DB) error {
				_, err := tx.Exec(ended, "DELETE FROM hook")
				cancel()
				return err
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a transaction whose context has ended: %v", err)
			}
			var n int
			if err := task.DB("herald").QueryRow(ctx, "SELECT COUNT(*) FROM hook").Scan(&n); err != nil || n != 3 {
				t.Errorf("%d rows after that, %v", n, err)
			}
			return nil
		})
		if outcome.Kind != tasks.Succeeded {
			t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
		}
	})
}

func TestAShadowRunRefusesWhatItCannotUndo(t *testing.T) {
	inShadow(t, func(ctx context.Context, task *plugins.Task) error {
		_, err := task.DB("herald").Exec(ctx, "INSERT INTO `Words` VALUES ('x')")
		if err == nil {
			t.Error("written to a table without transactions")
		}
		_, err = task.DB("herald").Exec(ctx, "INSERT INTO words VALUES ('x')")
		wants(t, "a table without transactions", err, "cannot undo")
		for _, query := range []string{"CREATE TABLE x (a INT)", "START TRANSACTION", "COMMIT", "LOCK TABLES hook WRITE", "SET autocommit = 1", "TRUNCATE hook"} {
			_, err := task.DB("herald").Exec(ctx, query)
			wants(t, query, err, "may not run")
		}
		_, err = task.DB("herald").Exec(ctx, "UPDATE mysql.user SET user = 'x'")
		wants(t, "another database", err, "names the database mysql")
		return nil
	})
}

func TestAShadowRunRefusesWhatReachesFurtherThanItSays(t *testing.T) {
	s, db := site(t)
	herald := s.Namespace + "_herald."
	for _, query := range []string{
		"CREATE SEQUENCE " + herald + "numbers",
		"CREATE VIEW " + herald + "words_seen AS SELECT * FROM " + herald + "words",
		"CREATE TABLE " + herald + "watched (id INT) ENGINE=InnoDB",
		"CREATE TRIGGER " + herald + "watch AFTER INSERT ON " + herald + "watched FOR EACH ROW INSERT INTO " + herald + "words VALUES ('trigger')",
		"CREATE FUNCTION " + herald + "sneak() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO " + herald + "words VALUES ('function'); RETURN 1; END",
	} {
		execute(t, db, query)
	}
	handler(func(ctx context.Context, task *plugins.Task) error {
		on := task.DB("herald")
		for query, want := range map[string]string{
			"INSERT INTO numbers VALUES (1, 1, 1, 1, 1, 1, 0, 0)": "numbers is a sequence",
			"INSERT INTO Words_Seen VALUES ('view')":              "words_seen is a view",
			"INSERT INTO watched VALUES (1)":                      "watched has a trigger",
			"UPDATE hook SET name = 'x' WHERE sneak() = 1":        "sneak is a stored function",
		} {
			_, err := on.Exec(ctx, query)
			wants(t, query, err, want)
		}
		for _, query := range []string{"SELECT Sneak()", "SELECT `sneak` ()"} {
			wants(t, query, on.QueryRow(ctx, query).Scan(new(int)), "sneak is a stored function")
		}
		for _, query := range []string{"SELECT COUNT(*) FROM words_seen", "SELECT COUNT(*) FROM watched"} {
			if err := on.QueryRow(ctx, query).Scan(new(int)); err != nil {
				t.Errorf("%s: %v", query, err)
			}
		}
		return nil
	}).Shadow(t.Context(), s, tasks.Task{ID: 1})
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM " + herald + "words").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d words were written, %v", n, err)
	}
}

func TestAShadowRunLooksAtALockAndTakesNone(t *testing.T) {
	s, db := site(t)
	release := elsewhere(t, db, s, "webhook(A)")
	defer release()
	handler(func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.Lock(ctx, "webhook(A)"); !errors.Is(err, plugins.ErrLocked) {
			t.Errorf("a lock that somebody holds: %v", err)
		}
		unlock, err := task.Lock(ctx, "webhook(B)")
		if err != nil {
			return err
		}
		if holder(t, db, s, "webhook(B)") != 0 {
			t.Error("a shadow run took a lock")
		}
		unlock()
		return nil
	}).Shadow(t.Context(), s, tasks.Task{ID: 1})
}

func TestFewShadowRunsAreUnderWayAtOnce(t *testing.T) {
	s, db := site(t)
	inside, leave := make(chan struct{}, 16), make(chan struct{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			handler(func(ctx context.Context, task *plugins.Task) error {
				if err := task.DB("herald").QueryRow(ctx, "SELECT 1").Scan(new(int)); err != nil {
					t.Error(err)
				}
				inside <- struct{}{}
				<-leave
				return nil
			}).Shadow(t.Context(), s, tasks.Task{ID: 1})
		})
	}
	for range 4 {
		<-inside
	}
	if n := connections(t, db, s); n != 4 {
		t.Errorf("%d connections; four shadow runs have four", n)
	}
	close(leave)
	all.Wait()
}
