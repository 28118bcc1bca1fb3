package tasks

import "time"

// Lease is the right to run one task and to settle it.
type Lease struct {
	// Owner is the leaseOwner column: unique to the Lease call that answered
	// the task. See Owner for its form.
	Owner string

	// Fence is a number that only grows within one instance.
	Fence int64

	// Crashes counts how often whoever held the task died with it; it rides in
	// the owner string. A lease that Store.Lease took over from a dead Gantry
	// is counted already.
	Crashes int

	// Expires is the epoch at which the lease ends unless it is renewed.
	Expires int64

	// Prior is where the task stood before this lease, so that an unstarted
	// task can be put back exactly there.
	Prior Place
}

// LeaseRequest says how many tasks of which classes a caller can take now.
type LeaseRequest struct {
	// Limit is the number of tasks wanted, over all classes. At least 1.
	Limit int

	// Classes holds what is wanted of each class, by its exact spelling.
	Classes map[string]ClassRequest

	// Others is what is wanted of each class that Classes does not name. The
	// zero value leaves them alone.
	Others ClassRequest
}

// ClassRequest says what a caller wants of one class.
type ClassRequest struct {
	// Limit is the number of tasks wanted of the class. 0 means none: such
	// tasks are passed over and stay as they are.
	Limit int

	// LeaseTime is how long the lease lasts before it must be renewed. At
	// least one second.
	LeaseTime time.Duration

	// PickupDelay leaves tasks alone until their id has existed for so long.
	// Phorge can make a task visible before the transaction that scheduled it
	// commits; classes that read what that transaction wrote want a delay.
	PickupDelay time.Duration
}

// Want answers the request that stands for a class.
func (r LeaseRequest) Want(class string) ClassRequest {
	if want, ok := r.Classes[class]; ok {
		return want
	}
	return r.Others
}

// WantsAny reports whether the request wants a task at all.
func (r LeaseRequest) WantsAny() bool {
	wanted := r.Others.Limit > 0
	for _, want := range r.Classes {
		wanted = wanted || want.Limit > 0
	}
	return wanted && r.Limit > 0
}

// Renewal asks that a held lease live on.
type Renewal struct {
	ID    int64
	Owner string

	// LeaseTime is how long the lease lasts from now, once less than two
	// thirds of it are left. A lease with more left is only looked at, so
	// renewing often costs one read; that is how a lease which something else
	// swept (`phd start` expires every lease at once) is revived in time.
	LeaseTime time.Duration
}

// Renewed is the answer to one Renewal.
type Renewed struct {
	ID      int64
	Expires int64 // the epoch at which the lease now ends
	Revived bool  // the lease had expired, or had been swept, and was still ours

	// Err is nil, or wraps ErrLeaseLost: the row is gone or carries another
	// owner, and whatever runs under the lease must stop.
	Err error
}
