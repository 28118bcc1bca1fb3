package conduit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/bridge/engine"
	"github.com/phorge-gantry/gantry/tasks"
)

// taskRef names a task to worker.execute, which reads all else from the row.
type taskRef struct {
	ID         int64  `json:"id"`
	TaskClass  string `json:"taskClass"`
	LeaseOwner string `json:"leaseOwner"`
}

// notAllowed is the code of a task whose class is not in gantry.task-classes.
const notAllowed = "class-not-allowed"

const (
	// stillRunningWait is how long a task waits that an earlier lease still
	// runs, before it is asked for again.
	stillRunningWait = 15 * time.Second

	// leftWait is how long a task waits which PHP may still run when this
	// process stops.
	leftWait = time.Minute
)

// call is one worker.execute, from when it is sent until the outcome of each of
// its tasks is known.
type call struct {
	*Executor
	open    []*job        // whose outcomes are not known
	ended   bool          // nobody is at work on it over its connection any more
	refused bool          // as a whole, unless an earlier copy of it was let in
	pause   time.Duration // after the last look at the receipts
}

func newCall(e *Executor, jobs []*job) *call {
	return &call{Executor: e, open: jobs}
}

// settle executes the jobs and answers each.
func (c *call) settle() {
	ctx, cancel := context.WithCancel(context.WithValue(c.life, traceparent{}, c.traceparent()))
	defer cancel() // of a run that hangs although everything is known
	ran := make(chan error, 1)
	var found receipts
	asked := c.refs()
	c.running.Go(func() {
		var err error
		found, err = c.client.execute(ctx, "run", asked)
		ran <- err
	})
	next := time.NewTimer(c.config.times.silence)
	defer next.Stop()
	for len(c.open) > 0 {
		select {
		case <-c.life.Done():
			c.leave()
		case err := <-ran:
			c.ended = true
			next.Reset(c.answered(found, err))
		case <-next.C:
			next.Reset(c.lookup(ctx))
		}
	}
}

// traceparent answers the trace context of the task, "" when there are several:
// a request is a part of one trace.
func (c *call) traceparent() string {
	if len(c.open) == 1 {
		return c.open[0].task.Traceparent
	}
	return ""
}

// refs names the open tasks.
func (c *call) refs() []taskRef {
	refs := make([]taskRef, len(c.open))
	for i, j := range c.open {
		refs[i] = j.ref()
	}
	return refs
}

func (j *job) ref() taskRef {
	return taskRef{ID: j.task.ID, TaskClass: j.task.Class, LeaseOwner: j.task.Lease.Owner}
}

// answered reads what came of the run, and says when to look up the rest.
func (c *call) answered(found receipts, err error) time.Duration {
	failed := c.note(err)
	c.pause = 0
	switch {
	case failed == nil:
		if err == nil {
			c.health.worked()
		}
		c.read(found)
		return 0
	case failed.unbegun && failed.code != "":
		// A proxy may have sent the request twice, and what was refused is the
		// second copy, for its nonce. When a lookup is refused too, it was not.
		c.refused = true
	case failed.unbegun:
		c.release(failed)
	}
	return min(failed.after, c.config.times.toldMost)
}

// lookup asks for the receipts of the open tasks, and says when to ask again.
// Tasks that have not begun cannot begin any more: asking closes them, even to
// a run that still waits in the line of the web server, or is at work on
// another of its tasks.
func (c *call) lookup(ctx context.Context) time.Duration {
	found, err := c.client.execute(ctx, "lookup", c.refs())
	failed := c.note(err)
	times := &c.config.times
	c.pause = max(times.lookup, 2*c.pause)
	switch {
	case failed == nil:
		c.read(found)
		c.pause = min(c.pause, times.lookupMost)
		return c.pause
	case c.refused && failed.unbegun:
		c.release(failed)
	}
	c.pause = min(c.pause, times.pauseMost)
	return max(c.pause, min(failed.after, times.toldMost))
}

// note tells the health what went wrong with a request. It answers nil when
// there are receipts nevertheless.
func (c *call) note(err error) *failure {
	if err != nil && c.life.Err() == nil {
		c.health.failed(err)
	}
	var failed *failure
	errors.As(err, &failed)
	return failed
}

// read answers the jobs whose receipts say how they ended. A process counts as
// dead when only its connection to the database was cut; but while PHP works,
// the call does not end.
func (c *call) read(found receipts) {
	var open []*job
	for _, j := range c.open {
		r := found[j.ref()]
		if r == nil || r.State == stateRunning || r.State == stateDead && !c.ended {
			open = append(open, j)
			continue
		}
		j.done <- c.outcome(j.task, r)
	}
	c.open = open
}

// outcome answers what a receipt that is final says.
func (c *call) outcome(task tasks.Task, r *receipt) tasks.Outcome {
	switch r.State {
	case stateAbsent:
		return tasks.Outcome{Kind: tasks.Released, Reason: "Phorge did not begin it"}
	case stateDead:
		return tasks.Outcome{Kind: tasks.Crashed, Wait: tasks.DefaultWait, Category: "crash",
			Reason: fmt.Sprintf("the PHP process that ran task %d (%s) died with it", task.ID, task.Class)}
	case stateRefused:
		if r.Code == notAllowed {
			c.health.disallow(task.Class)
		}
		return refusal(task, r)
	}
	outcome, _, err := engine.DecodeOutcome(r.Outcome)
	if err != nil { // its receipt will never say anything else
		return tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Category: "protocol",
			Reason: fmt.Sprintf("PHP ran task %d (%s), but its outcome cannot be read: %v", task.ID, task.Class, err)}
	}
	c.learn(task.Class, outcome.Duration)
	return outcome
}

// refusal answers the outcome of a task that Phorge will not run as things are.
func refusal(task tasks.Task, r *receipt) tasks.Outcome {
	switch r.Code {
	case "not-leased":
		// Somebody else has the task, or it is archived: then settling this
		// finds the lease lost. Or the lease was swept and nobody took it: then
		// the task returns to its place, and no crash is counted for it.
		return tasks.Outcome{Kind: tasks.Released, Reason: "Phorge found its lease ended"}
	case "still-running": // whoever asked for it died or stopped
		return tasks.Outcome{Kind: tasks.Released, Wait: stillRunningWait,
			Reason: "PHP still runs it for an earlier lease"}
	case "not-a-worker": // as PhabricatorWorkerActiveTask::executeTask
		return tasks.Outcome{Kind: tasks.Failed, Category: r.Code,
			Reason: fmt.Sprintf("class %s is not a PhabricatorWorker: %.300s", task.Class, r.Reason)}
	case notAllowed:
		return tasks.Outcome{Kind: tasks.Declined,
			Reason: fmt.Sprintf("class %s is not in Phorge's gantry.task-classes; add it there, spelled exactly so", task.Class)}
	}
	return tasks.Outcome{Kind: tasks.Declined,
		Reason: fmt.Sprintf("Phorge refused class %s: %.64s: %.300s", task.Class, r.Code, r.Reason)}
}

// release gives every open task back to its place: nothing of it was begun.
func (c *call) release(why error) {
	for _, j := range c.open {
		j.done <- tasks.Outcome{Kind: tasks.Released, Reason: why.Error()}
	}
	c.open = nil
}

// leave gives up on the open tasks. Stopping is no crash of theirs: whoever
// leases them next learns what became of them.
func (c *call) leave() {
	for _, j := range c.open {
		j.done <- tasks.Outcome{Kind: tasks.Released, Wait: leftWait,
			Reason: "Gantry stopped while PHP ran it or may have run it"}
	}
	c.open = nil
}
