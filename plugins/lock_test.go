package plugins_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// What PhabricatorHash::digestToLength answered to each was recorded.
func TestTheNameOfALockIsWhatPHPDigests(t *testing.T) {
	for _, c := range []struct{ namespace, name, want string }{
		{"phabricator", "webhook(PHID-HWBH-a)", "ph:phabric-6rILUDHKjHKu:webhook-QBokMryimyyp"},
		{"live", "webhook(PHID-HWBH-abcdefghij0123456789)", "ph:live-oGrT8.tol2_I:webhook-o4apX4hqGKcJ"},
		{"phabricator", "w", "ph:phabric-6rILUDHKjHKu:w()-s0y0fjCKZPP0"},
	} {
		if got := plugins.LockName(c.namespace, c.name); got != c.want {
			t.Errorf("%s in %s is %s; PHP's is %s", c.name, c.namespace, got, c.want)
		}
	}
}

// elsewhere takes a lock as another process does. The answered function ends
// its connection.
func elsewhere(t testing.TB, db *sql.DB, s *plugins.Site, name string) (release func()) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got int
	err = conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", plugins.LockName(s.Namespace, name)).Scan(&got)
	if err != nil || got != 1 {
		t.Fatalf("the lock %s cannot be taken elsewhere: %d, %v", name, got, err)
	}
	return func() {
		if _, err := conn.ExecContext(context.Background(), "DO RELEASE_ALL_LOCKS()"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

// holder answers which connection holds a lock, or 0.
func holder(t testing.TB, db *sql.DB, s *plugins.Site, name string) int64 {
	t.Helper()
	var id sql.NullInt64
	if err := db.QueryRow("SELECT IS_USED_LOCK(?)", plugins.LockName(s.Namespace, name)).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id.Int64
}

func TestALockExcludesTheOthers(t *testing.T) {
	s, db := site(t)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		release := elsewhere(t, db, s, "webhook(A)")
		if _, err := task.Lock(ctx, "webhook(A)"); !errors.Is(err, plugins.ErrLocked) {
			t.Errorf("a lock that another process holds: %v", err)
		}
		release()
		unlock, err := task.Lock(ctx, "webhook(A)")
		if err != nil {
			return err
		}
		if holder(t, db, s, "webhook(A)") == 0 {
			t.Error("the server does not know of the lock")
		}
		at(t, s, func(ctx context.Context, other *plugins.Task) error {
			if _, err := other.Lock(ctx, "webhook(A)"); !errors.Is(err, plugins.ErrLocked) {
				t.Errorf("a lock that another task of the process holds: %v", err)
			}
			unlockOther, err := other.Lock(ctx, "webhook(B)")
			if err == nil {
				unlockOther()
			}
			return err
		})
		if _, err := task.Lock(ctx, "webhook(A)"); !errors.Is(err, plugins.ErrLocked) {
			t.Errorf("a lock that the task itself holds: %v", err)
		}
		unlock()
		unlock()
		if holder(t, db, s, "webhook(A)") != 0 {
			t.Error("unlocked, and the server still knows of the lock")
		}
		if _, err = task.Lock(ctx, "webhook(A)"); err != nil {
			return err
		}
		if holder(t, db, s, "webhook(A)") == 0 {
			t.Error("the lock cannot be taken again")
		}
		return nil // without unlocking
	})
	if holder(t, db, s, "webhook(A)") != 0 {
		t.Error("the lock outlived its task")
	}
}

func TestATaskThatPanicsLosesItsLock(t *testing.T) {
	s, db := site(t)
	outcome := handler(func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.Lock(ctx, "webhook(A)"); err != nil {
			return err
		}
		panic("no frobnicator")
	}).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	if outcome.Kind != tasks.Retry || !strings.Contains(outcome.Reason, "no frobnicator") {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
	if holder(t, db, s, "webhook(A)") != 0 {
		t.Error("the lock outlived its task")
	}
}

func TestWhoLosesALockLearnsIt(t *testing.T) {
	s, db := site(t)
	var cause error
	outcome := handler(func(ctx context.Context, task *plugins.Task) error {
		unlock, err := task.Lock(ctx, "webhook(A)")
		if err != nil {
			return err
		}
		execute(t, db, fmt.Sprintf("KILL %d", holder(t, db, s, "webhook(A)")))
		<-ctx.Done()
		cause = context.Cause(ctx)
		release := elsewhere(t, db, s, "webhook(A)")
		defer release()
		unlock() // not that of the other
		if holder(t, db, s, "webhook(A)") == 0 {
			t.Error("a lock that was lost was unlocked for the one who has it now")
		}
		return ctx.Err()
	}).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	if !errors.Is(cause, plugins.ErrLockLost) {
		t.Errorf("the cause of the end is %v", cause)
	}
	if outcome.Kind != tasks.Retry || !strings.Contains(outcome.Reason, "webhook(A)") || !strings.Contains(outcome.Reason, "lost") {
		t.Errorf("%s: %s", outcome.Kind, outcome.Reason)
	}
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		_, err := task.Lock(ctx, "webhook(A)")
		return err
	})
}

func TestB46WhoLosesALockStoresWhatItDid(t *testing.T) {
	s, db := site(t)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.Lock(ctx, "webhook(A)"); err != nil {
			return err
		}
		execute(t, db, fmt.Sprintf("KILL %d", holder(t, db, s, "webhook(A)")))
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, plugins.ErrLockLost) {
			t.Errorf("the cause of the end is %v", cause)
		}
		if err := task.DB("herald").QueryRow(ctx, "SELECT 1").Scan(new(int)); !errors.Is(err, context.Canceled) {
			t.Errorf("a call under the context that has ended: %v", err)
		}
		ctx = context.WithoutCancel(ctx)
		return task.Transact(ctx, "herald", func(tx plugins.DB) error {
			_, err := tx.Exec(ctx, "UPDATE hook SET name = 'sent' WHERE id = 1")
			return err
		})
	})
	if got := names(t, db, s); got != "sent,two,three" {
		t.Errorf("the table holds %s", got)
	}
}

func TestACancelledTaskTakesNoOtherTasksLock(t *testing.T) {
	s, db := site(t)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.Lock(ctx, "webhook(A)"); err != nil {
			return err
		}
		before := holder(t, db, s, "webhook(A)")
		cancelled, cancel := context.WithCancel(ctx)
		var others sync.WaitGroup
		for i := range 20 {
			others.Go(func() {
				handler(func(ctx context.Context, task *plugins.Task) error {
					_, err := task.Lock(ctx, fmt.Sprintf("webhook(%d)", i))
					return err
				}).ExecuteAt(cancelled, s, tasks.Task{ID: 1}, nil)
			})
		}
		cancel()
		others.Wait()
		if now := holder(t, db, s, "webhook(A)"); now == 0 || now != before {
			t.Errorf("the lock was with connection %d and is with %d", before, now)
		}
		return ctx.Err()
	})
}

// TestB29WhoLosesARaceForALockLeavesNoConnection has ten thousand tasks fight
// for one lock, thirty-two at a time, and watches the server.
func TestB29WhoLosesARaceForALockLeavesNoConnection(t *testing.T) {
	s, db := site(t)
	var held, won, lost atomic.Int64
	h := handler(func(ctx context.Context, task *plugins.Task) error {
		unlock, err := task.Lock(ctx, "webhook(A)")
		if errors.Is(err, plugins.ErrLocked) {
			lost.Add(1)
			return plugins.Yield(0)
		}
		if err != nil {
			return err
		}
		defer unlock()
		won.Add(1)
		if held.Add(1) != 1 {
			t.Error("two tasks hold the lock")
		}
		defer held.Add(-1)
		var name string
		return task.DB("herald").QueryRow(ctx, "SELECT name FROM hook WHERE id = 1").Scan(&name)
	})
	work := make(chan int64)
	var slots sync.WaitGroup
	for range 32 {
		slots.Go(func() {
			for id := range work {
				o := h.ExecuteAt(context.Background(), s, tasks.Task{ID: id}, nil)
				if o.Kind != tasks.Succeeded && o.Kind != tasks.Yielded {
					t.Errorf("task %d: %s: %s", id, o.Kind, o.Reason)
				}
			}
		})
	}
	most := 0
	for id := range int64(10_000) {
		work <- id
		if id%500 == 0 {
			most = max(most, connections(t, db, s))
		}
	}
	close(work)
	slots.Wait()
	if limit := plugins.MaxConnections + 1; most > limit {
		t.Errorf("%d connections were open; %d are enough", most, limit)
	}
	if won.Load() == 0 || lost.Load() == 0 {
		t.Errorf("%d took the lock and %d did not; nothing was fought for", won.Load(), lost.Load())
	}
}

// connections answers how many connections to the site's databases there are.
func connections(t testing.TB, db *sql.DB, s *plugins.Site) (n int) {
	t.Helper()
	err := db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB LIKE ?", strings.ReplaceAll(s.Namespace, "_", `\_`)+`\_%`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestALockThatRestsKeepsNoServerDown(t *testing.T) {
	s, db := site(t)
	for range 2 {
		at(t, s, func(ctx context.Context, task *plugins.Task) error {
			unlock, err := task.Lock(ctx, "webhook(A)")
			if err == nil {
				unlock()
			}
			return err
		})
		rows, err := db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ?", s.Namespace+"_repository")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			execute(t, db, fmt.Sprintf("KILL %d", id))
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the connection ends", func() bool { return connections(t, db, s) == 0 })
	}
}
