package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Service is a store that serves callers outside of this process as well. They
// lease under names of their own, may be cut off at any moment, and are held to
// stricter rules than a Gantry. Package storetest holds a suite for it:
// RunService.
type Service interface {
	Store
	Operator

	// LeaseFor leases as Lease does, for a caller of that name: the owner of the
	// leases is that Caller with the fence of this call. Other than a Gantry's,
	// its lease can be taken by others as soon as it has expired.
	LeaseFor(ctx context.Context, name string, req LeaseRequest) ([]Task, error)

	// SettleLive settles as Settle does, but an expired lease is a lost one:
	// nothing changes, and the answer wraps ErrLeaseLost.
	SettleLive(ctx context.Context, settlements []Settlement) ([]Settled, error)

	// EnqueueOnce queues tasks as Enqueue does, unless the key was used before:
	// then it answers the ids of that time and that this is a duplicate, or
	// ErrKeyReused when the tasks were others. Key and tasks are written in one
	// transaction. The answer wraps ErrNoKeys where keys cannot be kept.
	EnqueueOnce(ctx context.Context, once Once, news []NewTask) (ids []int64, duplicate bool, err error)

	// CountArchived counts the archived tasks with the highest ids, up to a
	// bound.
	CountArchived(ctx context.Context) (ArchivedCount, error)

	// Attempts answers the latest failed attempts of a task, active or archived,
	// newest first, at most limit: of a Gantry's settlements and a caller's, and
	// what was taken over from a Gantry that died. None of a task that nobody
	// knows. The answer wraps ErrNoAttempts where attempts cannot be kept.
	Attempts(ctx context.Context, taskID int64, limit int) ([]Attempt, error)

	// Ready answers nil when tasks can be leased and settled now, as far as that
	// can be found out without changing anything.
	Ready(ctx context.Context) error
}

// Once makes an enqueue that is repeated take effect once.
type Once struct {
	Key  string        // 1 to MaxKey characters of printable ASCII, no spaces
	Keep time.Duration // how long keys are remembered, in whole seconds
}

// Check answers an error that wraps ErrInvalid when a store cannot keep the key.
func (o Once) Check() error {
	if o.Key == "" || len(o.Key) > MaxKey || strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: an idempotency key must have 1 to %d characters of printable ASCII without spaces", ErrInvalid, MaxKey)
	}
	return nil
}

// MaxKey is the length of the longest idempotency key.
const MaxKey = 128

// ArchivedCount counts archived tasks by their result. More says that counting
// stopped at the bound.
type ArchivedCount struct {
	Succeeded, Failed, Cancelled int
	More                         bool
}

// ContentHash tells whether an enqueue is the same as an earlier one.
func ContentHash(news []NewTask) [sha256.Size]byte {
	type whole struct {
		NewTask
		Data string `json:"data"`
	}
	content := make([]whole, len(news))
	for i, n := range news {
		content[i] = whole{n, string(n.Data)}
	}
	// Of these types none fails, and valid tasks hold nothing but UTF-8, so no
	// two contents are written the same.
	text, _ := json.Marshal(content)
	return sha256.Sum256(text)
}
