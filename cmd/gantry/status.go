package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/runtime"
)

// statusReport is how a running Gantry is, as its socket answers /status. Where
// there are several instances, it has a report for each of them and the sums of
// their counts; plugins and PHP are those of an instance. State is a type
// parameter because one side writes what bridge/pool or bridge/conduit
// answers, and the other reads it as one of the two.
type statusReport[State any] struct {
	Version string           `json:"version"`
	PID     int              `json:"pid"`
	Since   time.Time        `json:"since"`
	Ready   bool             `json:"ready"`
	Problem string           `json:"problem,omitempty"` // why it is not ready
	Counts  counts           `json:"counts"`            // since it was started
	Held    int              `json:"held"`              // tasks under a lease
	Running int              `json:"running"`           // of these, the ones that run
	Plugins []host.Status    `json:"plugins"`
	PHP     phpStatus[State] `json:"php"`

	Instances map[string]statusReport[State] `json:"instances,omitempty"`
}

// phpStatus is how the route of PHP is.
type phpStatus[State any] struct {
	Route string `json:"route"`           // pool or conduit, or empty
	Why   string `json:"why,omitempty"`   // there is none
	State *State `json:"state,omitempty"` // there is one
}

// ready answers nil, or what of that which is to run here does not.
func (w *watch) ready(rt *runtime.Runtime) error {
	if w.stopping.Load() {
		running := rt.Stats().Running
		return fmt.Errorf("stopping, %s", plural(running, "task still runs", "tasks still run"))
	}
	return errors.Join(rt.Ready(), w.notReady())
}

func (w *watch) status(rt *runtime.Runtime) statusReport[any] {
	stats := rt.Stats()
	report := statusReport[any]{
		Version: readVersion().Version, PID: os.Getpid(), Since: w.began, Ready: true,
		Counts: countsOf(stats), Held: stats.Held, Running: stats.Running,
		Plugins: w.host.List(),
		PHP:     phpStatus[any]{Route: w.php.name, Why: w.php.why},
	}
	if err := w.ready(rt); err != nil {
		report.Ready, report.Problem = false, err.Error()
	}
	if w.php.runs() {
		report.PHP.State = new(w.php.state().all)
	}
	return report
}
