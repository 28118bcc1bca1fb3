package queue

import (
	"fmt"
	"slices"
	"strings"
)

// What an operation does.
const (
	Schedule   = "schedule"   // PhabricatorWorker::scheduleTask, for each of New
	Lease      = "lease"      // PhabricatorWorkerLeaseQuery, up to Limit tasks
	Execute    = "execute"    // PhabricatorWorkerActiveTask::executeTask of a leased task
	Awaken     = "awaken"     // PhabricatorWorker::awakenTaskIDs
	Pass       = "pass"       // Seconds pass
	Cancel     = "cancel"     // bin/worker cancel
	Free       = "free"       // bin/worker free
	Delay      = "delay"      // bin/worker delay, until Until seconds from now
	Prioritize = "priority"   // bin/worker priority
	Retry      = "retry"      // bin/worker retry
	RunNow     = "run"        // bin/worker execute
	Taskmaster = "taskmaster" // a stock taskmaster leases one task and executes it
)

// Op is one operation. Only what its Do has need of is set.
type Op struct {
	Do string `json:"do"`

	// Tasks are tasks by number. A drawn number may be any; resolve makes it one
	// of a task that there is.
	Tasks []int `json:"tasks,omitempty"`

	// Held says which of the leases that were answered and not used yet, from 1.
	Held int `json:"held,omitempty"`

	New      []New    `json:"new,omitempty"`
	Limit    int      `json:"limit,omitempty"`
	Outcome  *Outcome `json:"outcome,omitempty"`
	Seconds  int64    `json:"seconds,omitempty"`
	Until    int64    `json:"until,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Retry    bool     `json:"retry,omitempty"`  // bin/worker execute --retry
	Repeat   bool     `json:"repeat,omitempty"` // --repeat
}

// New is a task to be queued.
type New struct {
	Class     string `json:"taskClass"`
	Data      string `json:"data"` // a map, as PHP would write it
	Priority  *int   `json:"priority,omitempty"`
	Null      bool   `json:"null,omitempty"` // the priority is given, and is null
	Object    string `json:"objectPHID,omitempty"`
	Container string `json:"containerPHID,omitempty"`
	Delay     *int64 `json:"delay,omitempty"` // seconds from now; nil: at once
}

// How an execution ends.
const (
	Succeed   = "succeed"
	Yield     = "yield"
	Temporary = "fail for now"
	Permanent = "fail for good"
)

// Outcome is how an execution ends.
type Outcome struct {
	End       string `json:"end"`
	Wait      *int64 `json:"wait,omitempty"`      // of Yield, and getWaitBeforeRetry
	NoWait    bool   `json:"noWait,omitempty"`    // getWaitBeforeRetry throws
	Retries   *int   `json:"retries,omitempty"`   // getMaximumRetryCount
	Required  *int64 `json:"required,omitempty"`  // getRequiredLeaseTime
	FollowUps []New  `json:"followUps,omitempty"` // queued before it ends
}

// foreign reports whether only stock Phorge does this. Its rows are carried over
// to our copy.
func (o Op) foreign() bool { return o.Do == RunNow || o.Do == Taskmaster }

// resolve makes an operation that was drawn one of tasks and leases that there
// are. It answers false when there are none.
func (o Op) resolve(tasks int, held int) (Op, bool) {
	switch o.Do {
	case Schedule, Lease, Pass, Taskmaster:
		return o, true
	case Execute:
		if held == 0 {
			return o, false
		}
		o.Held = (o.Held-1)%held + 1
		return o, true
	}
	if tasks == 0 || len(o.Tasks) == 0 {
		return o, false
	}
	var numbers []int
	for _, n := range o.Tasks {
		if n = (n-1)%tasks + 1; !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	o.Tasks = numbers
	return o, true
}

// String is a line of a script.
func (o Op) String() string {
	var b strings.Builder
	switch o.Do {
	case Schedule:
		b.WriteString(o.Do + newTasks(o.New))
	case Lease:
		fmt.Fprintf(&b, "lease up to %d", o.Limit)
	case Execute:
		fmt.Fprintf(&b, "execute the %s of the leased tasks", ordinal(o.Held))
	case Pass:
		fmt.Fprintf(&b, "%d seconds pass", o.Seconds)
	case Awaken:
		b.WriteString("awaken" + listed(o.Tasks))
	case Taskmaster:
		b.WriteString("a stock taskmaster executes a task")
	case RunNow:
		b.WriteString("bin/worker execute" + listed(o.Tasks))
	default:
		b.WriteString("bin/worker " + o.Do + listed(o.Tasks))
	}
	switch o.Do {
	case Delay:
		fmt.Fprintf(&b, " until %+d s", o.Until)
	case Prioritize:
		fmt.Fprintf(&b, " to %d", o.Priority)
	}
	if o.Retry {
		b.WriteString(" --retry")
	}
	if o.Repeat {
		b.WriteString(" --repeat")
	}
	if o.Outcome != nil {
		b.WriteString(": " + o.Outcome.String())
	}
	return b.String()
}

// String says how an execution ends.
func (o Outcome) String() string {
	text := o.End
	if o.Wait != nil {
		text += fmt.Sprintf(", wait %d s", *o.Wait)
	}
	if o.NoWait {
		text += ", and getWaitBeforeRetry throws"
	}
	if o.Retries != nil {
		text += fmt.Sprintf(", %d retries at most", *o.Retries)
	}
	if o.Required != nil {
		text += fmt.Sprintf(", needs the lease for %d s", *o.Required)
	}
	if o.FollowUps != nil {
		text += ", queue" + newTasks(o.FollowUps)
	}
	return text
}

func newTasks(news []New) string {
	var b strings.Builder
	for i, n := range news {
		if i > 0 {
			b.WriteString(" and")
		}
		b.WriteString(" " + n.Class + " " + n.Data)
		if n.Priority != nil {
			fmt.Fprintf(&b, " at priority %d", *n.Priority)
		}
		if n.Null {
			b.WriteString(" at priority null")
		}
		if n.Object != "" {
			b.WriteString(" of " + n.Object)
		}
		if n.Container != "" {
			b.WriteString(" in " + n.Container)
		}
		if n.Delay != nil {
			fmt.Fprintf(&b, " delayed until %+d s", *n.Delay)
		}
	}
	return b.String()
}

func listed(tasks []int) string {
	text := ""
	for _, n := range tasks {
		text += fmt.Sprintf(" task %d", n)
	}
	return text
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}
