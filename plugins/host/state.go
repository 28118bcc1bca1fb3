package host

import (
	"fmt"
	"time"
)

// State is where a process stands in its life.
type State string

const (
	Stopped  State = "stopped"  // not running, and nothing will start it
	Starting State = "starting" // launched, not shaken hands yet
	Ready    State = "ready"    // takes tasks
	Draining State = "draining" // dying or being stopped; takes no more tasks
	Backoff  State = "backoff"  // dead; waits to be started again
)

// Status is what a person wants to know of a process.
type Status struct {
	Name  string    `json:"name"`
	Path  string    `json:"path"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // when it came into the state
	PID   int       `json:"pid,omitempty"`
	SDK   string    `json:"sdk,omitempty"` // version of the SDK it was built with

	// Databases are the applications of Phorge whose databases it reaches, and
	// Options what it reads of Phorge's configuration.
	Databases []string `json:"databases,omitempty"`
	Options   []string `json:"options,omitempty"`

	Running  int `json:"running"`  // tasks that it holds now
	Restarts int `json:"restarts"` // how often it was started again

	// Problem is why it is not running, or why it died the last time.
	Problem string `json:"problem,omitempty"`

	Classes []ClassStatus `json:"classes"`

	// Alone is the second process of the binary, while there is one: it runs
	// tasks that were held by a process when it died.
	Alone *Status `json:"alone,omitempty"`
}

// ClassStatus is one class of a process.
type ClassStatus struct {
	Class    string   `json:"taskClass"`
	Ready    bool     `json:"ready"`
	Slots    int      `json:"slots,omitempty"`
	Fallback Fallback `json:"fallback"`

	// Problem is why the class is not ready although its process is.
	Problem string `json:"problem,omitempty"`
}

// leadsTo reports whether a process may come from state s into state next.
func (s State) leadsTo(next State) bool {
	switch s {
	case Stopped:
		return next == Starting
	case Starting:
		return next == Ready || next == Backoff || next == Stopped
	case Ready:
		return next == Draining
	case Draining:
		return next == Backoff || next == Stopped
	case Backoff:
		return next == Starting || next == Stopped
	}
	return false
}

// must panics on a step that the machine does not have: it is a mistake in
// this package, never something a process can cause.
func (s State) must(next State) State {
	if !s.leadsTo(next) {
		panic(fmt.Sprintf("plugin host: a process went from %s to %s", s, next))
	}
	return next
}
