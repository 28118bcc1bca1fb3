package tasks

import "context"

// Categories of failed attempts that Go itself finds. PHP adds its own, such
// as permanent, exception, error, retries and unknown-class.
const (
	CategoryTemporary = "temporary" // it failed, and nothing more is known
	CategoryPermanent = "permanent" // the handler says that trying again is no use
	CategoryCrash     = "crash"     // what ran it died
	CategoryDeadline  = "deadline"  // it ran longer than its class allows
	CategoryPanic     = "panic"     // it panicked in this process
	CategoryOutcome   = "outcome"   // what it came to cannot be stored
	CategoryLost      = "lost"      // the Gantry that held it died
)

// Attempt is one failed execution of a task, as the operator sees it: a row of
// the attempts table.
type Attempt struct {
	TaskID   int64  `json:"taskID"`
	Class    string `json:"taskClass"`
	Number   int    `json:"attempt"` // the failureCount that came of it, or would have
	Route    string `json:"route"`
	Category string `json:"category"`
	Reason   string `json:"reason"`
	Host     string `json:"host"`
	Owner    string `json:"leaseOwner"`
	Duration int64  `json:"durationUs"` // microseconds of work
	Epoch    int64  `json:"epoch"`      // when it was settled
}

// AttemptReader is a store that keeps failed attempts.
type AttemptReader interface {
	// Attempts answers the latest failed attempts of a task, newest first, at
	// most limit.
	Attempts(ctx context.Context, taskID int64, limit int) ([]Attempt, error)
}
