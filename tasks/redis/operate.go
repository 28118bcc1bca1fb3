package redis

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// awakened is how far in the past, in seconds, the lease of an awakened task ends,
// as in PhabricatorWorker::awakenTaskIDs.
const awakened = 3600

// obstacles are what lua/operate.lua says was in the way of a change.
var obstacles = map[string]error{
	"missing":   tasks.ErrNotFound,
	"archived":  tasks.ErrArchived,
	"active":    tasks.ErrActive,
	"leased":    tasks.ErrLeased,
	"unleased":  tasks.ErrNotLeased,
	"succeeded": tasks.ErrSucceeded,
	"unchanged": tasks.ErrUnchanged,
}

// Cancel implements tasks.Operator, as `bin/worker cancel`.
func (s *Store) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.change(ctx, "cancel", 0, ids)
}

// Free implements tasks.Operator, as `bin/worker free`.
func (s *Store) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return s.change(ctx, "free", 0, ids)
}

// Delay implements tasks.Operator. A task that was tried before keeps its owner in
// parentheses, and what that counts.
func (s *Store) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	if until < 0 || until > math.MaxUint32 {
		return nil, fmt.Errorf("%w: delay until %d; it is an epoch in seconds", tasks.ErrInvalid, until)
	}
	return s.change(ctx, "delay", until, ids)
}

// Priority implements tasks.Operator, as `bin/worker priority`.
func (s *Store) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	if priority < 1 || priority > math.MaxUint32 {
		return nil, fmt.Errorf("%w: priority %d; it is 1 to 4294967295", tasks.ErrInvalid, priority)
	}
	return s.change(ctx, "priority", int64(priority), ids)
}

// Retry implements tasks.Operator, as `bin/worker retry`: the task keeps its id and
// its data, and comes as one that was never leased.
func (s *Store) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	with := int64(0)
	if repeat {
		with = 1
	}
	return s.change(ctx, "retry", with, ids)
}

// Awaken implements tasks.Operator.
func (s *Store) Awaken(ctx context.Context, ids []int64) (int, error) {
	changed, err := s.change(ctx, "awaken", awakened, ids)
	count := 0
	for _, c := range changed {
		if c.Err == nil {
			count++
		}
	}
	return count, err
}

// change does the same to each id. An id that is named twice is changed by the first
// and met so by the second.
func (s *Store) change(ctx context.Context, what string, with int64, ids []int64) ([]tasks.Changed, error) {
	changed := make([]tasks.Changed, 0, len(ids))
	rows, age := s.archiveBounds()
	for part := range slices.Chunk(ids, scriptRows) {
		args := []any{what, with, rows, age}
		for _, id := range part {
			args = append(args, id)
		}
		answer, err := s.runOnce(ctx, operateScript, args...)
		if err != nil {
			return changed, fmt.Errorf("%s %d tasks: %w", what, len(part), err)
		}
		reply := replied(answer)
		for _, id := range part {
			c := tasks.Changed{ID: id, Class: reply.text()}
			if why := obstacles[reply.text()]; why != nil {
				c.Err = fmt.Errorf("task %d: %w", id, why)
			}
			changed = append(changed, c)
		}
	}
	return changed, nil
}
