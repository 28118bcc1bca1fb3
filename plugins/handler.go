package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Forever is the MaxRetries of tasks that are tried until they succeed.
const Forever = int(^uint(0) >> 1)

// Handler executes the tasks of one class. It answers to a subclass of
// PhabricatorWorker. The functions are called for many tasks at once.
type Handler struct {
	// Class is the taskClass, exactly as in the queue. Required.
	Class string

	// Handle does the work, as PhabricatorWorker::doWork. The package comment
	// says what its result means. Required.
	Handle func(ctx context.Context, task *Task) error

	// Concurrency is how many tasks may be in Handle at once in this process.
	// 0 means no limit but the slots that the administrator gives the class.
	Concurrency int

	// MaxRetries answers how often a task is tried again, as
	// getMaximumRetryCount: a task that has failed more often than that fails
	// for good, without a call of Handle. Nil means Forever.
	MaxRetries func(task *Task) int

	// WaitBeforeRetry answers how long a task waits after a failed attempt, as
	// getWaitBeforeRetry. FailureCount counts the attempt already, and err is
	// what it failed with. Whole seconds; negative means at once. Nil means
	// DefaultWait.
	WaitBeforeRetry func(task *Task, err error) time.Duration

	// RequiredLease answers how long the lease of a task must last when it
	// needs longer than its class has, as getRequiredLeaseTime. Gantry renews
	// leases while it lives, so this matters for work that must not be
	// repeated soon after Gantry's death. Whole seconds; 0, or nil, leaves the
	// lease as it is.
	RequiredLease func(task *Task) time.Duration
}

// DefaultWait is how long a task waits after a failed attempt when its handler
// does not say.
const DefaultWait = tasks.DefaultWait

var _ tasks.Executor = Handler{}

// Ready reports whether the handler is for the class.
func (h Handler) Ready(class string) bool { return class == h.Class }

// Execute runs one task in this process and answers its outcome: what Gantry
// would settle had it sent the task. Tests of a handler call it. require may
// be nil; see tasks.Executor.
func (h Handler) Execute(ctx context.Context, task tasks.Task, require func(lease time.Duration)) tasks.Outcome {
	t := newTask(task)
	var took time.Duration
	err := catch(func() error {
		if err := h.exhausted(t); err != nil {
			return err
		}
		if h.RequiredLease != nil {
			if lease := h.RequiredLease(t); lease > 0 && require != nil {
				require(lease)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return h.Handle(ctx, t)
	})
	if err == nil {
		err = t.checkFollowUps()
	}
	outcome := outcomeOf(err)
	outcome.Duration = took
	switch outcome.Kind {
	case tasks.Succeeded:
		outcome.FollowUps = t.followUps
	case tasks.Retry:
		t.FailureCount++
		outcome.Wait, outcome.Reason = h.waitAfter(t, err)
	}
	return outcome
}

// exhausted answers a permanent failure when a task has failed too often, as
// PhabricatorWorkerActiveTask::executeTask finds out before it runs a worker.
func (h Handler) exhausted(t *Task) error {
	if h.MaxRetries == nil {
		return nil
	}
	if limit := h.MaxRetries(t); t.FailureCount > limit {
		return Fail(fmt.Errorf("task %d failed %d times, more than the %d retries it is allowed", t.ID, t.FailureCount, limit))
	}
	return nil
}

// waitAfter answers how long a task waits that failed with err, and why it
// failed.
func (h Handler) waitAfter(t *Task, err error) (wait time.Duration, reason string) {
	wait = DefaultWait
	if h.WaitBeforeRetry != nil {
		failed := catch(func() error {
			wait = h.WaitBeforeRetry(t, err)
			return nil
		})
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("WaitBeforeRetry: %w", failed))
		}
	}
	return wait, reasonOf(err)
}
