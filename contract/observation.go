package contract

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

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
	Method   string            `yaml:"method"`            // empty: bytes behind a request that are none, in Body
	Target   string            `yaml:"target"`            // the request line's, with the query
	Version  string            `yaml:"version,omitempty"` // the request line's; empty is HTTP/1.1
	Order    string            `yaml:"order,omitempty"`   // names of headers as they were written, joined by ", "
	Headers  map[string]string `yaml:"headers"`           // by canonical name; several values joined by ", "
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

// mapTexts replaces every text in which chance and the clock may have had a say.
// Those that are compared come in the order in which a person reads them.
func (o *Observation) mapTexts(change func(text string) string) {
	optional := func(text *string) *string {
		if text == nil {
			return nil
		}
		changed := change(*text)
		return &changed
	}
	for i := range o.Outcome.FollowUps {
		f := &o.Outcome.FollowUps[i]
		f.Data, f.DelayUntil = change(f.Data), change(f.DelayUntil)
		f.ObjectPHID, f.ContainerPHID = optional(f.ObjectPHID), optional(f.ContainerPHID)
	}
	for i := range o.Requests {
		r := &o.Requests[i]
		r.Target, r.Body = change(r.Target), change(r.Body)
		for _, name := range sorted(r.Headers) {
			r.Headers[name] = change(r.Headers[name])
		}
	}
	for i := range o.Changes {
		c := &o.Changes[i]
		c.Key = change(c.Key)
		for _, name := range sorted(c.Columns) {
			values := c.Columns[name]
			c.Columns[name] = Values{optional(values.Before), optional(values.After)}
		}
	}
	o.Outcome.Reason = change(o.Outcome.Reason)
}

// clone shares no list and no map with the observation.
func (o Observation) clone() Observation {
	o.Outcome.FollowUps = slices.Clone(o.Outcome.FollowUps)
	o.Requests = slices.Clone(o.Requests)
	for i := range o.Requests {
		o.Requests[i].Headers = maps.Clone(o.Requests[i].Headers)
	}
	o.Changes = slices.Clone(o.Changes)
	for i := range o.Changes {
		o.Changes[i].Columns = maps.Clone(o.Changes[i].Columns)
	}
	return o
}

// String writes the two as a person reads them.
func (v Values) String() string { return quoted(v.Before) + " → " + quoted(v.After) }

// quoted is a value as it stands in a line: NULL, or the text in quotes.
func quoted(value *string) string {
	switch {
	case value == nil:
		return "NULL"
	case strings.Contains(*value, `"`) && strconv.CanBackquote(*value) && !strings.ContainsFunc(*value, isSpecial):
		return "`" + *value + "`"
	}
	return strconv.Quote(*value)
}
