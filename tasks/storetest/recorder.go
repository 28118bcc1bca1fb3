package storetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

// Recorder is a store that writes down each call before it is made and each
// answer before it is given, one line and one write each. A process that is
// killed leaves a readable history in which its last calls have no answer.
// Check reads what one or several of them wrote.
type Recorder struct {
	store   tasks.Store
	process string
	caller  bool

	mu    sync.Mutex
	out   io.Writer
	calls int64
}

// NewRecorder records what is asked of a store. Use OpenHistory for out when
// the process may be killed.
func NewRecorder(store tasks.Store, out io.Writer) *Recorder {
	return &Recorder{store: store, out: out, process: rand.Text()[:8]}
}

// NewCallerRecorder records what a caller outside of the process asks of a store,
// as over HTTP: leases without what they were taken from, and outcomes that only
// a live lease may have.
func NewCallerRecorder(store tasks.Store, out io.Writer) *Recorder {
	r := NewRecorder(store, out)
	r.caller = true
	return r
}

// begin writes the beginning of a call. The function it answers writes the
// call's answer; when that fails the test has no history, which its error says.
func (r *Recorder) begin(op Op, items []Item) (answer func(items []Item, failed error) error, err error) {
	r.mu.Lock()
	r.calls++
	call := r.calls
	r.mu.Unlock()
	event := Event{Call: call, Op: op, Items: items}
	return func(items []Item, failed error) error {
		event := Event{Call: call, Op: op, Answer: true, Items: items}
		if failed != nil {
			event.Failed = failed.Error()
			event.Refused = errors.Is(failed, tasks.ErrInvalid) || errors.Is(failed, tasks.ErrTooLarge) ||
				errors.Is(failed, tasks.ErrSearching)
		}
		return r.write(event)
	}, r.write(event)
}

func (r *Recorder) write(event Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	event.Process = r.process
	event.At = monotonic()
	line, err := json.Marshal(event)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", event.Op, err)
	}
	return nil
}

// monotonic is the same clock in every process of the machine, and nobody sets
// it.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("the machine has no monotonic clock: %v", err))
	}
	return ts.Nano()
}

// record makes one call. The answer of the call comes back unless it could not
// be written.
func record[A any](r *Recorder, op Op, asked []Item, call func() (A, error), answered func(A) []Item) (A, error) {
	var none A
	answer, err := r.begin(op, asked)
	if err != nil {
		return none, err
	}
	a, failed := call()
	var items []Item
	if failed == nil {
		items = answered(a)
	}
	if err := answer(items, failed); err != nil {
		return none, err
	}
	return a, failed
}

// Enqueue implements tasks.Store.
func (r *Recorder) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	return record(r, OpEnqueue, newItems(news),
		func() ([]int64, error) { return r.store.Enqueue(ctx, news) }, idItems)
}

func newItems(news []tasks.NewTask) []Item {
	items := make([]Item, len(news))
	for i, n := range news {
		items[i] = Item{Class: n.Class, Data: string(n.Data), Delayed: n.DelayUntil > 0}
	}
	return items
}

func idItems(ids []int64) []Item {
	items := make([]Item, len(ids))
	for i, id := range ids {
		items[i] = Item{ID: id}
	}
	return items
}

// Lease implements tasks.Store.
func (r *Recorder) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	return record(r, OpLease, nil,
		func() ([]tasks.Task, error) { return r.store.Lease(ctx, req) },
		func(leased []tasks.Task) []Item {
			items := make([]Item, len(leased))
			for i, task := range leased {
				items[i] = Item{
					ID: task.ID, Class: task.Class, Lease: task.Lease,
					LeaseTime: req.Want(task.Class).LeaseTime, Caller: r.caller,
				}
			}
			return items
		})
}

// Renew implements tasks.Store.
func (r *Recorder) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	asked := make([]Item, len(renewals))
	for i, renewal := range renewals {
		asked[i] = Item{ID: renewal.ID, Owner: renewal.Owner, LeaseTime: renewal.LeaseTime}
	}
	return record(r, OpRenew, asked,
		func() ([]tasks.Renewed, error) { return r.store.Renew(ctx, renewals) },
		func(renewed []tasks.Renewed) []Item {
			items := make([]Item, len(renewed))
			for i, a := range renewed {
				items[i] = Item{ID: a.ID, Expires: a.Expires}
				items[i].say(a.Err)
			}
			return items
		})
}

// Settle implements tasks.Store.
func (r *Recorder) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	asked := make([]Item, len(settlements))
	for i, s := range settlements {
		asked[i] = Item{
			ID: s.ID, Owner: s.Lease.Owner, Lease: &s.Lease,
			Kind: s.Outcome.Kind, Wait: s.Outcome.Wait, FollowUps: newItems(s.Outcome.FollowUps), Caller: r.caller,
		}
	}
	return record(r, OpSettle, asked,
		func() ([]tasks.Settled, error) { return r.store.Settle(ctx, settlements) },
		func(settled []tasks.Settled) []Item {
			items := make([]Item, len(settled))
			for i, a := range settled {
				items[i] = Item{ID: a.ID, FollowUps: idItems(a.FollowUps)}
				items[i].say(a.Err)
			}
			return items
		})
}

func (i *Item) say(err error) {
	switch {
	case errors.Is(err, tasks.ErrLeaseLost):
		i.Lost = true
	case err != nil:
		i.Refused = err.Error()
	}
}

// Execution writes that a leased task begins to run. The function it answers
// writes that it ended, and how.
func (r *Recorder) Execution(task tasks.Task) (ended func(tasks.Kind) error, err error) {
	item := Item{ID: task.ID, Owner: task.Lease.Owner}
	answer, err := r.begin(OpExecute, []Item{item})
	return func(kind tasks.Kind) error {
		item.Kind = kind
		return answer([]Item{item}, nil)
	}, err
}

// Executor records every execution of another executor. One that cannot be
// recorded is not run: it is given back.
func (r *Recorder) Executor(e tasks.Executor) tasks.Executor { return recordedExecutor{e, r} }

type recordedExecutor struct {
	tasks.Executor
	recorder *Recorder
}

func (e recordedExecutor) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	ended, err := e.recorder.Execution(task)
	if err != nil {
		return tasks.Outcome{Kind: tasks.Released, Wait: time.Second, Reason: err.Error()}
	}
	outcome := e.Executor.Execute(ctx, task, require)
	if err := ended(outcome.Kind); err != nil {
		return tasks.Outcome{Kind: tasks.Retry, Wait: time.Second, Reason: err.Error()}
	}
	return outcome
}

// Disturb does something to the queue behind the store's back and writes down
// when. With ids, anything may have become of those rows; without, leases may
// end at other times than the store said, as after `phd start` or Rows.Age.
func (r *Recorder) Disturb(ids []int64, do func() error) error {
	_, err := record(r, OpDisturb, idItems(ids),
		func() (struct{}, error) { return struct{}{}, do() },
		func(struct{}) []Item { return nil })
	return err
}
