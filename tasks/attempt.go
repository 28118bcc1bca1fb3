package tasks

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

// How much of an attempt is kept: characters, and of the reason bytes. A store
// keeps the latest AttemptsKept of a task.
const (
	RouteWidth    = 16
	CategoryWidth = 32
	HostWidth     = 64
	ReasonBytes   = 4096
	AttemptsKept  = 20
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

// FailedAttempt answers what is kept of a settlement whose outcome fails (see
// Kind.Fails). The task is as it stood before, and host where it was settled.
func FailedAttempt(t Task, s Settlement, host string, now int64) Attempt {
	o := s.Outcome
	return Attempt{
		TaskID: t.ID, Class: t.Class, Number: t.FailureCount + 1,
		Route: clip(s.Route, RouteWidth), Category: clip(o.Category, CategoryWidth), Reason: redact(o.Reason, ReasonBytes),
		Host: clip(host, HostWidth), Owner: s.Lease.Owner, Duration: max(0, o.Duration.Microseconds()), Epoch: now,
	}
}

// LostAttempt answers what is kept of a task that is taken over from a Gantry
// that died. The task is as it stood before. Nobody can say any more whether
// the work had begun.
func LostAttempt(t Task, holder Owner, now int64) Attempt {
	return Attempt{
		TaskID: t.ID, Class: t.Class, Number: t.FailureCount + 1, Category: CategoryLost,
		Reason: "the Gantry that held the task died, or was cut off from the store, before it said what became of it",
		Host:   clip(holder.Host, HostWidth), Owner: *t.Owner, Epoch: now,
	}
}
