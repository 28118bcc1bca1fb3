package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

const (
	// leaseTime is what stock Phorge leases for, and what a class asks for that
	// is to be equal in this.
	leaseTime = 2 * time.Hour

	// standing is what the clock of our copy shows, all the time.
	standing = 2_000_000_000
)

// Store is all that Gantry does to a queue.
type Store interface {
	tasks.Store
	tasks.Operator
}

// OursConfig says which queue an Ours works on.
type OursConfig struct {
	// DSN is that of a database with worker tables and lisk_counter. It is
	// emptied.
	DSN string

	// Wrap, when it is set, stands between the operations and the store: for
	// tests, which must see that its faults are found.
	Wrap func(Store) Store
}

// Ours is our store, as the runtime and the commands of `gantry tasks` use it.
// Leases are taken in turn by two Gantrys. All tasks are queued by the first:
// each reserves ids ahead, so that ids of both together, or of one beside PHP,
// are not quite in the order of time.
type Ours struct {
	tables
	config OursConfig
	stores []*phorge.Store
	queues []Store
	leased map[held]tasks.Task
}

// held is a task that was leased and not executed yet.
type held struct {
	lease, task int
	priority    string // as it was when the task was leased
	since       int64
}

func (h held) key() held            { return held{lease: h.lease, task: h.task} }
func (h held) owner() string        { return fmt.Sprint("lease ", h.lease) }
func retried(lease int) string      { return fmt.Sprint("(retry) ", lease) }
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// Task classes of the operations. The first two are those of the driver.
const (
	Class        = "GantryQueueWorker"
	OtherClass   = "GantryQueueOtherWorker"
	UnknownClass = "AcmeUnknownWorker"
	OddClass     = "gantryqueueworker" // PHP takes it for Class
)

// OpenOurs connects and empties the tables. Close ends it.
func OpenOurs(ctx context.Context, c OursConfig) (*Ours, error) {
	c.DSN = withParameters(c.DSN, fmt.Sprint("timestamp=", standing))
	t, err := openTables(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	o := &Ours{tables: t, config: c}
	if err := o.clear(ctx); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Close ends the connections.
func (o *Ours) Close() error { return errors.Join(o.closeStores(), o.db.Close()) }

func (o *Ours) closeStores() (err error) {
	for _, s := range o.stores {
		err = errors.Join(err, s.Close())
	}
	o.stores, o.queues = nil, nil
	return err
}

// clear begins again with an empty queue and two Gantrys that remember nothing.
func (o *Ours) clear(ctx context.Context) error {
	if err := errors.Join(o.closeStores(), o.tables.clear(ctx)); err != nil {
		return err
	}
	o.leased = map[held]tasks.Task{}
	return o.openStores(ctx)
}

func (o *Ours) openStores(ctx context.Context) error {
	for range 2 {
		s, err := phorge.Open(ctx, phorge.Config{DSN: o.config.DSN, Host: "ours", MaxConns: 1})
		if err != nil {
			return err
		}
		o.stores = append(o.stores, s)
		var q Store = s
		if o.config.Wrap != nil {
			q = o.config.Wrap(s)
		}
		o.queues = append(o.queues, q)
	}
	return nil
}

// pass lets time pass. The clock stands, so everything else moves.
func (o *Ours) pass(ctx context.Context, seconds int64) error { return o.shift(ctx, -seconds) }

// perform does an operation at t+now and answers the rows.
func (o *Ours) perform(ctx context.Context, a ask, now int64) (State, error) {
	if err := o.do(ctx, a, now); err != nil {
		return nil, fmt.Errorf("our store could not %s: %w", a.op, err)
	}
	return o.read(ctx)
}

func (o *Ours) do(ctx context.Context, a ask, now int64) error {
	op, q, ids := a.op, o.queues[0], o.idsOf(a.op.Tasks)
	var err error
	switch op.Do {
	case Schedule:
		_, err = q.Enqueue(ctx, o.newTasks(op.New, now))
	case Lease:
		err = o.lease(ctx, o.queues[a.lease%2], a)
	case Execute:
		err = o.execute(ctx, a, now)
	case Awaken:
		_, err = q.Awaken(ctx, ids)
	case Cancel:
		_, err = q.Cancel(ctx, ids)
	case Free:
		_, err = q.Free(ctx, ids)
	case Delay:
		_, err = q.Delay(ctx, ids, o.base+now+op.Until)
	case Prioritize:
		_, err = q.Priority(ctx, ids, op.Priority)
	case Retry:
		_, err = q.Retry(ctx, ids, op.Repeat)
	default:
		err = errors.New("there is no such operation")
	}
	return err
}

func (o *Ours) lease(ctx context.Context, q Store, a ask) error {
	want := tasks.ClassRequest{Limit: a.op.Limit, LeaseTime: leaseTime}
	request := tasks.LeaseRequest{
		Limit: a.op.Limit, Classes: map[string]tasks.ClassRequest{Class: want, OtherClass: want},
	}
	leased, err := q.Lease(ctx, request)
	for errors.Is(err, tasks.ErrSearching) {
		leased, err = q.Lease(ctx, request)
	}
	for _, t := range leased {
		o.owners[t.Lease.Owner] = held{lease: a.lease}.owner()
		o.owners[tasks.RetryOwner(t.Lease.Fence, t.Lease.Crashes)] = retried(a.lease)
		o.leased[held{lease: a.lease, task: o.tasks.of[t.ID]}] = t
	}
	return err
}

// execute does what an executor and the runtime make of an outcome.
func (o *Ours) execute(ctx context.Context, a ask, now int64) error {
	task, ok := o.leased[a.held.key()]
	if !ok {
		return fmt.Errorf("task %d was not leased under lease %d", a.held.task, a.held.lease)
	}
	q, end := o.queues[0], *a.op.Outcome
	outcome := tasks.Outcome{Kind: tasks.Succeeded}
	switch {
	case end.Retries != nil && task.FailureCount > *end.Retries:
		outcome.Kind = tasks.Failed
		end.Required = nil // nothing runs
	case end.End == Yield:
		outcome.Kind, outcome.Wait = tasks.Yielded, seconds(*end.Wait)
	case end.End == Permanent:
		outcome.Kind = tasks.Failed
	case end.End == Temporary:
		outcome.Kind, outcome.Wait = tasks.Retry, tasks.DefaultWait
		if end.Wait != nil {
			outcome.Wait = seconds(*end.Wait)
		}
		if end.NoWait {
			outcome.Wait = leaseTime // bridge/engine answers so
		}
	default:
		outcome.FollowUps = o.newTasks(end.FollowUps, now)
	}
	if end.Required != nil && seconds(*end.Required) > leaseTime {
		renewal := tasks.Renewal{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: seconds(*end.Required)}
		if _, err := q.Renew(ctx, []tasks.Renewal{renewal}); err != nil {
			return err
		}
	}
	settled, err := q.Settle(ctx, []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: outcome}})
	if err == nil && settled[0].Err != nil && !errors.Is(settled[0].Err, tasks.ErrLeaseLost) {
		err = settled[0].Err
	}
	return err
}

// carry makes what stock Phorge did the state of our copy. When it queued tasks,
// the ids that the Gantrys reserved are forgotten.
func (o *Ours) carry(ctx context.Context, a ask, from, to State) error {
	if a.op.Do == Taskmaster {
		o.owners[fmt.Sprintf("4711:1:taskmaster:%d", a.lease)] = fmt.Sprint("taskmaster ", a.lease)
	}
	if err := o.write(ctx, from, to); err != nil || from.tasks() == to.tasks() {
		return err
	}
	return errors.Join(o.closeStores(), o.openStores(ctx))
}

func (o *Ours) newTasks(news []New, now int64) []tasks.NewTask {
	list := make([]tasks.NewTask, len(news))
	for i, n := range news {
		list[i] = tasks.NewTask{Class: n.Class, Data: []byte(n.Data), Priority: n.Priority}
		if n.Object != "" {
			list[i].ObjectPHID = &n.Object
		}
		if n.Container != "" {
			list[i].ContainerPHID = &n.Container
		}
		if n.Delay != nil {
			list[i].DelayUntil = o.base + now + *n.Delay
		}
	}
	return list
}
