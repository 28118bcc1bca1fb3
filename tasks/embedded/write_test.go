package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// shared is a queue that another process works on as well: it can hold the
// lock of the file.
type shared struct {
	*Store
	t     *testing.T
	other *conn
}

func sharedQueue(t *testing.T, patience time.Duration) *shared {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	q := &shared{Store: open(t, Config{Path: path, Patience: patience}), t: t}
	other, err := connect(t.Context(), openFile(t, path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.close() })
	q.other = other
	return q
}

func (q *shared) lock() {
	q.t.Helper()
	if err := q.other.exec("BEGIN IMMEDIATE"); err != nil {
		q.t.Fatal(err)
	}
}

func (q *shared) unlock() {
	q.t.Helper()
	if err := q.other.exec("COMMIT"); err != nil {
		q.t.Fatal(err)
	}
}

// held waits until one call tries to write and so many others wait for it.
func (q *shared) held(others int) {
	w := &q.writer
	for {
		w.mu.Lock()
		waiting := len(w.waiting)
		w.mu.Unlock()
		if len(w.turn) == 1 && waiting == others {
			return
		}
		runtime.Gosched()
	}
}

// enqueue queues a task in the background.
func (q *shared) enqueue(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := q.Enqueue(ctx, some(1))
		done <- err
	}()
	return done
}

func (q *shared) count() (n int) {
	q.t.Helper()
	if err := q.other.row("SELECT COUNT(*) FROM task", nil, &n); err != nil {
		q.t.Fatal(err)
	}
	return n
}

func some(n int) []tasks.NewTask {
	return slices.Repeat([]tasks.NewTask{{Class: "A", Data: []byte(`{"documentPHID":"PHID-TASK-abcdefghijklmnopqrst","parameters":{"transactionPHIDs":[]}}`)}}, n)
}

func TestB23AWriterWaitsForOtherProcesses(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	q.lock()
	done := q.enqueue(t.Context())
	q.held(0)
	select {
	case err := <-done:
		t.Fatalf("it answered %v while another process held the lock", err)
	default:
	}
	q.unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestB23BeyondItsPatienceAWriterSaysWhatItWaitedFor(t *testing.T) {
	q := sharedQueue(t, time.Millisecond)
	repeated := 0
	q.config.Repeated = func(reason string) {
		if repeated++; reason != "busy" {
			t.Errorf("the store tells that it tries again because of %s", reason)
		}
	}
	defer func() {
		if repeated < 2 {
			t.Errorf("the store tells of %d repetitions", repeated)
		}
	}()
	q.lock()
	for range 2 {
		_, err := q.Enqueue(t.Context(), some(1))
		if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "waited 1ms in vain for other processes") {
			t.Errorf("it answers %v", err)
		}
	}
	q.unlock()
	if _, err := q.Enqueue(t.Context(), some(1)); err != nil || q.count() != 1 {
		t.Errorf("%d tasks after that: %v", q.count(), err)
	}
}

func TestWhatOnlyReadsWaitsForNobody(t *testing.T) {
	q := sharedQueue(t, time.Millisecond)
	ctx := t.Context()
	if _, err := q.Enqueue(ctx, some(2)); err != nil {
		t.Fatal(err)
	}
	leased, err := q.Lease(ctx, storetest.Any(2))
	if err != nil || len(leased) != 2 {
		t.Fatal(leased, err)
	}
	q.lock()
	defer q.unlock()
	if none, err := q.Lease(ctx, storetest.Any(2)); len(none) != 0 || err != nil {
		t.Errorf("Lease answers %v and %v", none, err)
	}
	_, errs := q.Get(ctx, leased[0].ID)
	_, err = q.List(ctx, tasks.Filter{State: tasks.Active, Limit: 1})
	errs = errors.Join(errs, err)
	_, err = q.Stats(ctx)
	errs = errors.Join(errs, err)
	renewed, err := q.Renew(ctx, []tasks.Renewal{{ID: leased[0].ID, Owner: leased[0].Lease.Owner, LeaseTime: time.Minute}})
	if errs = errors.Join(errs, err, renewed[0].Err); errs != nil {
		t.Error(errs)
	}
}

func TestCallsOfTheSameMomentShareACommit(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	q.lock()
	w := during(t, q.Store, func() {
		done := []<-chan error{q.enqueue(t.Context())}
		q.held(0)
		for range 40 {
			done = append(done, q.enqueue(t.Context()))
		}
		q.held(40)
		q.unlock()
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
	})
	if n := w.runs["COMMIT"]; n != 2 || q.count() != 41 {
		t.Errorf("%d commits queued %d tasks, want 2 and 41", n, q.count())
	}
}

func TestATransactionThatTakesLongTakesNoMoreCallsOn(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	q.lock()
	w := during(t, q.Store, func() {
		first := q.enqueue(t.Context())
		q.held(0)
		slow := make(chan error, 1)
		go func() {
			slow <- q.write(t.Context(), func(*txn) error {
				for begun := time.Now(); time.Since(begun) <= longEnough; {
				}
				return nil
			})
		}()
		q.held(1)
		last := q.enqueue(t.Context())
		q.held(2)
		q.unlock()
		if err := errors.Join(<-first, <-slow, <-last); err != nil {
			t.Error(err)
		}
	})
	if n := w.runs["COMMIT"]; n != 3 || q.count() != 2 {
		t.Errorf("%d commits queued %d tasks, want 3 and 2", n, q.count())
	}
}

func TestACallThatCannotBeWrittenDoesNotHurtTheOthers(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	q.lock()
	first := q.enqueue(t.Context())
	q.held(0)
	bad := errors.New("bad")
	failed := make(chan error, 1)
	go func() {
		failed <- q.write(t.Context(), func(tx *txn) error {
			_, err := tx.insert(some(1), 1)
			return errors.Join(bad, err)
		})
	}()
	second, third := q.enqueue(t.Context()), q.enqueue(t.Context())
	q.held(3)
	q.unlock()
	if err := errors.Join(<-first, <-second, <-third); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, bad) {
		t.Errorf("the bad one answers %v", err)
	}
	if n := q.count(); n != 3 {
		t.Errorf("there are %d tasks, want 3", n)
	}
}

func TestACallThatIsCancelledWhileItWaitsIsNotWritten(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	q.lock()
	first, stopFirst := context.WithCancel(t.Context())
	second, stopSecond := context.WithCancel(t.Context())
	one := q.enqueue(first)
	q.held(0)
	two := q.enqueue(second)
	q.held(1)
	stopSecond()
	if err := <-two; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waits its turn answers %v", err)
	}
	stopFirst()
	if err := <-one; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waits for the lock answers %v", err)
	}
	q.unlock()
	if _, err := q.Enqueue(t.Context(), some(1)); err != nil || q.count() != 1 {
		t.Errorf("there are %d tasks, want 1 (%v)", q.count(), err)
	}
	if _, err := q.Enqueue(second, some(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled already answers %v", err)
	}
}

func TestCommitsAreDurable(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "queue.db")})
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := s.writer.conn.row("PRAGMA "+pragma, nil, &got); err != nil || got != want {
			t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
		}
	}
}
