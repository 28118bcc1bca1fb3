package embedded

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

// settleRows bounds the settlements that are written at once, so that no
// transaction keeps other processes waiting for long.
const settleRows = 500

// Settle implements tasks.Store. A success, its follow-ups and its row in the
// archive are one transaction. When a call fails, some of its settlements may
// have been written; repeating it answers those as done.
func (s *Store) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settle(ctx, settlements, false)
}

// settle settles; live asks of each lease that it has not expired.
func (s *Store) settle(ctx context.Context, settlements []tasks.Settlement, live bool) ([]tasks.Settled, error) {
	answers := make([]tasks.Settled, 0, len(settlements))
	for len(settlements) > 0 {
		part := settlements[:min(len(settlements), settleRows)]
		settlements = settlements[len(part):]
		problems := make([]error, len(part))
		for i, settlement := range part {
			problems[i] = settlement.Outcome.Check(validate)
		}
		var settled []tasks.Settled
		err := s.write(ctx, func(tx *txn) (err error) {
			settled, err = tx.settle(part, problems, live)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("settle %d tasks: %w", len(part), err)
		}
		answers = append(answers, settled...)
	}
	return answers, nil
}

// settle answers each settlement and writes those that hold their row. A second
// settlement of a task sees what the first one left.
func (tx *txn) settle(settlements []tasks.Settlement, problems []error, live bool) ([]tasks.Settled, error) {
	ids := make([]int64, len(settlements))
	for i, s := range settlements {
		ids[i] = s.ID
	}
	active, err := tx.active(ids)
	if err != nil {
		return nil, err
	}
	past, err := tx.archivedAmong(ids, active)
	if err != nil {
		return nil, err
	}
	answers := make([]tasks.Settled, len(settlements))
	for i, s := range settlements {
		answer := &answers[i]
		answer.ID = s.ID
		task := active[s.ID]
		switch {
		case task != nil && task.Owner != nil && *task.Owner == s.Lease.Owner && !(live && task.Ended(tx.now)):
			if problems[i] != nil {
				answer.Err = fmt.Errorf("outcome of task %d: %w", s.ID, problems[i])
				continue
			}
			if answer.FollowUps, err = tx.end(task, s); err != nil {
				return nil, err
			}
			if result, archives := s.Outcome.Kind.Result(); archives {
				delete(active, s.ID)
				past[s.ID] = &tasks.Record{Task: *task, Archive: &tasks.Archive{Result: result}}
			}
		case task != nil && s.Left(task.Place), task == nil && past[s.ID] != nil && s.Archived(past[s.ID].Owner, past[s.ID].Result):
		default:
			answer.Err = fmt.Errorf("task %d is no longer held by %s: %w", s.ID, s.Lease.Owner, tasks.ErrLeaseLost)
		}
	}
	return answers, nil
}

// end applies an outcome to a row that the caller holds, and answers the ids of
// the follow-ups.
func (tx *txn) end(task *tasks.Task, s tasks.Settlement) ([]int64, error) {
	o := s.Outcome
	if o.Kind.Fails() {
		if err := tx.record(tasks.FailedAttempt(*task, s, tx.store.config.Host, tx.now)); err != nil {
			return nil, err
		}
	}
	switch o.Kind {
	case tasks.Succeeded:
		followUps, err := tx.insert(o.FollowUps, task.Priority)
		if err != nil {
			return nil, err
		}
		return followUps, tx.archive(task, tasks.ResultSuccess, max(0, o.Duration.Microseconds()))
	case tasks.Failed:
		return nil, tx.archive(task, tasks.ResultFailure, 0)
	case tasks.Retry, tasks.Crashed:
		task.FailureCount++
		task.FailureTime = &tx.now
	}
	task.Place = s.Lease.PlaceAfter(o, tx.now)
	if o.Kind != tasks.Released { // as leasing: nothing came of the task
		task.DateModified = tx.now
	}
	return nil, tx.save(task)
}
