package queueapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Observer is told what callers do, to count it. Its methods are called in the
// middle of calls, many at the same time: they must be quick and not block.
type Observer interface {
	// Answered says that a call was answered. The route is a method and a path of
	// the document, or empty for what is none; the instance is empty when it is
	// not known who called, and for paths that need no token.
	Answered(instance, route string, status int, took time.Duration)

	// Leased says that a caller leased a task for so long.
	Leased(instance string, task tasks.Task, leaseTime time.Duration)

	// Settled says that a caller ended a lease. Its outcome is Lost when it had
	// none to end.
	Settled(instance string, settlement tasks.Settlement)
}

// nobody observes.
type nobody struct{}

func (nobody) Answered(string, string, int, time.Duration) {}
func (nobody) Leased(string, tasks.Task, time.Duration)    {}
func (nobody) Settled(string, tasks.Settlement)            {}

// Tracer makes the spans of traces.
type Tracer interface {
	// Enqueue begins the span of queueing tasks in an instance, under the trace
	// context of the caller, which may be empty, and gives the tasks its own. end
	// is called with what came of it.
	Enqueue(instance, traceparent string, news []tasks.NewTask) (end func(ids []int64, err error))
}

// observeSettled tells of the settlements that the store answered.
func (c *call) observeSettled(settlements []tasks.Settlement, settled []tasks.Settled) {
	for i, s := range settled {
		settlement := settlements[i]
		switch {
		case errors.Is(s.Err, tasks.ErrLeaseLost):
			settlement.Outcome.Kind = tasks.Lost
		case s.Err != nil:
			continue // the lease is still held
		}
		c.Observer.Settled(c.queue.name, settlement)
	}
}

// traceparent answers the trace context of the caller, "" for none. What is not
// as W3C says counts as none.
func (c *call) traceparent() string {
	if headers := c.r.Header.Values("Traceparent"); len(headers) == 1 {
		return tasks.Traceparent(headers[0])
	}
	return ""
}

// traced gives tasks the trace context of their enqueue.
func (c *call) traced(news []tasks.NewTask) (end func(ids []int64, err error)) {
	if c.Tracer != nil {
		return c.Tracer.Enqueue(c.queue.name, c.traceparent(), news)
	}
	c.giveTraceparent(news)
	return func([]int64, error) {}
}

func (c *call) giveTraceparent(news []tasks.NewTask) {
	if own := c.traceparent(); own != "" {
		for i := range news {
			news[i].Traceparent = own
		}
	}
}

// metricsRoute is read every few seconds.
const metricsRoute = http.MethodGet + " /metrics"

// metricsPage answers what Prometheus reads, of the caller's instance.
func metricsPage(c *call) (answer, error) {
	if c.Metrics == nil {
		return answer{}, refuse(http.StatusNotFound, codeNotFound, "there are no metrics here")
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.StoreTimeout)
	defer cancel()
	page, mime, err := c.Metrics(ctx, c.queue.name)
	return answer{bytes: page, mime: mime}, err
}
