package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// patience is how long a suspect waits for its turn here, holding a slot of
	// the runtime. Many that are quick so pass one after the other.
	patience = time.Second

	// suspectWait is how long it waits in the queue, in whole seconds, when its
	// turn did not come.
	suspectWait = 15 * time.Second
)

// solitary is a second process of a binary, for its suspects: the tasks that
// were held by a process when it died. One of them killed it and the others
// did nothing, and nobody can tell which. They run here one at a time, so the
// next death has one culprit, and the others succeed instead of meeting it
// again until max_crashes gives them all up. It is started for the first
// suspect.
type solitary struct {
	*process
	start sync.Once
	place chan struct{} // held by the one suspect that runs
}

func newSolitary(plugin Plugin, c Config) *solitary {
	plugin.Name += " (alone)"
	return &solitary{process: newProcess(plugin, c), place: make(chan struct{}, 1)}
}

// suspect reports whether a task was held by a process that died. The task of
// a Gantry that died is none: its owner was not in parentheses.
func suspect(task tasks.Task) bool {
	if task.Lease == nil || task.Lease.Prior.Owner == nil {
		return false
	}
	prior := *task.Lease.Prior.Owner
	return tasks.Nobody(prior) && tasks.Crashes(prior) > 0
}

// executeAlone runs a suspect. When its turn does not come soon, or the process
// does not run, the task waits in the queue without counting anything.
func (h *Host) executeAlone(ctx context.Context, s *solitary, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.place <- struct{}{}:
		defer func() { <-s.place }()
	case <-ctx.Done():
		return released("cancelled before it started")
	case <-timer.C:
		return waiting("task %d was held by a process that died, so it runs alone; another such task runs now", task.ID)
	}
	if !h.launch(s) {
		return released("Gantry stopped before task %d started", task.ID)
	}
	select {
	case <-s.tried:
	case <-ctx.Done():
		return released("cancelled before it started")
	}
	link := s.link(task.Class)
	if link == nil {
		return waiting("task %d was held by a process that died, so it runs alone; %s is not ready", task.ID, s.plugin.Name)
	}
	return link.execute(ctx, task, require)
}

// launch starts the process for suspects, once. It reports false when the host
// does not run.
func (h *Host) launch(s *solitary) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started || h.closed {
		return false
	}
	s.start.Do(func() {
		h.running.Go(func() { s.supervise(h.life, h.spawner) })
	})
	return true
}

func waiting(format string, args ...any) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Released, Wait: suspectWait, Reason: fmt.Sprintf(format, args...)}
}
