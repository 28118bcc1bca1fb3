package stage

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

func TestSomebodyElseHoldsTheLocksOfAWorld(t *testing.T) {
	s := newStage(t)
	db := acme(t, s)
	free := func(name string) bool {
		var free sql.NullBool
		if err := db.QueryRow("SELECT IS_FREE_LOCK(?)", plugins.LockName(s.Namespace(), name)).Scan(&free); err != nil {
			t.Fatal(err)
		}
		return free.Bool
	}
	run(t, s, acmeCase(contract.World{Locks: []string{"one", "two"}}), does(s, func(context.Context, *plugins.Task) error {
		if free("one") || free("two") || !free("three") {
			t.Error("the locks of the world are not held, or others are")
		}
		return nil
	}))
	if !free("one") || !free("two") {
		t.Error("a lock is held after the case")
	}
}

// Nothing was recorded of the database that locks are in.
func TestAHandlerFindsALockTaken(t *testing.T) {
	s := newStage(t)
	side := s.Handlers(plugins.Handler{
		Class: "AcmeWorker", Databases: []string{"acme"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			unlock, err := task.Lock(ctx, "acme")
			if errors.Is(err, plugins.ErrLocked) {
				return plugins.Yield(15 * time.Second)
			}
			if err == nil {
				unlock()
			}
			return err
		},
	})
	defer side.Close()
	if o := run(t, s, acmeCase(contract.World{}), side); o.Outcome.Kind != tasks.Succeeded {
		t.Errorf("with a free lock: %+v", o.Outcome)
	}
	if o := run(t, s, acmeCase(contract.World{Locks: []string{"acme"}}), side); o.Outcome.Kind != tasks.Yielded {
		t.Errorf("with a lock that is taken: %+v", o.Outcome)
	}
}
