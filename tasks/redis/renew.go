package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
)

// scriptRows bounds what one script renews, settles or changes, so that none keeps
// others waiting for long.
const scriptRows = 500

// Renew implements tasks.Store. Most calls only look.
func (s *Store) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	answers := make([]tasks.Renewed, 0, len(renewals))
	for part := range slices.Chunk(renewals, scriptRows) {
		args := make([]any, 0, 4*len(part))
		for _, r := range part {
			args = append(args, r.ID, r.Owner, seconds(r.LeaseTime), strconv.FormatFloat((r.LeaseTime/3*2).Seconds(), 'f', 9, 64))
		}
		answer, err := s.run(ctx, renewScript, args...)
		if err != nil {
			return nil, fmt.Errorf("renew %d leases: %w", len(part), err)
		}
		reply := replied(answer)
		for _, r := range part {
			renewed := tasks.Renewed{ID: r.ID, Expires: reply.number(), Revived: reply.number() == 1}
			if renewed.Expires < 0 {
				renewed = tasks.Renewed{ID: r.ID, Err: lost(r.ID, r.Owner)}
			}
			answers = append(answers, renewed)
		}
	}
	return answers, nil
}

func lost(id int64, owner string) error {
	return fmt.Errorf("task %d is no longer held by %s: %w", id, owner, tasks.ErrLeaseLost)
}
