package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	// Databases are the applications of Phorge whose databases the handler
	// uses: "herald" for <namespace>_herald. See Task.DB.
	Databases []string

	// Options are the options of Phorge's configuration that the handler
	// reads. See Task.Option.
	Options []string
}

// DefaultWait is how long a task waits after a failed attempt when its handler
// does not say.
const DefaultWait = tasks.DefaultWait

var _ tasks.Executor = Handler{}

// Ready reports whether the handler is for the class.
func (h Handler) Ready(class string) bool { return class == h.Class }

// Needs answers what a Site must have for the handler: the applications whose
// databases it reaches, and the options that it may read from the file. Beside
// those that the handler names, the database of repositories is where locks
// are, and that of the configuration holds options. Nothing for a handler that
// names neither.
func (h Handler) Needs() (applications, options []string) {
	if len(h.Databases) == 0 && len(h.Options) == 0 {
		return nil, nil
	}
	applications = append(slices.Clone(h.Databases), lockApplication)
	if len(h.Options) > 0 {
		applications = append(applications, configApplication)
	}
	slices.Sort(applications)
	return slices.Compact(applications), slices.Clone(h.Options)
}

// Execute is ExecuteAt without a Phorge: what of Task reaches one answers an
// error that says so.
func (h Handler) Execute(ctx context.Context, task tasks.Task, require func(lease time.Duration)) tasks.Outcome {
	return h.ExecuteAt(ctx, nil, task, require)
}

// ExecuteAt runs one task in this process and answers its outcome: what Gantry
// would settle had it sent the task. Tests of a handler call it. require may
// be nil; see tasks.Executor. The site stays open.
func (h Handler) ExecuteAt(ctx context.Context, site *Site, task tasks.Task, require func(lease time.Duration)) tasks.Outcome {
	return h.execute(ctx, &attempt{site: site, handler: h}, task, require)
}

func (h Handler) execute(ctx context.Context, a *attempt, task tasks.Task, require func(lease time.Duration)) tasks.Outcome {
	a.given = ctx
	ctx, a.cancel = context.WithCancelCause(context.WithValue(ctx, traceparentKey{}, task.Traceparent))
	defer a.cancel(nil)
	defer a.end()
	t := newTask(task, a)
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
		// Not ctx: it ends an instant after the one that require waits with.
		if err := a.given.Err(); err != nil {
			return err
		}
		began := time.Now()
		defer func() { took = time.Since(began) }()
		return h.Handle(ctx, t)
	})
	if err == nil {
		err = t.checkFollowUps()
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrLockLost) && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", cause, err)
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
