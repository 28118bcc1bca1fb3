package redis

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// Settle implements tasks.Store. A success, its follow-ups and its place in the
// archive are one script. When a call fails, some of its settlements may have been
// written; repeating it answers those as done.
func (s *Store) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settle(ctx, settlements, "0")
}

// SettleLive implements tasks.Service.
func (s *Store) SettleLive(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settle(ctx, settlements, "1")
}

// settle settles; live is "1" when each lease must not have expired.
func (s *Store) settle(ctx context.Context, settlements []tasks.Settlement, live string) ([]tasks.Settled, error) {
	answers := make([]tasks.Settled, 0, len(settlements))
	for part := range slices.Chunk(settlements, scriptRows) {
		problems := make([]error, len(part))
		rows, age := s.archiveBounds()
		args := make([]any, 0, 5+8*len(part))
		args = append(args, live, rows, age, tasks.AttemptsKept, len(part))
		for i, settlement := range part {
			problems[i] = problem(settlement.Outcome)
			args = s.appendSettlement(args, settlement, problems[i])
		}
		answer, err := s.run(ctx, settleScript, args...)
		if err != nil {
			return nil, fmt.Errorf("settle %d tasks: %w", len(part), err)
		}
		reply := replied(answer)
		for i, settlement := range part {
			settled := tasks.Settled{ID: settlement.ID}
			switch first := reply.number(); {
			case first == -2:
				settled.Err = fmt.Errorf("outcome of task %d: %w", settlement.ID, problems[i])
			case first == -1:
				settled.Err = lost(settlement.ID, settlement.Lease.Owner)
			case first > 0:
				settled.FollowUps = idsFrom(first, len(settlement.Outcome.FollowUps))
			}
			answers = append(answers, settled)
		}
	}
	return answers, nil
}

// problem answers why an outcome cannot be stored, or nil.
func problem(o tasks.Outcome) error {
	switch o.Kind {
	case tasks.Succeeded:
		if err := validate(o.FollowUps); err != nil {
			return fmt.Errorf("follow-up: %w", err)
		}
	case tasks.Failed, tasks.Yielded, tasks.Retry, tasks.Crashed, tasks.Released:
	default:
		return fmt.Errorf("%w: no store settles the outcome %q", tasks.ErrInvalid, o.Kind)
	}
	return nil
}

// appendSettlement describes a settlement as lua/settle.lua reads it.
func (s *Store) appendSettlement(args []any, settlement tasks.Settlement, problem error) []any {
	o := settlement.Outcome
	args = append(args, settlement.ID, settlement.Lease.Owner)
	if problem != nil {
		return append(args, "refuse", map[bool]string{true: "succeed"}[o.Kind == tasks.Succeeded])
	}
	switch o.Kind {
	case tasks.Succeeded:
		args = append(args, "succeed", max(0, o.Duration.Microseconds()), len(o.FollowUps))
		return appendTasks(args, o.FollowUps)
	case tasks.Failed:
		return append(args, "fail", s.attemptOf(settlement))
	case tasks.Yielded:
		return appendPlace(append(args, "yield"), settlement)
	case tasks.Released:
		return appendPlace(append(args, "release"), settlement)
	}
	return append(appendPlace(append(args, "retry"), settlement), s.attemptOf(settlement))
}

func (s *Store) attemptOf(settlement tasks.Settlement) string {
	return attemptText(tasks.FailedAttempt(tasks.Task{}, settlement, s.config.Host, 0))
}

// appendPlace describes where a task waits once its lease has ended. Only the
// server knows what time it is, so a wait is told as such: it shows in what PlaceAfter
// answers at the first epoch and at the last, neither of which cuts it short in its
// own direction.
func appendPlace(args []any, s tasks.Settlement) []any {
	first, last := s.Lease.PlaceAfter(s.Outcome, 0), s.Lease.PlaceAfter(s.Outcome, math.MaxUint32)
	owner := ""
	if first.Owner != nil {
		owner = *first.Owner
	}
	switch {
	case first.Expires == nil:
		return append(args, owner, "none", 0)
	case s.Outcome.Kind != tasks.Released || s.Outcome.Wait > 0:
		return append(args, owner, "wait", *first.Expires+*last.Expires-math.MaxUint32)
	}
	return append(args, owner, "until", *first.Expires)
}
