package tasks

import "errors"

// Sentinels. Errors that a store or an executor answers wrap one of these, so
// that callers decide with errors.Is and people read the text around it.
var (
	// ErrLeaseLost: the row is gone or carries another owner.
	ErrLeaseLost = errors.New("lease lost")

	// ErrUnavailable: the store cannot be reached, or cannot write now; the
	// same call may succeed later.
	ErrUnavailable = errors.New("store unavailable")

	// ErrSearching: Lease found nothing yet and is not through with looking; the
	// same call, made again at once, goes on from there. It is no failure.
	ErrSearching = errors.New("still searching")

	// ErrInvalid: what was given cannot be stored.
	ErrInvalid = errors.New("invalid")

	// ErrTooLarge: the data is larger than the server accepts.
	ErrTooLarge = errors.New("too large")

	// ErrKeyReused: the idempotency key was used for other tasks.
	ErrKeyReused = errors.New("idempotency key was used for other tasks")

	// ErrNoKeys: idempotency keys cannot be kept by the store as it is set up.
	ErrNoKeys = errors.New("idempotency keys cannot be kept")

	// ErrNoAttempts: failed attempts cannot be kept by the store as it is set up.
	ErrNoAttempts = errors.New("failed attempts are not recorded")

	// ErrNotFound: there is no such task, active or archived.
	ErrNotFound = errors.New("no such task")

	// ErrArchived: the task is archived already.
	ErrArchived = errors.New("task is archived")

	// ErrActive: the task is in the queue, not in the archive.
	ErrActive = errors.New("task is active")

	// ErrLeased: somebody works on the task.
	ErrLeased = errors.New("task is leased")

	// ErrNotLeased: the task has no lease.
	ErrNotLeased = errors.New("task is not leased")

	// ErrSucceeded: the task succeeded and would be repeated.
	ErrSucceeded = errors.New("task succeeded")

	// ErrUnchanged: the task already is as asked.
	ErrUnchanged = errors.New("task is unchanged")
)

// SizeError is an ErrTooLarge of which the numbers are known.
type SizeError struct {
	Size, Limit int // bytes of data
}

func (e *SizeError) Error() string { return ErrTooLarge.Error() }

// Unwrap answers ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }
