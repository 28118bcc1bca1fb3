package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// apiLease is how long leases over HTTP last. It is in whole seconds of the
// database, so that much less a second is what a worker can count on.
const apiLease = 4 * time.Second

// caller is the queue as one program sees it over HTTP, in the words of a store.
// It calls another API server when one does not answer.
type caller struct {
	name      string // X-Lease-Owner
	addresses []string
	at        atomic.Int64 // which of them
}

var _ tasks.Store = (*caller)(nil)

// post makes one call. An error that wraps none of the sentinels leaves open
// whether the call took effect.
func (c *caller) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	at := c.at.Load()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addresses[at]+"/api/queue/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Lease-Owner", c.name)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		c.at.CompareAndSwap(at, (at+1)%int64(len(c.addresses)))
		return err
	}
	defer answer.Body.Close()
	var read struct {
		Data  json.RawMessage
		Error apiError
	}
	if err := json.NewDecoder(answer.Body).Decode(&read); err != nil {
		return fmt.Errorf("%s answered %d: %w", path, answer.StatusCode, err)
	}
	if answer.StatusCode != http.StatusOK {
		return read.Error.err()
	}
	return json.Unmarshal(read.Data, into)
}

// apiError is an error as the API answers it.
type apiError struct{ Code, Message string }

func (e apiError) err() error {
	err := fmt.Errorf("%s: %s", e.Code, e.Message)
	switch e.Code {
	case "":
		return nil
	case "ERR_LEASE_CONFLICT":
		return fmt.Errorf("%w: %w", tasks.ErrLeaseLost, err)
	case "ERR_BAD_REQUEST":
		return fmt.Errorf("%w: %w", tasks.ErrInvalid, err)
	}
	return err
}

// apiTask is a task as the API takes and shows it.
type apiTask struct {
	ID           int64  `json:"id,omitempty"`
	Class        string `json:"taskClass"`
	Data         string `json:"data"`
	Fence        int64  `json:"fence,omitempty"`
	Expires      int64  `json:"leaseExpires,omitempty"`
	FailureCount int    `json:"failureCount,omitempty"`
}

// newAPITask leaves out what only answers hold.
type newAPITask struct {
	Class string `json:"taskClass"`
	Data  string `json:"data"`
}

func newAPITasks(news []tasks.NewTask) []newAPITask {
	all := make([]newAPITask, len(news))
	for i, n := range news {
		all[i] = newAPITask{n.Class, string(n.Data)}
	}
	return all
}

// Enqueue implements tasks.Store.
func (c *caller) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	var created []apiTask
	if err := c.post(ctx, "enqueue", newAPITasks(news), &created); err != nil {
		return nil, err
	}
	ids := make([]int64, len(created))
	for i, t := range created {
		ids[i] = t.ID
	}
	return ids, nil
}

// Lease implements tasks.Store. It waits for tasks for a second.
func (c *caller) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	var classes []string
	for class := range req.Classes {
		classes = append(classes, class)
	}
	var leased []apiTask
	if err := c.post(ctx, "lease", map[string]any{"limit": req.Limit, "taskClasses": classes, "wait": 1}, &leased); err != nil {
		return nil, err
	}
	held := make([]tasks.Task, len(leased))
	for i, t := range leased {
		owner := tasks.Caller{Name: c.name, Fence: t.Fence}.String()
		held[i] = tasks.Task{
			ID: t.ID, Class: t.Class, Data: []byte(t.Data), FailureCount: t.FailureCount,
			Lease: &tasks.Lease{Owner: owner, Fence: t.Fence, Expires: t.Expires},
		}
	}
	return held, nil
}

// Renew implements tasks.Store, for one lease.
func (c *caller) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	one := renewals[0]
	by, _ := tasks.ParseCaller(one.Owner)
	var renewed apiTask
	err := c.post(ctx, "renew", map[string]any{"taskID": one.ID, "fence": by.Fence, "duration": one.LeaseTime / time.Second}, &renewed)
	switch {
	case errors.Is(err, tasks.ErrLeaseLost):
		return []tasks.Renewed{{ID: one.ID, Err: err}}, nil
	case err == nil && renewed.Fence != by.Fence:
		err = errors.New("the lease was renewed and ended before it was read")
	}
	return []tasks.Renewed{{ID: one.ID, Expires: renewed.Expires}}, err
}

// Settle implements tasks.Store.
func (c *caller) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	items := make([]map[string]any, len(settlements))
	for i, s := range settlements {
		items[i] = outcomeItem(s)
	}
	var answers []struct {
		TaskID    int64
		FollowUps []int64
		Error     apiError
	}
	if err := c.post(ctx, "settle", map[string]any{"settlements": items}, &answers); err != nil {
		return nil, err
	}
	settled := make([]tasks.Settled, len(answers))
	for i, a := range answers {
		settled[i] = tasks.Settled{ID: a.TaskID, FollowUps: a.FollowUps, Err: a.Error.err()}
	}
	return settled, nil
}

func outcomeItem(s tasks.Settlement) map[string]any {
	item := map[string]any{"taskID": s.ID, "fence": s.Lease.Fence}
	switch o := s.Outcome; o.Kind {
	case tasks.Succeeded:
		item["outcome"], item["duration"] = "complete", o.Duration/time.Microsecond
		item["followups"] = newAPITasks(o.FollowUps)
	case tasks.Yielded:
		item["outcome"], item["duration"] = "yield", o.Wait/time.Second
	case tasks.Failed:
		item["outcome"], item["permanent"] = "fail", true
	default:
		item["outcome"], item["retryWait"] = "fail", o.Wait/time.Second
	}
	return item
}
