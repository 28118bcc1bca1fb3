package pool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/bridge/engine"
	"github.com/phorge-gantry/gantry/tasks"
)

// terminatedWait is how long a task waits whose process was ended by SIGTERM
// for the first time. See Pool.terminated.
const terminatedWait = 15 * time.Second

// call is one task that a process has.
type call struct {
	task    tasks.Task
	request string
	sent    int // bytes of the request that went into the pipe
	begun   bool
	lease   chan time.Duration
	answer  chan answer
}

func newCall(task tasks.Task) *call {
	var id [16]byte
	rand.Read(id[:])
	return &call{
		task: task, request: hex.EncodeToString(id[:]),
		lease: make(chan time.Duration, 1), answer: make(chan answer, 1),
	}
}

// execute runs a task and answers its outcome, when nothing of it runs any
// more. The process is busy, and nobody else calls it.
func (r *resident) execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	c := newCall(task)
	r.output.begin(task.ID)
	r.mu.Lock()
	r.call = c
	r.mu.Unlock()
	defer context.AfterFunc(ctx, func() { r.interrupt(c) })()
	defer time.AfterFunc(r.pool.config.TakeTimeout, func() { r.insist(c) }).Stop()

	var err error
	c.sent, err = writeFrame(r.requests, order{Type: "run", Request: c.request, Task: fieldsOf(task)}, task.Data)
	if err != nil { // it is ending
		r.within(r.pool.config.LeaveTimeout, "it closed its requests and did not end within %v")
	}
	for {
		select {
		case a := <-c.answer:
			return r.conclude(c, a)
		case lease := <-c.lease:
			if require(lease); ctx.Err() == nil {
				// When it cannot be written, the process is dead or ending.
				_, _ = writeFrame(r.requests, order{Type: "leased", Request: c.request}, nil)
			}
		case <-r.dead:
			select {
			case a := <-c.answer:
				return r.conclude(c, a)
			default:
				return r.bereaved(c)
			}
		}
	}
}

// interrupt kills the process when it still has the task: PHP cannot be asked
// to stop.
func (r *resident) interrupt(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call == c {
		r.killLocked(cut, fmt.Sprintf("task %d was cancelled, so it was killed", c.task.ID))
	}
}

// insist kills the process when it has not read the task.
func (r *resident) insist(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call == c && waiting(r.requests) > 0 {
		r.killLocked(unfit, fmt.Sprintf("it did not take task %d within %v, so it was killed", c.task.ID, r.pool.config.TakeTimeout))
	}
}

// deliver hands an answer to the call that it is for.
func (r *resident) deliver(a answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.call
	switch {
	case c == nil || a.Request != c.request:
		return fmt.Errorf("it answered request %.40q, which it has not got", a.Request)
	case a.Type == "outcome":
		r.call = nil
		c.answer <- a
	case c.begun:
		return errors.New("it said twice that the task has started")
	default:
		c.begun = true
		c.lease <- a.Lease.Times(time.Second)
	}
	return nil
}

// conclude answers the outcome that PHP reported, and frees the process.
func (r *resident) conclude(c *call, a answer) tasks.Outcome {
	r.output.end()
	out, uncaught, err := engine.DecodeOutcome(a.Outcome)
	if err != nil {
		err = fmt.Errorf("it answered an outcome that cannot be read: %w", err)
		r.kill(unfit, fmt.Sprintf("it was killed after task %d: %v", c.task.ID, err))
		out = tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Category: tasks.CategoryOutcome, Reason: err.Error()}
	}
	r.pool.finished(r, c.task.ID, a, uncaught)
	return out
}

// bereaved answers the outcome of a task whose process died with it.
func (r *resident) bereaved(c *call) tasks.Outcome {
	r.mu.Lock()
	end, unread := r.end, r.left >= c.sent && !c.begun
	r.mu.Unlock()
	switch {
	case end == cut:
		return released("cut short: %s", r.obituary(nil))
	case unread:
		return released("not begun: %s", r.obituary(nil))
	case r.child.terminated() && r.pool.firstTerminated(c.task.ID):
		out := released("cut short by whoever sent SIGTERM: %s", r.obituary(nil))
		out.Wait = terminatedWait
		return out
	}
	return tasks.Outcome{Kind: tasks.Crashed, Wait: tasks.DefaultWait, Reason: r.obituary(nil)}
}

// released answers the outcome of a task that never ran, or whose run was cut
// short by no fault of its own.
func released(format string, args ...any) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Released, Reason: fmt.Sprintf(format, args...)}
}
