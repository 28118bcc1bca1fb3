package queueapi

import (
	"context"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

type renewRequest struct {
	TaskID   number  `json:"taskID"`
	Fence    *int64  `json:"fence"`
	Duration *number `json:"duration"` // seconds

	// As Gorge's workers name the lease, instead of X-Lease-Owner and fence.
	Owner   string `json:"leaseOwner"`
	Expires number `json:"leaseExpires"`
}

// renew extends a lease, also one that expired and that nobody has taken.
func renew(c *call) (answer, error) {
	var in renewRequest
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	length, err := span("duration", in.Duration, c.LeaseTime, maxWait, time.Second)
	if err != nil || length < time.Second {
		return answer{}, badRequest("duration must be a whole number from 1 to %d", maxWait)
	}
	ctx, cancel := c.store()
	defer cancel()
	held, err := c.leaseToRenew(ctx, in)
	if err != nil {
		return answer{}, err
	}
	renewed, err := c.queue.Store.Renew(ctx, []tasks.Renewal{{ID: int64(in.TaskID), Owner: held.Owner, LeaseTime: length}})
	if err == nil {
		err = renewed[0].Err
	}
	if err != nil {
		return answer{}, err
	}
	now, err := c.queue.Store.Now(ctx)
	if err != nil {
		return answer{}, err
	}
	if renewed[0].Expires < now {
		// A store leaves a row alone that somebody has locked at that moment.
		return answer{}, fmt.Errorf("%w: the lease of task %d could not be extended", tasks.ErrUnavailable, in.TaskID)
	}
	record, err := c.queue.Store.Get(ctx, int64(in.TaskID))
	if err != nil {
		return answer{}, fmt.Errorf("the lease is renewed; read it: %w", err)
	}
	return answer{Data: view(record.Task, record.Archive)}, nil
}

func (c *call) leaseToRenew(ctx context.Context, in renewRequest) (tasks.Lease, error) {
	if in.Owner != "" || in.Expires != 0 {
		_, held, err := c.heldIn(ctx, window{in.TaskID, in.Owner, in.Expires})
		return held, err
	}
	name, err := c.owner()
	if err != nil {
		return tasks.Lease{}, err
	}
	return c.leaseOf(ctx, name, int64(in.TaskID), in.Fence)
}
