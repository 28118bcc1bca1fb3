package tasks

import "time"

// Kind says how an execution ended.
type Kind string

const (
	// Succeeded moves the task to the archive with ResultSuccess and queues
	// its follow-ups in the same transaction.
	Succeeded Kind = "succeeded"

	// Yielded waits without counting a failure, as
	// PhabricatorWorkerYieldException: owner (yield), at least MinYield.
	Yielded Kind = "yielded"

	// Retry is a temporary failure: failureCount is raised and the task waits.
	Retry Kind = "retry"

	// Failed is a permanent failure, as
	// PhabricatorWorkerPermanentFailureException: the task moves to the
	// archive with ResultFailure; failureCount stays.
	Failed Kind = "failed"

	// Crashed means that whatever ran the task died. It counts as a failure,
	// and as a crash in the owner string.
	Crashed Kind = "crashed"

	// Released gives the task back without counting anything, and leaves its
	// dateModified as leasing does: nothing came of the task. With Wait 0 it
	// returns to the place it was leased from; otherwise it waits.
	Released Kind = "released"

	// Declined means that a Go handler hands this one task to the fallback of
	// its class. The runtime acts on it; no store settles it.
	Declined Kind = "declined"

	// Lost means that the lease ended under the execution. There is nothing
	// to settle; it names the fact in logs and counts.
	Lost Kind = "lost"
)

const (
	// DefaultWait is how long a failed task waits when nothing else is said,
	// as PhabricatorWorkerLeaseQuery::getDefaultWaitBeforeRetry.
	DefaultWait = 5 * time.Minute

	// MinYield is the shortest yield, as in
	// PhabricatorWorkerActiveTask::executeTask.
	MinYield = 5 * time.Second
)

// Outcome is what an execution came to.
type Outcome struct {
	Kind Kind

	// Wait counts from the moment the outcome is settled, in whole seconds.
	// It belongs to Yielded, Retry, Crashed and Released. A negative wait leads
	// into the past, which makes the task due at once, as in Phorge.
	Wait time.Duration

	// Reason is for a person who reads the log or the attempts of a task. Of a
	// success it says what was lost beside the work, and is empty otherwise.
	// Phorge's own tables have no column for it.
	Reason string

	// Category is a short word for a program that reads them: why a Retry,
	// Failed or Crashed came to be. Executors say what they know; the runtime
	// fills in what they leave empty.
	Category string

	// FollowUps are queued when the task succeeded, and dropped otherwise.
	FollowUps []NewTask

	// Duration is how long the work took.
	Duration time.Duration
}

// Settlement ends one lease with an outcome.
type Settlement struct {
	ID      int64
	Lease   Lease
	Outcome Outcome

	// Route names what ran the task, for its attempts: plugin, pool or conduit.
	// Empty when nothing ran it.
	Route string
}

// Settled is the answer to one Settlement.
type Settled struct {
	ID        int64
	FollowUps []int64 // ids of the queued follow-ups, in their order

	// Err is nil; or wraps ErrLeaseLost: nothing was changed; or wraps
	// ErrInvalid or ErrTooLarge: this outcome cannot be stored, the lease is
	// still held, and another outcome may be settled.
	Err error
}
