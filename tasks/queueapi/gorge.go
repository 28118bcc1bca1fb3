package queueapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/phorge-gantry/gantry/tasks"
)

// What Gorge's workers call beside the calls of their first version. They name a
// lease by the owner and the end that it was answered with. That is as good as a
// fence, but for leases that one name takes of one task within the same second.

// executionVersion is the version of Gorge's execution protocol that is spoken.
const executionVersion = 1

// window is a lease as Gorge's workers name it.
type window struct {
	TaskID  number `json:"taskID"`
	Owner   string `json:"leaseOwner"`
	Expires number `json:"leaseExpires"`
}

// heldIn answers the task that a lease is about, active or archived under it,
// and the lease.
func (c *call) heldIn(ctx context.Context, w window) (tasks.Record, tasks.Lease, error) {
	if w.TaskID < 1 || w.Owner == "" || w.Expires < 1 {
		return tasks.Record{}, tasks.Lease{}, badRequest("taskID, leaseOwner and leaseExpires must be those of a lease")
	}
	record, err := c.queue.Store.Get(ctx, int64(w.TaskID))
	if err != nil && !errors.Is(err, tasks.ErrNotFound) {
		return record, tasks.Lease{}, err
	}
	if err == nil && record.Owner != nil && record.Expires != nil && *record.Expires == int64(w.Expires) {
		if holder, ok := tasks.ParseCaller(*record.Owner); ok && holder.Name == w.Owner {
			return record, tasks.Lease{Owner: *record.Owner, Fence: holder.Fence}, nil
		}
	}
	return record, tasks.Lease{}, fmt.Errorf("task %d is not held by %s until %d: %w", w.TaskID, w.Owner, w.Expires, tasks.ErrLeaseLost)
}

// settleIn settles a task under the lease that a worker names. Archived says
// that it was, and with what result.
func (c *call) settleIn(w window, outcome tasks.Outcome) (archived *tasks.Archive, err error) {
	ctx, cancel := c.store()
	defer cancel()
	record, lease, err := c.heldIn(ctx, w)
	if err != nil || record.Archive != nil {
		return record.Archive, err
	}
	settled, err := c.settle(ctx, []tasks.Settlement{{ID: record.ID, Lease: lease, Outcome: outcome, Route: apiRoute}})
	if err == nil {
		err = settled[0].Err
	}
	return nil, err
}

// errEnded: the lease is over, and not by what is said of it now.
var errEnded = fmt.Errorf("the task is archived already: %w", tasks.ErrLeaseLost)

// finalize archives a task as done, with its follow-ups. Repeating it is safe.
func finalize(c *call) (answer, error) {
	var in struct {
		window
		Duration  *number   `json:"duration"` // microseconds
		FollowUps followUps `json:"followups"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	outcome, err := c.outcome(completed, outcomeRequest{Duration: in.Duration, FollowUps: in.FollowUps})
	if err != nil {
		return answer{}, err
	}
	archived, err := c.settleIn(in.window, outcome)
	if err == nil && archived != nil && archived.Result != tasks.ResultSuccess {
		err = errEnded
	}
	return answer{Data: map[string]string{"status": "finalized"}}, err
}

// resolve says that a task failed or yielded. What is said again is refused.
func resolve(c *call) (answer, error) {
	var in struct {
		window
		Outcome   string  `json:"outcome"`
		RetryWait *number `json:"retryWait"` // seconds
		Duration  *number `json:"duration"`  // seconds
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	kind, one := failed, outcomeRequest{RetryWait: in.RetryWait}
	switch in.Outcome {
	case "retry":
	case "failure":
		one.Permanent = new(true)
	case "yield":
		kind, one = yielded, outcomeRequest{Duration: in.Duration}
	default:
		return answer{}, badRequest("outcome must be retry, failure or yield")
	}
	outcome, err := c.outcome(kind, one)
	if err != nil {
		return answer{}, err
	}
	archived, err := c.settleIn(in.window, outcome)
	if err == nil && archived != nil {
		err = errEnded
	}
	return answer{Data: map[string]string{"status": "resolved"}}, err
}

// enqueueEvent queues the task of an event once.
func enqueueEvent(c *call) (answer, error) {
	var in struct {
		EventID string  `json:"eventID"`
		Task    newTask `json:"task"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if in.EventID == "" || len(in.EventID) > tasks.MaxKey {
		return answer{}, badRequest("eventID must have 1 to %d bytes", tasks.MaxKey)
	}
	news, err := c.newTasks([]newTask{in.Task}, "task")
	if err != nil {
		return answer{}, err
	}
	// Events are no idempotency keys of callers, and can have other characters.
	sum := sha256.Sum256([]byte(in.EventID))
	once := tasks.Once{Key: "event:" + hex.EncodeToString(sum[:]), Keep: c.KeepKeys}
	made, err := c.create(news, &once)
	if errors.Is(err, tasks.ErrKeyReused) {
		f := refuse(http.StatusConflict, codeEventConflict, "the event was accepted with another task")
		f.cause = err
		return answer{}, f
	}
	if err != nil {
		return answer{}, err
	}
	return answer{Data: made.views[0], Duplicate: made.duplicate}, nil
}
