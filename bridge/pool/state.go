package pool

import (
	"fmt"
	"slices"
	"time"
)

// Phase is where a process stands in its life.
type Phase string

const (
	Starting Phase = "starting" // PHP loads Phorge
	Idle     Phase = "idle"     // waits for a task
	Busy     Phase = "busy"     // has a task
	Leaving  Phase = "leaving"  // gets no more tasks and is ending
	Stopped  Phase = "stopped"  // gone, because Gantry wanted it
	Failed   Phase = "failed"   // gone by itself, or because it was not fit to use
)

var steps = map[Phase][]Phase{
	Starting: {Idle, Stopped, Failed},
	Idle:     {Busy, Leaving, Stopped, Failed},
	Busy:     {Idle, Stopped, Failed},
	Leaving:  {Stopped},
}

// must panics on a step that the machine does not have: it is a mistake in
// this package, never something a process can cause.
func (s Phase) must(next Phase) Phase {
	if !slices.Contains(steps[s], next) {
		panic(fmt.Sprintf("pool: a process went from %s to %s", s, next))
	}
	return next
}

// State is what a person wants to know of a pool.
type State struct {
	Ready bool `json:"ready"`
	Min   int  `json:"min"`
	Max   int  `json:"max"`

	// Waiting is how many tasks wait for a process.
	Waiting int `json:"waiting"`

	// Problem is what the last process that failed died of or lacked; empty
	// once a process has done work since.
	Problem string `json:"problem,omitempty"`

	// What the process that started last said of itself.
	Phorge    string `json:"phorge,omitempty"`
	PHP       string `json:"php,omitempty"`
	Namespace string `json:"namespace,omitempty"`

	// Processes are in the order in which they started. One that failed is
	// the last of them as long as nothing has been started in its place.
	Processes []Process `json:"processes"`
}

// Process is one PHP process.
type Process struct {
	PID    int       `json:"pid"`
	Phase  Phase     `json:"state"`
	Since  time.Time `json:"since"`            // when it came into the state
	Began  time.Time `json:"began"`            // when it was started
	Task   int64     `json:"task,omitempty"`   // the id of the task at work
	Tasks  int       `json:"tasks"`            // how many it has answered
	Memory int64     `json:"memory,omitempty"` // bytes that PHP held after the last of them

	// Leaving is why it wants to be replaced.
	Leaving string `json:"leaving,omitempty"`
}
