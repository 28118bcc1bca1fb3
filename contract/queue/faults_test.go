package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract/queue"
	"github.com/phorge-gantry/gantry/tasks"
)

// faulty is our store with one small fault.
type faulty struct {
	queue.Store
	enqueue func(*tasks.NewTask)
	lease   func(*tasks.LeaseRequest)
	outcome func(*tasks.Outcome)
	until   func(int64) int64
	ids     func([]int64) []int64
	cancel  func(context.Context, queue.Store, []int64) ([]tasks.Changed, error)
	repeat  bool
	renew   bool // does not
}

func (f faulty) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if f.enqueue != nil {
		for i := range news {
			f.enqueue(&news[i])
		}
	}
	return f.Store.Enqueue(ctx, news)
}

func (f faulty) Lease(ctx context.Context, request tasks.LeaseRequest) ([]tasks.Task, error) {
	if f.lease != nil {
		f.lease(&request)
	}
	return f.Store.Lease(ctx, request)
}

func (f faulty) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	if f.renew {
		return nil, nil
	}
	return f.Store.Renew(ctx, renewals)
}

func (f faulty) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if f.outcome != nil {
		for i := range settlements {
			f.outcome(&settlements[i].Outcome)
		}
	}
	return f.Store.Settle(ctx, settlements)
}

func (f faulty) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	if f.cancel != nil {
		return f.cancel(ctx, f.Store, ids)
	}
	return f.Store.Cancel(ctx, ids)
}

func (f faulty) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	if f.until != nil {
		until = f.until(until)
	}
	return f.Store.Delay(ctx, ids, until)
}

func (f faulty) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return f.Store.Free(ctx, f.named(ids))
}

func (f faulty) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	return f.Store.Priority(ctx, f.named(ids), priority)
}

func (f faulty) Awaken(ctx context.Context, ids []int64) (int, error) {
	return f.Store.Awaken(ctx, f.named(ids))
}

func (f faulty) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	return f.Store.Retry(ctx, ids, repeat || f.repeat)
}

func (f faulty) named(ids []int64) []int64 {
	if f.ids != nil {
		return f.ids(ids)
	}
	return ids
}

func TestTheGoldensFindSmallFaults(t *testing.T) {
	for name, fault := range map[string]faulty{
		"a task is queued at the default priority": {enqueue: func(n *tasks.NewTask) {
			if n.Priority != nil {
				*n = tasks.NewTask{Class: n.Class, Data: n.Data, ObjectPHID: n.ObjectPHID, ContainerPHID: n.ContainerPHID, DelayUntil: n.DelayUntil}
			}
		}},
		"object and container change places": {enqueue: func(n *tasks.NewTask) { n.ObjectPHID, n.ContainerPHID = n.ContainerPHID, n.ObjectPHID }},
		"data is written with a newline":     {enqueue: func(n *tasks.NewTask) { n.Data = append(slices.Clone(n.Data), '\n') }},
		"a delay is a second short":          {enqueue: func(n *tasks.NewTask) { n.DelayUntil = max(0, n.DelayUntil-1) }},
		"a lease takes one task more":        {lease: func(r *tasks.LeaseRequest) { r.Limit++ }},
		"leases end a second early": {lease: func(r *tasks.LeaseRequest) {
			for class, want := range r.Classes {
				want.LeaseTime -= time.Second
				r.Classes[class] = want
			}
		}},
		"every class is leased":                    {lease: func(r *tasks.LeaseRequest) { r.Others = r.Classes[queue.Class] }},
		"a required lease is not renewed":          {renew: true},
		"follow-ups are queued in the wrong order": {outcome: func(o *tasks.Outcome) { slices.Reverse(o.FollowUps) }},
		"the last follow-up is lost":               {outcome: func(o *tasks.Outcome) { o.FollowUps = o.FollowUps[:max(0, len(o.FollowUps)-1)] }},
		"a wait is a second too long": {outcome: func(o *tasks.Outcome) {
			if o.Kind == tasks.Retry {
				o.Wait += time.Second
			}
		}},
		"a yield counts as a failure": {outcome: func(o *tasks.Outcome) {
			if o.Kind == tasks.Yielded {
				o.Kind = tasks.Retry
			}
		}},
		"a permanent failure is tried again": {outcome: func(o *tasks.Outcome) {
			if o.Kind == tasks.Failed {
				o.Kind, o.Wait = tasks.Retry, tasks.DefaultWait
			}
		}},
		"a failure leaves no trace": {outcome: func(o *tasks.Outcome) {
			if o.Kind == tasks.Retry {
				o.Kind = tasks.Released
			}
		}},
		"cancel frees the task": {cancel: func(ctx context.Context, q queue.Store, ids []int64) ([]tasks.Changed, error) {
			return q.Free(ctx, ids)
		}},
		"delay ends a second late":         {until: func(until int64) int64 { return until + 1 }},
		"only the first task is changed":   {ids: func(ids []int64) []int64 { return ids[:1] }},
		"no task is changed":               {ids: func([]int64) []int64 { return nil }},
		"retry repeats what has succeeded": {repeat: true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, _ := openOurs(t, func(q queue.Store) queue.Store { fault.Store = q; return fault })
			r := queue.NewReplay(ours)
			for _, g := range goldens(t) {
				if g.Without != "" {
					continue
				}
				difference, err := r.Replay(t.Context(), g)
				if err != nil {
					t.Fatal(err)
				}
				if difference != nil {
					return
				}
			}
			t.Error("no golden finds it")
		})
	}
}
