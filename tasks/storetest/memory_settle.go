package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Settle implements tasks.Store.
func (m *Memory) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return m.settleAll(ctx, settlements, false)
}

func (m *Memory) settleAll(ctx context.Context, settlements []tasks.Settlement, live bool) ([]tasks.Settled, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	answers := make([]tasks.Settled, len(settlements))
	for i, s := range settlements {
		answers[i].ID = s.ID
		answers[i].FollowUps, answers[i].Err = m.settle(s, live)
	}
	return answers, nil
}

func (m *Memory) settle(s tasks.Settlement, live bool) (followUps []int64, err error) {
	task, held := m.held(s.ID, s.Lease.Owner)
	if !held {
		if m.settledBefore(s) {
			return nil, nil
		}
		return nil, lost(s.ID, s.Lease.Owner)
	}
	now := m.clock()
	if live && task.Expires != nil && *task.Expires < now {
		return nil, lost(s.ID, s.Lease.Owner)
	}
	if s.Outcome.Kind.Fails() {
		m.remember(tasks.FailedAttempt(task, s, m.host, now))
	}
	switch s.Outcome.Kind {
	case tasks.Succeeded:
		followUps, err := m.insert(s.Outcome.FollowUps, task.Priority)
		if err != nil {
			return nil, fmt.Errorf("follow-ups of task %d: %w", s.ID, err)
		}
		m.archive(task, tasks.ResultSuccess, s.Outcome.Duration.Microseconds())
		return followUps, nil
	case tasks.Failed:
		m.archive(task, tasks.ResultFailure, 0)
		return nil, nil
	case tasks.Yielded, tasks.Released:
	case tasks.Retry, tasks.Crashed:
		task.FailureCount++
		task.FailureTime = &now
	default:
		return nil, fmt.Errorf("task %d: no store settles the outcome %q: %w", s.ID, s.Outcome.Kind, tasks.ErrInvalid)
	}
	task.Place = after(s.Lease, s.Outcome, now)
	if s.Outcome.Kind != tasks.Released {
		task.DateModified = now
	}
	m.active[s.ID] = task
	return nil, nil
}

// after answers where a task waits once its lease has ended. The owner always
// changes, so that nothing said under the lease can touch the row again.
func after(lease tasks.Lease, outcome tasks.Outcome, now int64) tasks.Place {
	until := later(now, outcome.Wait)
	switch outcome.Kind {
	case tasks.Yielded:
		return place(tasks.YieldOwner, later(now, max(outcome.Wait, tasks.MinYield)))
	case tasks.Crashed:
		return place(tasks.RetryOwner(lease.Fence, lease.Crashes+1), until)
	case tasks.Retry:
		return place(tasks.RetryOwner(lease.Fence, lease.Crashes), until)
	}
	return released(lease, outcome.Wait, until)
}

// released answers where a task waits that was given back. Its place in line
// is kept; the owner of a lease that ended before this one is not revived.
func released(lease tasks.Lease, wait time.Duration, until int64) tasks.Place {
	prior := lease.Prior
	switch {
	case wait > 0:
		return place(tasks.BackOwner(lease.Fence, lease.Crashes), until)
	case prior.Owner == nil || tasks.Nobody(*prior.Owner):
		return prior
	}
	return place(tasks.BackOwner(lease.Fence, lease.Crashes), value(prior.Expires))
}

// settledBefore reports whether the row shows that this very settlement took
// effect: the archive keeps the owner, and most owners in parentheses keep the
// fence. A yield leaves no trace of its lease, nor does a return to a place
// without a fence, so repeating one of those is answered as a lost lease.
func (m *Memory) settledBefore(s tasks.Settlement) bool {
	if result := resultOf(s.Outcome.Kind); result >= 0 {
		record, ok := m.archived[s.ID]
		return ok && record.Owner != nil && *record.Owner == s.Lease.Owner && record.Result == result
	}
	switch s.Outcome.Kind {
	case tasks.Retry, tasks.Crashed, tasks.Released:
		owner := after(s.Lease, s.Outcome, m.clock()).Owner
		if owner != nil && strings.Contains(*owner, ":") {
			_, left := m.held(s.ID, *owner)
			return left
		}
	}
	return false
}

// resultOf is negative for outcomes after which the task stays active.
func resultOf(kind tasks.Kind) int {
	switch kind {
	case tasks.Succeeded:
		return tasks.ResultSuccess
	case tasks.Failed:
		return tasks.ResultFailure
	}
	return -1
}

// archive moves a row. The archive has no failureTime.
func (m *Memory) archive(task tasks.Task, result int, duration int64) {
	now := m.clock()
	delete(m.active, task.ID)
	task.FailureTime = nil
	task.DateModified = now
	m.archived[task.ID] = tasks.Record{
		Task:    task,
		Archive: &tasks.Archive{Result: result, Duration: duration, Epoch: now},
	}
}
