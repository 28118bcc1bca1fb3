package tasks

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// What every store decides in the same way, whatever it keeps its tasks in.
const (
	// Grace is how long, in seconds, the expired lease of a Gantry is left
	// alone: `phd start` expires every lease at once, and whoever lives revives
	// its own within that time.
	Grace = 5

	// AwakenedBy is how far in the past, in seconds, the lease of an awakened
	// task ends, as in PhabricatorWorker::awakenTaskIDs.
	AwakenedBy = 3600
)

// ReservedOf answers how much of a batch is kept for tasks that were leased
// before, an eighth and at least one, so that a steady stream of new work cannot
// starve retries. Stock Phorge keeps nothing for them.
func ReservedOf(limit int) int { return min(limit, max(1, limit/8)) }

// WholeSeconds rounds up, so that no lease is shorter than asked.
func WholeSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Ended reports whether a lease, or a wait, is over.
func (p Place) Ended(now int64) bool { return p.Expires != nil && *p.Expires < now }

// Renew answers when the lease ends that stands at a place and is renewed, and
// whether it needs to be extended for that.
func (r Renewal) Renew(p Place, now int64) (expires int64, extend bool) {
	if p.Expires != nil && time.Duration(*p.Expires-now)*time.Second >= r.LeaseTime/3*2 {
		return *p.Expires, false
	}
	return min(now+WholeSeconds(r.LeaseTime), math.MaxUint32), true
}

// Check answers why an outcome cannot be stored, or nil. What follow-ups a store
// can hold is its own business.
func (o Outcome) Check(followUps func([]NewTask) error) error {
	switch o.Kind {
	case Succeeded:
		if err := followUps(o.FollowUps); err != nil {
			return fmt.Errorf("follow-up: %w", err)
		}
	case Failed, Yielded, Retry, Crashed, Released:
	default:
		return fmt.Errorf("%w: no store settles the outcome %q", ErrInvalid, o.Kind)
	}
	return nil
}

// Left reports whether an active row stands where this very settlement puts it.
// Only owners with a fence tell whose settlement it was.
func (s Settlement) Left(at Place) bool {
	switch s.Outcome.Kind {
	case Retry, Crashed, Released:
	default:
		return false
	}
	left := s.Lease.PlaceAfter(s.Outcome, 0).Owner
	return left != nil && at.Owner != nil && *left == *at.Owner && strings.Contains(*left, ":")
}

// Archived reports whether this very settlement archived a row with an owner and
// a result: the archive keeps the owner, and an owner is unique to one lease.
func (s Settlement) Archived(owner *string, result int) bool {
	archived, archives := s.Outcome.Kind.Result()
	return archives && owner != nil && *owner == s.Lease.Owner && result == archived
}

// CheckDelay answers an error that wraps ErrInvalid when Operator.Delay cannot
// make tasks wait until then.
func CheckDelay(until int64) error {
	if until < 0 || until > math.MaxUint32 {
		return fmt.Errorf("%w: delay until %d; it is an epoch in seconds", ErrInvalid, until)
	}
	return nil
}

// Delayed answers where a task waits after Operator.Delay, or ErrLeased. The
// owner is never NULL, which stock Phorge runs at once; a task that was tried
// before keeps its own, and what that counts.
func (p Place) Delayed(until int64) (Place, error) {
	owner := DelayOwner
	if p.Owner != nil && *p.Owner != "" {
		owner = *p.Owner
	}
	if !Nobody(owner) {
		return p, ErrLeased
	}
	return Place{Owner: &owner, Expires: &until}, nil
}

// CheckPriority answers an error that wraps ErrInvalid when Operator.Priority
// cannot set it, as `bin/worker priority`.
func CheckPriority(priority int) error {
	if priority < 1 || priority > math.MaxUint32 {
		return fmt.Errorf("%w: priority %d; it is 1 to 4294967295", ErrInvalid, priority)
	}
	return nil
}

// Check answers an error that wraps ErrInvalid when no store can list by the
// filter.
func (f Filter) Check() error {
	if f.Limit < 1 {
		return fmt.Errorf("%w: a page of %d tasks; the limit must be at least 1", ErrInvalid, f.Limit)
	}
	if f.State != Active && f.State != Archived {
		return fmt.Errorf("%w: state %q must be %q or %q", ErrInvalid, f.State, Active, Archived)
	}
	return nil
}

// Matches reports whether the filter selects a task. What its State says is up
// to who reads the rows.
func (f Filter) Matches(r Record) bool {
	among := func(phids []string, phid *string) bool {
		return len(phids) == 0 || phid != nil && slices.Contains(phids, *phid)
	}
	return (f.Class == "" || f.Class == r.Class) &&
		r.FailureCount >= f.MinFailures && (f.MaxFailures == nil || r.FailureCount <= *f.MaxFailures) &&
		r.Priority >= f.MinPriority && (f.MaxPriority == nil || r.Priority <= *f.MaxPriority) &&
		among(f.Objects, r.ObjectPHID) && among(f.Containers, r.ContainerPHID)
}
