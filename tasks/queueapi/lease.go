package queueapi

import (
	"context"
	"errors"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// maxLease bounds the tasks of one lease call.
	maxLease = 500

	// maxClasses bounds the classes a lease call names.
	maxClasses = 500

	// maxSearches bounds how often a store is asked in one go that is not
	// through with looking.
	maxSearches = 100
)

type leaseRequest struct {
	Limit   *number  `json:"limit"`
	Classes []string `json:"taskClasses"`
	Wait    number   `json:"wait"` // seconds
}

// lease takes tasks, or waits until there are some.
func lease(c *call) (answer, error) {
	var in leaseRequest
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	name, err := c.owner()
	if err != nil {
		return answer{}, err
	}
	req, err := c.request(in)
	if err != nil {
		return answer{}, err
	}
	held, err := c.take(name, req)
	if err == nil && len(held) == 0 && in.Wait > 0 {
		held, err = c.await(name, req, in.Classes, time.Duration(in.Wait)*time.Second)
	}
	if err != nil {
		return answer{}, err
	}
	c.queue.given.note(c.who.Name, c.address(), held)
	views := make([]taskView, len(held))
	for i, t := range held {
		views[i] = view(t, nil).withData(t.Data)
		views[i].Traceparent = t.Traceparent
		c.Observer.Leased(c.queue.name, t, c.LeaseTime)
	}
	return answer{Data: views, unheard: func() { c.giveBack(held) }}, nil
}

// request answers what to ask of the store.
func (c *call) request(in leaseRequest) (tasks.LeaseRequest, error) {
	limit := 1
	if in.Limit != nil {
		if *in.Limit < 1 || *in.Limit > maxLease {
			return tasks.LeaseRequest{}, badRequest("limit must be a whole number from 1 to %d", maxLease)
		}
		limit = int(*in.Limit)
	}
	if most := int64(c.MaxWait / time.Second); in.Wait < 0 || int64(in.Wait) > most {
		return tasks.LeaseRequest{}, badRequest("wait must be a whole number of seconds from 0 to %d", most)
	}
	if len(in.Classes) > maxClasses {
		return tasks.LeaseRequest{}, tooMany("taskClasses", maxClasses)
	}
	req := tasks.LeaseRequest{Limit: limit}
	want := tasks.ClassRequest{Limit: limit, LeaseTime: c.LeaseTime, PickupDelay: c.queue.PickupDelay}
	if len(in.Classes) == 0 {
		req.Others = want
		return req, nil
	}
	req.Classes = map[string]tasks.ClassRequest{}
	for _, class := range in.Classes {
		req.Classes[class] = want
	}
	return req, nil
}

// take leases what is due.
func (c *call) take(name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	ctx, cancel := c.store()
	defer cancel()
	for range maxSearches {
		held, err := c.queue.Store.LeaseFor(ctx, name, req)
		if !errors.Is(err, tasks.ErrSearching) || len(held) > 0 {
			return held, err
		}
	}
	return nil, nil
}

// await leases as soon as tasks are queued through this API, and looks now and
// then for what became due in other ways. It answers none when the time is over.
func (c *call) await(name string, req tasks.LeaseRequest, classes []string, wait time.Duration) ([]tasks.Task, error) {
	w, err := c.queue.room.enter(classes)
	if err != nil {
		return nil, err
	}
	defer c.queue.room.leave(w)
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		held, err := c.take(name, req)
		if err != nil || len(held) > 0 {
			return held, err
		}
		again := time.NewTimer(c.queue.room.pace(c.PollEvery))
		select {
		case <-w.woken:
		case <-again.C:
		case <-end.C:
			again.Stop()
			return nil, nil
		case <-c.closed:
			again.Stop()
			return nil, nil
		case <-c.r.Context().Done():
			again.Stop()
			return nil, errGone
		}
		again.Stop()
	}
}

// giveBack returns tasks that nobody took to the place they were leased from.
func (c *call) giveBack(held []tasks.Task) {
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.StoreTimeout)
	defer cancel()
	settlements := make([]tasks.Settlement, len(held))
	for i, t := range held {
		settlements[i] = tasks.Settlement{ID: t.ID, Lease: *t.Lease, Outcome: tasks.Outcome{Kind: tasks.Released}}
	}
	settled, err := c.queue.Store.Settle(ctx, settlements)
	c.observeSettled(settlements, settled)
	if err != nil {
		c.Log.Warn().Str("requestID", c.id).Err(err).Int("tasks", len(held)).Msg("queue API: leases that nobody took could not be given back; they end by themselves")
		return
	}
	c.queue.room.wakeHeld(held)
}
