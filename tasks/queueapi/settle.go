package queueapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// route names this API in the attempts of a task.
const apiRoute = "api"

// maxWait bounds the waits that callers ask for, in seconds: a year.
const maxWait = 365 * 24 * 3600

// outcomes of the settle call, and of the paths of the same names.
const (
	completed = "complete"
	failed    = "fail"
	yielded   = "yield"
)

// outcomeRequest is one outcome of one task.
type outcomeRequest struct {
	TaskID  number  `json:"taskID"`
	Fence   *int64  `json:"fence"`
	Outcome *string `json:"outcome"` // in settle only

	Duration  *number   `json:"duration"`  // complete: microseconds; yield: seconds
	FollowUps followUps `json:"followups"` // complete
	Permanent *bool     `json:"permanent"` // fail
	RetryWait *number   `json:"retryWait"` // fail: seconds
	Message   *string   `json:"message"`   // fail
}

// followUps is a list; PHP and others write an empty one as an empty map.
type followUps []newTask

// UnmarshalJSON implements json.Unmarshaler.
func (f *followUps) UnmarshalJSON(text []byte) error {
	if string(bytes.Join(bytes.Fields(text), nil)) == "{}" {
		return nil
	}
	var items []json.RawMessage
	if err := unmarshal(text, &items); err != nil {
		return err
	}
	list, err := each[newTask](items, "followups", max(len(items), 1))
	*f = list
	return err
}

// outcome answers the outcome that is asked for.
func (c *call) outcome(kind string, in outcomeRequest) (o tasks.Outcome, err error) {
	given := map[string]bool{
		"duration": in.Duration != nil, "followups": len(in.FollowUps) > 0,
		"permanent": in.Permanent != nil, "retryWait": in.RetryWait != nil, "message": in.Message != nil,
	}
	var takes []string
	switch kind {
	case completed:
		takes = []string{"duration", "followups"}
		o.Kind = tasks.Succeeded
		if o.Duration, err = span("duration", in.Duration, 0, maxWait*1e6, time.Microsecond); err == nil {
			o.FollowUps, err = c.newTasks(in.FollowUps, "followups")
			c.giveTraceparent(o.FollowUps)
		}
	case failed:
		takes = []string{"permanent", "retryWait", "message"}
		o.Kind, o.Category = tasks.Retry, tasks.CategoryTemporary
		if in.Permanent != nil && *in.Permanent {
			o.Kind, o.Category = tasks.Failed, tasks.CategoryPermanent
		}
		if in.Message != nil {
			o.Reason = *in.Message
		}
		o.Wait, err = span("retryWait", in.RetryWait, c.RetryWait, maxWait, time.Second)
	case yielded:
		takes = []string{"duration"}
		o.Kind = tasks.Yielded
		o.Wait, err = span("duration", in.Duration, tasks.MinYield, maxWait, time.Second)
	default:
		return o, badRequest("outcome must be %s, %s or %s", completed, failed, yielded)
	}
	for name, is := range given {
		if err == nil && is && !slices.Contains(takes, name) {
			err = badRequest("%s has no %s", kind, name)
		}
	}
	return o, err
}

func span(name string, n *number, absent time.Duration, most int64, unit time.Duration) (time.Duration, error) {
	switch {
	case n == nil:
		return absent, nil
	case *n < 0 || int64(*n) > most:
		return 0, badRequest("%s must be a whole number from 0 to %d", name, most)
	}
	return time.Duration(*n) * unit, nil
}

// leaseOf answers the lease that a caller settles or renews. Without a fence it
// is whatever lease the row carries, if it is one of that name; and without a
// name too, the one that was given there last.
func (c *call) leaseOf(ctx context.Context, name string, id int64, fence *int64) (tasks.Lease, error) {
	if id < 1 {
		return tasks.Lease{}, badRequest("taskID must be the id of a task")
	}
	if fence != nil {
		if *fence < 1 {
			return tasks.Lease{}, badRequest("fence must be the one that the lease was answered with")
		}
		return tasks.Lease{Owner: tasks.Caller{Name: name, Fence: *fence}.String(), Fence: *fence}, nil
	}
	if c.r.Header.Get("X-Lease-Owner") == "" {
		if held, ok := c.queue.given.find(c.who.Name, c.address(), id); ok {
			return held, nil
		}
	}
	record, err := c.queue.Store.Get(ctx, id)
	if err != nil && !errors.Is(err, tasks.ErrNotFound) {
		return tasks.Lease{}, err
	}
	if err == nil && record.Owner != nil {
		if holder, ok := tasks.ParseCaller(*record.Owner); ok && holder.Name == name {
			return tasks.Lease{Owner: *record.Owner, Fence: holder.Fence}, nil
		}
	}
	return tasks.Lease{}, fmt.Errorf("task %d is not held by %s: %w", id, name, tasks.ErrLeaseLost)
}

// settlement answers what to ask of the store.
func (c *call) settlement(ctx context.Context, name, kind string, in outcomeRequest) (tasks.Settlement, error) {
	outcome, err := c.outcome(kind, in)
	if err != nil {
		return tasks.Settlement{}, err
	}
	held, err := c.leaseOf(ctx, name, int64(in.TaskID), in.Fence)
	return tasks.Settlement{ID: int64(in.TaskID), Lease: held, Outcome: outcome, Route: apiRoute}, err
}

// settle ends leases; followUps that were queued wake who waits for them.
func (c *call) settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	settled, err := c.queue.Store.SettleLive(ctx, settlements)
	c.observeSettled(settlements, settled)
	for i, s := range settled {
		if s.Err == nil {
			c.queue.room.wake(settlements[i].Outcome.FollowUps)
		}
	}
	return settled, err
}

// one settles the one task that the body is about.
func (c *call) one(ctx context.Context, kind string) (tasks.Settled, error) {
	var in outcomeRequest
	if err := c.decode(&in); err != nil {
		return tasks.Settled{}, err
	}
	if in.Outcome != nil {
		return tasks.Settled{}, badRequest("%s has no outcome", kind)
	}
	name, err := c.owner()
	if err != nil {
		return tasks.Settled{}, err
	}
	settlement, err := c.settlement(ctx, name, kind, in)
	if err != nil {
		return tasks.Settled{}, err
	}
	settled, err := c.settle(ctx, []tasks.Settlement{settlement})
	if err != nil {
		return tasks.Settled{}, err
	}
	return settled[0], settled[0].Err
}

// done is the answer where nothing else is to be said.
var done = answer{Data: map[string]string{"status": "ok"}}

func complete(c *call) (answer, error) {
	ctx, cancel := c.store()
	defer cancel()
	settled, err := c.one(ctx, completed)
	if err != nil {
		return answer{}, err
	}
	record, err := c.queue.Store.Get(ctx, settled.ID)
	if err != nil {
		return answer{}, fmt.Errorf("task %d is complete; read it: %w", settled.ID, err)
	}
	v := view(record.Task, record.Archive)
	v.FollowUps = settled.FollowUps
	return answer{Data: v}, nil
}

func fail(c *call) (answer, error) { return c.end(failed) }

func yield(c *call) (answer, error) { return c.end(yielded) }

func (c *call) end(kind string) (answer, error) {
	ctx, cancel := c.store()
	defer cancel()
	if _, err := c.one(ctx, kind); err != nil {
		return answer{}, err
	}
	return done, nil
}

// settledView is the answer to one outcome of many.
type settledView struct {
	TaskID    int64    `json:"taskID"`
	FollowUps []int64  `json:"followups,omitempty"`
	Error     *failure `json:"error,omitempty"`
}

// settleMany settles each outcome for itself; what one comes to is no matter to
// the others.
func settleMany(c *call) (answer, error) {
	var in struct {
		Settlements []json.RawMessage `json:"settlements"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if len(in.Settlements) > c.MaxTasks {
		return answer{}, tooMany("settlements", c.MaxTasks)
	}
	name, err := c.owner()
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := c.store()
	defer cancel()
	views := make([]settledView, len(in.Settlements))
	var settlements []tasks.Settlement
	var places []int // of the settlements among the views
	for i, item := range in.Settlements {
		var one outcomeRequest
		err := unmarshal(item, &one)
		views[i].TaskID = int64(one.TaskID)
		var s tasks.Settlement
		if err == nil {
			kind := ""
			if one.Outcome != nil {
				kind = *one.Outcome
			}
			s, err = c.settlement(ctx, name, kind, one)
		}
		if err != nil {
			views[i].Error = failureOf(err)
			continue
		}
		settlements, places = append(settlements, s), append(places, i)
	}
	settled, err := c.settle(ctx, settlements)
	if err != nil {
		return answer{}, err
	}
	for i, s := range settled {
		v := &views[places[i]]
		v.FollowUps = s.FollowUps
		if s.Err != nil {
			v.Error = failureOf(s.Err)
		}
	}
	return answer{Data: views}, nil
}
