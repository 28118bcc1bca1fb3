package tasks

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Priorities, as in PhabricatorWorker. Smaller numbers run first.
const (
	PriorityAlerts  = 1000
	PriorityDefault = 2000
	PriorityCommit  = 2500
	PriorityBulk    = 3000
	PriorityIndex   = 3500
	PriorityImport  = 4000
)

// Task is one task of the queue: a row of worker_activetask
// (PhabricatorWorkerActiveTask) and its data.
type Task struct {
	ID    int64  `json:"id"`
	Class string `json:"taskClass"`

	// Data is the exact bytes of the worker_taskdata row: JSON, normally, but
	// never decoded and encoded again on its way, so that 9007199254740993,
	// 1.0 and {} survive. Nil when the row has no data (PHP reads null then).
	Data []byte `json:"-"`

	Priority      int     `json:"priority"`
	ObjectPHID    *string `json:"objectPHID"`
	ContainerPHID *string `json:"containerPHID"`
	FailureCount  int     `json:"failureCount"`
	FailureTime   *int64  `json:"failureTime"`
	DateCreated   int64   `json:"dateCreated"`
	DateModified  int64   `json:"dateModified"`

	// Place holds the lease columns as they stand in the row.
	Place

	// Traceparent is as NewTask.Traceparent. Set on tasks answered by
	// Store.Lease, as far as the store keeps it, and empty on tasks that were
	// only looked at. A store may forget it once the task is archived.
	Traceparent string `json:"-"`

	// Lease is the lease that the caller holds. Set on tasks answered by
	// Store.Lease, nil on tasks that were only looked at.
	Lease *Lease `json:"-"`
}

// Place is the two lease columns of a row, which together say where a task
// stands in the queue. Both are nullable in Phorge's schema and NULL means
// something else than "" or 0.
type Place struct {
	Owner   *string `json:"leaseOwner"`
	Expires *int64  `json:"leaseExpires"`
}

// Results of an archived task, as in PhabricatorWorkerArchiveTask.
const (
	ResultSuccess   = 0
	ResultFailure   = 1
	ResultCancelled = 2
)

// Archive is what worker_archivetask adds to a task.
type Archive struct {
	Result   int   `json:"result"`
	Duration int64 `json:"duration"` // microseconds of work; 0 unless it succeeded
	Epoch    int64 `json:"archivedEpoch"`
}

// Record is a task as an operator sees it: active, or archived when Archive
// is set.
type Record struct {
	Task
	*Archive
}

// NewTask is a task to be queued, as the arguments of
// PhabricatorWorker::scheduleTask or queueTask.
type NewTask struct {
	Class string `json:"taskClass"`
	Data  []byte `json:"-"` // valid JSON in UTF-8

	// Priority nil means PriorityDefault, or the parent's for a follow-up.
	Priority      *int    `json:"priority,omitempty"`
	ObjectPHID    *string `json:"objectPHID,omitempty"`
	ContainerPHID *string `json:"containerPHID,omitempty"`

	// DelayUntil is the epoch before which the task is not leased; 0 means at
	// once.
	DelayUntil int64 `json:"delayUntil,omitempty"`

	// Traceparent is the W3C trace context of whoever queued the task, as the
	// function Traceparent answers it; "" means that nobody traces it. It travels
	// beside the data, and is no part of what makes two tasks the same.
	Traceparent string `json:"-"`
}

// Validate answers an error that wraps ErrInvalid and names the field when
// Phorge's columns or PHP's JSON decoder could not hold the task.
func (n NewTask) Validate() error {
	var why error
	switch {
	case n.Class == "":
		why = errors.New("taskClass is empty")
	case len(n.Class) > 64 || !utf8.ValidString(n.Class):
		why = fmt.Errorf("taskClass %.80q must be at most 64 bytes of UTF-8", n.Class)
	case CheckData(n.Data) != nil:
		why = CheckData(n.Data)
	case n.Priority != nil && (*n.Priority < 0 || *n.Priority > math.MaxUint32):
		why = fmt.Errorf("priority %d is out of range; it is 0 to 4294967295", *n.Priority)
	case n.DelayUntil < 0 || n.DelayUntil > math.MaxUint32:
		why = fmt.Errorf("delayUntil %d is out of range; it is an epoch in seconds", n.DelayUntil)
	case n.Traceparent != "" && Traceparent(n.Traceparent) != n.Traceparent:
		why = fmt.Errorf("traceparent %.80q is no trace context of version 00", n.Traceparent)
	case !validPHID(n.ObjectPHID):
		why = fmt.Errorf("objectPHID %.80q must be at most 64 bytes of UTF-8", *n.ObjectPHID)
	case !validPHID(n.ContainerPHID):
		why = fmt.Errorf("containerPHID %.80q must be at most 64 bytes of UTF-8", *n.ContainerPHID)
	}
	if why != nil {
		return fmt.Errorf("%w: task of class %.80q: %w", ErrInvalid, n.Class, why)
	}
	return nil
}

func validPHID(phid *string) bool {
	return phid == nil || (len(*phid) <= 64 && utf8.ValidString(*phid))
}
