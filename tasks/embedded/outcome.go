package embedded

import (
	"math"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// resultOf answers how the archive records a kind of outcome.
func resultOf(kind tasks.Kind) (result int, archives bool) {
	switch kind {
	case tasks.Succeeded:
		return tasks.ResultSuccess, true
	case tasks.Failed:
		return tasks.ResultFailure, true
	}
	return 0, false
}

// after answers where a task waits once its lease has ended. The owner always
// changes, so that nothing said under the lease can touch the row again.
func after(lease tasks.Lease, o tasks.Outcome, now int64) tasks.Place {
	switch o.Kind {
	case tasks.Yielded:
		return place(tasks.YieldOwner, now, max(o.Wait, tasks.MinYield))
	case tasks.Retry:
		return place(tasks.RetryOwner(lease.Fence, lease.Crashes), now, o.Wait)
	case tasks.Crashed:
		return place(tasks.RetryOwner(lease.Fence, lease.Crashes+1), now, o.Wait)
	}
	back := tasks.BackOwner(lease.Fence, lease.Crashes)
	prior := lease.Prior
	switch {
	case o.Wait > 0:
		return place(back, now, o.Wait)
	case prior.Owner == nil || tasks.Nobody(*prior.Owner):
		return prior
	case prior.Expires == nil:
		return place(back, 0, 0)
	}
	// The lease that ended before this one is not revived, but the task keeps
	// its place among the expired.
	return place(back, *prior.Expires, 0)
}

// place counts a wait in whole seconds. An epoch that Phorge's column could not
// hold becomes the nearest one that it could, so that a task means the same in
// every store.
func place(owner string, now int64, wait time.Duration) tasks.Place {
	expires := min(max(now+int64(wait/time.Second), 0), math.MaxUint32)
	return tasks.Place{Owner: &owner, Expires: &expires}
}

// leftBy reports whether an active row stands where this very settlement puts
// it. Only owners with a fence tell whose settlement it was.
func leftBy(s tasks.Settlement, at tasks.Place) bool {
	switch s.Outcome.Kind {
	case tasks.Retry, tasks.Crashed, tasks.Released:
	default:
		return false
	}
	left := after(s.Lease, s.Outcome, 0).Owner
	return left != nil && at.Owner != nil && *left == *at.Owner && strings.Contains(*left, ":")
}

// archivedBy reports whether this very settlement archived a row: the archive
// keeps the owner, and an owner is unique to one lease.
func archivedBy(s tasks.Settlement, r *tasks.Record) bool {
	result, archives := resultOf(s.Outcome.Kind)
	return archives && r != nil && r.Owner != nil && *r.Owner == s.Lease.Owner && r.Result == result
}
