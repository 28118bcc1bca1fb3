package tasks

import (
	"math"
	"time"
)

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

// Result answers how the archive records an execution that ended so, and
// whether the task goes there at all.
func (k Kind) Result() (result int, archives bool) {
	switch k {
	case Succeeded:
		return ResultSuccess, true
	case Failed:
		return ResultFailure, true
	}
	return 0, false
}

// Fails reports whether an execution that ended so is a failed attempt.
func (k Kind) Fails() bool { return k == Retry || k == Failed || k == Crashed }

// PlaceAfter answers where a task waits that stays in the queue, once the lease
// has ended with an outcome, by the clock of the store. The owner always
// changes, so that nothing said under the lease can touch the row again; it is
// NULL only where the task was never tried, because stock Phorge runs a row with
// NULL at once.
func (l Lease) PlaceAfter(o Outcome, now int64) Place {
	switch o.Kind {
	case Yielded:
		return placeAt(YieldOwner, now, max(o.Wait, MinYield))
	case Retry:
		return placeAt(RetryOwner(l.Fence, l.Crashes), now, o.Wait)
	case Crashed:
		return placeAt(RetryOwner(l.Fence, l.Crashes+1), now, o.Wait)
	}
	back := BackOwner(l.Fence, l.Crashes)
	switch {
	case o.Wait > 0:
		return placeAt(back, now, o.Wait)
	case l.Prior.Owner == nil || Nobody(*l.Prior.Owner):
		return l.Prior
	case l.Prior.Expires == nil:
		return placeAt(back, 0, 0)
	}
	// The lease that ended before this one is not revived, but the task keeps
	// its place among the expired.
	return placeAt(back, *l.Prior.Expires, 0)
}

// placeAt counts a wait in whole seconds, as PHP's cast to int does. An epoch
// that Phorge's column cannot hold becomes the nearest one that it can, so that
// a task means the same in every store.
func placeAt(owner string, now int64, wait time.Duration) Place {
	expires := min(max(now+int64(wait/time.Second), 0), math.MaxUint32)
	return Place{Owner: &owner, Expires: &expires}
}
