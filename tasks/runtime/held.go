package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Why an execution was cancelled, as the cause of its context.
var (
	errLost     = errors.New("the lease was lost")
	errStopped  = errors.New("the runtime stops")
	errDeadline = errors.New("the deadline of the class passed")
)

// state is how far a held task has come.
type state int

const (
	waiting state = iota // leased, not started
	running              // in a slot
	ended                // has an outcome that is to be settled
	gone                 // settled, or lost
)

// held is one task under a lease of this process. The book's lock guards what
// changes after it was made: leaseTime, urgent, seen and state. The route belongs
// to the slot that runs it, an outcome to the settler that took it.
type held struct {
	task   tasks.Task
	class  *class
	route  string          // of what ran it
	ctx    context.Context // of its execution
	cancel context.CancelCauseFunc
	order  uint64    // in which the store answered it
	since  time.Time // when the store answered it

	leaseTime time.Duration
	urgent    bool      // the next renewal must include it
	seen      time.Time // a store call that began then found the lease ours
	state     state
	outcome   tasks.Outcome
	refused   bool // the store refused its first outcome
}

func (h *held) waitedTooLong(now time.Time) bool { return now.Sub(h.since) > patience }

// class is a class and what it has at work.
type class struct {
	name string
	Class
	group *group
	ready bool // only the leaser looks at it, to log when it changes

	running int
	queue   []*held // waiting, first leased first
	pace    pace
	low     int  // lease more when no more than so many wait
	drained bool // the store had none; ask again when the next poll is due
}

// executor answers what would run a task of the class now, and its route, or
// nil.
func (c *class) executor() (tasks.Executor, string) {
	switch {
	case c.Executor.Ready(c.name):
		return c.Executor, c.Route
	case c.fallsBack():
		return c.Fallback, c.FallbackRoute
	}
	return nil, ""
}

func (c *class) canRun() bool {
	executor, _ := c.executor()
	return executor != nil
}

func (c *class) fallsBack() bool { return c.Fallback != nil && c.Fallback.Ready(c.name) }

func (c *class) pop() *held {
	h := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return h
}
