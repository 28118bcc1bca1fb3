package tasks

import "context"

// Store is a queue of tasks. Package storetest holds the suite that every
// implementation passes.
//
// Methods that take many items answer one result an item, in the same order.
// The error beside them means that the call as a whole failed: it wraps
// ErrUnavailable when the store cannot be reached or cannot work now and the
// same call may be repeated as it is.
type Store interface {
	// Enqueue queues all the tasks or none and answers their ids. It refuses
	// with ErrInvalid or ErrTooLarge.
	Enqueue(ctx context.Context, news []NewTask) ([]int64, error)

	// Lease takes up to req.Limit due tasks: never-leased ones by (priority,
	// id), then those whose leaseExpires has passed, oldest first, but with a
	// share of the batch kept for the latter. An empty answer is no error.
	//
	// A call looks at a bounded number of tasks. When all of them have to wait
	// and there are more to look at, it answers ErrSearching: call again at once.
	//
	// The lease of another Gantry is left alone until five seconds after it
	// expired.
	Lease(ctx context.Context, req LeaseRequest) ([]Task, error)

	// Renew looks at held leases and extends those that need it. It also
	// extends a lease that expired and that nobody has taken since.
	Renew(ctx context.Context, renewals []Renewal) ([]Renewed, error)

	// Settle ends leases. Each settlement takes effect when the row still
	// carries its owner, whether or not the lease has expired; one lost lease
	// does not touch the others. Repeating a call whose answer was lost is
	// safe: what was done is answered as done.
	Settle(ctx context.Context, settlements []Settlement) ([]Settled, error)
}
