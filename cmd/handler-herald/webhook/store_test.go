package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/fetch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// observed runs the task of a request under a context. seen is given the one of
// the handler.
func (w *world) observed(ctx context.Context, phid string, seen func(context.Context)) tasks.Outcome {
	h := Handler()
	handle := h.Handle
	h.Handle = func(ctx context.Context, task *plugins.Task) error {
		seen(ctx)
		return handle(ctx, task)
	}
	return h.ExecuteAt(ctx, w.site, tasks.Task{ID: 1, Data: []byte(`{"webhookRequestPHID":"` + phid + `"}`)}, nil)
}

// endLock ends the connection that holds the lock of a webhook.
func (w *world) endLock(t *testing.T, hook string) {
	name := plugins.LockName(w.site.Namespace, "webhook("+hook+")")
	var holder int64
	err := w.herald.QueryRow("SELECT IS_USED_LOCK(?)", name).Scan(&holder)
	if err == nil {
		_, err = w.herald.Exec("KILL ?", holder)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestB46ACallGoesOnWhenItsLockIsLost(t *testing.T) {
	var calls atomic.Int64
	var handling context.Context
	var w *world
	w = openWorld(t, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		w.endLock(t, "one")
		<-handling.Done()
	})
	w.queue(t, "r", "one")
	outcome := w.observed(t.Context(), "r", func(ctx context.Context) { handling = ctx })
	if cause := context.Cause(handling); !errors.Is(cause, plugins.ErrLockLost) {
		t.Errorf("the context of the handler ended by %v", cause)
	}
	if status, result, _, _ := w.row(t, "r"); status != "sent" || result != "okay" || outcome.Kind != tasks.Succeeded || calls.Load() != 1 {
		t.Errorf("the request is %s, %s, after %d calls, and the task %+v", status, result, calls.Load(), outcome)
	}
}

func TestB46ACallWhoseLockIsLostIsCancelledAsAnyOther(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var handling context.Context
	var w *world
	w = openWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.endLock(t, "one")
		<-handling.Done()
		cancel()
		<-r.Context().Done()
	})
	w.queue(t, "r", "one")
	outcome := w.observed(ctx, "r", func(ctx context.Context) { handling = ctx })
	if status, _, _, _ := w.row(t, "r"); status != "queued" || outcome.Kind != tasks.Retry {
		t.Errorf("the request is %s, and the task %+v", status, outcome)
	}
}

// held locks the row of a request and has its result stored meanwhile. during is
// called when the first statement waits for the row.
func (w *world) held(t *testing.T, phid string, during func(waits func() int)) tasks.Outcome {
	t.Helper()
	tx, err := w.herald.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("SELECT id FROM herald_webhookrequest WHERE phid = ? FOR UPDATE", phid); err != nil {
		t.Fatal(err)
	}
	waits := func() (n int) {
		err := w.herald.QueryRow("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_row_lock_waits'").Scan(&n)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	before := waits()
	since := func() int { return waits() - before }
	stored := make(chan tasks.Outcome)
	go func() {
		stored <- w.within(t, phid, func(ctx context.Context, r *request) error {
			return r.settle(ctx, fetch.Status{Kind: fetch.HTTP, Code: 200})
		})
	}()
	harness.Eventually(t, "the result waits for the row", func() bool { return since() >= 1 })
	during(since)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	return <-stored
}

// Each wait ends after a second, by error 1205.
func TestB46AResultWaitsForARowThatOthersHold(t *testing.T) {
	w := openWorld(t, welcome, "innodb_lock_wait_timeout=1")
	w.queue(t, "r", "one")
	outcome := w.held(t, "r", func(waits func() int) {
		harness.Eventually(t, "it has waited for more than four seconds", func() bool { return waits() > 4 })
	})
	if status, result, _, _ := w.row(t, "r"); status != "sent" || result != "okay" || outcome.Kind != tasks.Succeeded {
		t.Errorf("the request is %s, %s, and the task %+v", status, result, outcome)
	}
}

func TestB46AResultIsStoredOverAnotherConnectionWhenItsOwnIsLost(t *testing.T) {
	w := openWorld(t, welcome)
	w.queue(t, "r", "one")
	outcome := w.held(t, "r", func(func() int) {
		var id int64
		err := w.herald.QueryRow("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO LIKE '%UPDATE herald_webhookrequest%' AND ID <> CONNECTION_ID()",
			w.site.Namespace+"_herald").Scan(&id)
		if err == nil {
			_, err = w.herald.Exec("KILL ?", id)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if status, result, _, _ := w.row(t, "r"); status != "sent" || result != "okay" || outcome.Kind != tasks.Succeeded {
		t.Errorf("the request is %s, %s, and the task %+v", status, result, outcome)
	}
}

// The first answer of the server was lost.
func TestB46AResultThatIsStoredTwiceIsStored(t *testing.T) {
	w := openWorld(t, welcome)
	w.queue(t, "r", "one")
	outcome := w.within(t, "r", func(ctx context.Context, r *request) error {
		status := fetch.Status{Kind: fetch.HTTP, Code: 200}
		return errors.Join(r.settle(ctx, status), r.settle(ctx, status))
	})
	if status, _, _, _ := w.row(t, "r"); status != "sent" || outcome.Kind != tasks.Succeeded {
		t.Errorf("the request is %s, and the task %+v", status, outcome)
	}
}

// Another task got the lock that this one lost.
func TestB46AResultThatComesLateLeavesTheEarlierOne(t *testing.T) {
	w := openWorld(t, welcome)
	w.queue(t, "r", "one")
	w.within(t, "r", func(ctx context.Context, r *request) error {
		if first := w.run(ctx, "r"); first.Kind != tasks.Succeeded {
			t.Errorf("the first task: %+v", first)
		}
		return r.settle(ctx, fetch.Status{Kind: fetch.HTTP, Code: 500})
	})
	if status, result, _, _ := w.row(t, "r"); status != "sent" || result != "okay" {
		t.Errorf("the request is %s, %s", status, result)
	}
}
