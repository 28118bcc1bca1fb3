package contract

import "github.com/phorge-gantry/gantry/tasks"

// Observation is what one side made of a case.
type Observation struct {
	Outcome  Outcome   `yaml:"outcome"`
	Requests []Request `yaml:"requests,omitempty"` // in the order of their arrival
	Changes  []Change  `yaml:"changes,omitempty"`  // by table and key; of every database of the namespace
}

// Outcome is what the task came to, as it was settled.
type Outcome struct {
	Kind      tasks.Kind `yaml:"kind"`
	Wait      int64      `yaml:"wait,omitempty"` // seconds
	Category  string     `yaml:"category,omitempty"`
	Reason    string     `yaml:"reason,omitempty"` // for people; not compared
	FollowUps []FollowUp `yaml:"followUps,omitempty"`
}

// FollowUp is a task that was queued with a success.
type FollowUp struct {
	TaskClass     string  `yaml:"taskClass"`
	Data          string  `yaml:"data"`
	Priority      *int    `yaml:"priority,omitempty"`
	ObjectPHID    *string `yaml:"objectPHID,omitempty"`
	ContainerPHID *string `yaml:"containerPHID,omitempty"`
	DelayUntil    string  `yaml:"delayUntil,omitempty"` // an epoch
}

// Request is an HTTP request as a receiver got it.
type Request struct {
	Receiver string            `yaml:"receiver"`
	Method   string            `yaml:"method"`
	Target   string            `yaml:"target"`  // the request line's, with the query
	Headers  map[string]string `yaml:"headers"` // by canonical name; several values joined by ", "
	Body     string            `yaml:"body"`
}

// Change is a row that is new, gone or different.
type Change struct {
	Table   string            `yaml:"table"` // database.table, without the namespace
	Kind    ChangeKind        `yaml:"kind"`
	Key     string            `yaml:"key"`               // values of the primary key, joined by " "
	Columns map[string]Values `yaml:"columns,omitempty"` // of a changed row, those that changed
}

// ChangeKind says what became of a row.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// Values are a column before and after. Nil is NULL, and before an added row
// and after a removed one.
type Values struct {
	Before *string `yaml:"before,omitempty"`
	After  *string `yaml:"after,omitempty"`
}
