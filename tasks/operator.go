package tasks

import "context"

// Operator is what a person does to a queue, as Phorge's bin/worker. Methods
// that take ids answer one Changed an id, in the same order.
type Operator interface {
	// Now answers the store's clock, as an epoch in seconds.
	Now(ctx context.Context) (int64, error)

	// Get answers a task, active or archived, or ErrNotFound.
	Get(ctx context.Context, id int64) (Record, error)

	// List answers one page of tasks by ascending id. Each call examines a
	// bounded number of rows.
	List(ctx context.Context, filter Filter) (Page, error)

	// Stats counts tasks by class, up to a bound for each class.
	Stats(ctx context.Context) (Stats, error)

	// Cancel archives active tasks with ResultCancelled, leased or not.
	// ErrArchived for others.
	Cancel(ctx context.Context, ids []int64) ([]Changed, error)

	// Free breaks the leases of active tasks. ErrArchived, or ErrNotLeased
	// when there is nothing to free.
	Free(ctx context.Context, ids []int64) ([]Changed, error)

	// Delay makes waiting tasks wait until an epoch. ErrArchived, or
	// ErrLeased while somebody works on the task.
	Delay(ctx context.Context, ids []int64, until int64) ([]Changed, error)

	// Priority changes the priority of active tasks. ErrArchived, or
	// ErrUnchanged.
	Priority(ctx context.Context, ids []int64, priority int) ([]Changed, error)

	// Retry moves archived tasks back to the queue with their ids. ErrActive,
	// or ErrSucceeded for a task that succeeded unless repeat is set.
	Retry(ctx context.Context, ids []int64, repeat bool) ([]Changed, error)

	// Awaken makes yielded tasks that never failed due now, as
	// PhabricatorWorker::awakenTaskIDs, and answers how many it awakened.
	Awaken(ctx context.Context, ids []int64) (int, error)
}

// Changed is what became of one id. Err is nil when it was changed, or wraps
// ErrNotFound or one of the sentinels named at the method.
type Changed struct {
	ID    int64
	Class string // empty when there is no such task
	Err   error
}

// State selects active or archived tasks.
type State string

const (
	Active   State = "active"
	Archived State = "archived"
)

// Filter selects tasks, as the selectors of bin/worker. Zero fields do not
// restrict.
type Filter struct {
	State       State // required: Active or Archived
	Class       string
	MinFailures int
	MaxFailures *int
	MinPriority int
	MaxPriority *int
	Objects     []string // objectPHIDs
	Containers  []string // containerPHIDs

	After int64 // only ids above it
	Limit int   // rows in a page, at least 1

	// WithoutData says that nobody will look at the data; a store may then leave
	// it out.
	WithoutData bool
}

// Page is one page of a listing. It can hold fewer rows than the limit, even
// none, and still not be the last: go on with After set to Next until Next is
// 0.
type Page struct {
	Tasks []Record
	Next  int64
}

// Stats is a bounded count of a queue.
type Stats struct {
	Now     int64        `json:"now"`
	Classes []ClassStats `json:"classes"`
}

// ClassStats counts the active tasks of one class. Counting stops at Bound
// rows a class; More says that it did.
type ClassStats struct {
	Class   string `json:"taskClass"`
	Active  int    `json:"activeCount"`
	Leased  int    `json:"leasedCount"`  // held under a live lease
	Waiting int    `json:"waitingCount"` // delayed, yielded or waiting to be tried again
	Failing int    `json:"failingCount"` // failed at least once
	More    bool   `json:"more"`
}
