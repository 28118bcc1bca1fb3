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
type state int8

const (
	waiting state = iota // leased, not started
	running              // in a slot
	ended                // has an outcome that is to be settled
	gone                 // settled, or lost
)

// held is one task under a lease of this process. The book's lock guards what
// changes after it was made: leaseTime, urgent, seen and state. What ran it is
// written by its slot, and an outcome belongs to the settler that took it.
type held struct {
	task   tasks.Task
	class  *class
	ctx    context.Context // of its execution
	cancel context.CancelCauseFunc
	order  uint64    // in which the store answered it
	since  time.Time // when the store answered it

	leaseTime time.Duration
	seen      time.Time // a store call that began then found the lease ours
	outcome   tasks.Outcome

	state   state
	ran     ran  // what ran it last
	urgent  bool // the next renewal must include it
	refused bool // the store refused its first outcome
}

// ran is what ran a task.
type ran int8

const (
	nothing ran = iota
	executor
	fallback
)

// route names what ran the task, for people.
func (h *held) route() string {
	switch h.ran {
	case executor:
		return h.class.Route
	case fallback:
		return h.class.FallbackRoute
	}
	return ""
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

// runner answers what would run a task of the class now.
func (c *class) runner() ran {
	switch {
	case c.Executor.Ready(c.name):
		return executor
	case c.fallsBack():
		return fallback
	}
	return nothing
}

func (c *class) canRun() bool { return c.runner() != nothing }

func (c *class) fallsBack() bool { return c.Fallback != nil && c.Fallback.Ready(c.name) }

func (c *class) pop() *held {
	h := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return h
}
