package redis

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

// CountArchived implements tasks.Service. It counts all of them.
func (s *Store) CountArchived(ctx context.Context) (counted tasks.ArchivedCount, err error) {
	counts := make([]*goredis.IntCmd, len(archives))
	_, err = s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, index := range archives {
			counts[i] = p.ZCard(ctx, s.key(index))
		}
		return nil
	})
	if err != nil {
		return counted, fmt.Errorf("count archived tasks: %w", s.explain(err))
	}
	for i, into := range []*int{&counted.Succeeded, &counted.Failed, &counted.Cancelled} {
		*into = int(counts[i].Val())
	}
	return counted, nil
}

// Ready implements tasks.Service. It writes as leasing and settling do, and takes
// it back.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.run(ctx, readyScript)
	if err == nil {
		err = s.checkNow(ctx)
	}
	if err != nil {
		return fmt.Errorf("find out whether tasks can be leased and settled: %w", err)
	}
	return nil
}

// checkNow finds out whether somebody changed the server so that it can lose tasks,
// or another one took its place.
func (s *Store) checkNow(ctx context.Context) error {
	node, err := s.node(ctx)
	if err != nil {
		return s.explain(err)
	}
	info, err := serverInfo(ctx, node, "memory", "persistence")
	if err != nil {
		return s.explain(err)
	}
	return errors.Join(s.checkPolicy(info), s.checkFile(info))
}
