package tasks

import (
	"context"
	"time"
)

// Executor runs tasks: in this process, in a handler binary, or in PHP.
type Executor interface {
	// Ready reports whether a task of the class would be started if it came
	// now. The runtime leases no task of a class that is not ready, so that
	// it costs nobody an attempt.
	Ready(class string) bool

	// Execute runs one task and answers its outcome. Calls run at the same
	// time. When ctx ends, Execute stops the work and returns only after
	// nothing of it runs any more; what it answers then is not settled as
	// such, the runtime knows why it cancelled. Only Succeeded still counts,
	// or work that was done in that moment would be done again.
	//
	// require may be called once, before the work begins, with the lease time
	// that this task needs when it is longer than the one of its class, as
	// PhabricatorWorker::getRequiredLeaseTime. It returns when the store has
	// extended the lease, or ctx has ended.
	Execute(ctx context.Context, task Task, require func(lease time.Duration)) Outcome
}

// ExecutorFunc is an Executor in this process that is always ready.
type ExecutorFunc func(ctx context.Context, task Task) Outcome

// Ready answers true.
func (ExecutorFunc) Ready(string) bool { return true }

// Execute calls f.
func (f ExecutorFunc) Execute(ctx context.Context, task Task, _ func(time.Duration)) Outcome {
	return f(ctx, task)
}
