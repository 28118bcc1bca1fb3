package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// listWindow is how many tasks one List call looks at when its filter can pass
	// over some.
	listWindow = 1000

	// statsClasses is how many classes are counted at once.
	statsClasses = 250
)

// Now implements tasks.Operator.
func (s *Store) Now(ctx context.Context) (int64, error) {
	if s.config.clock != nil {
		return s.config.clock(), nil
	}
	now, err := s.clockOf(ctx)
	return now, s.explain(err)
}

// clockOf asks the node that has the queue.
func (s *Store) clockOf(ctx context.Context) (int64, error) {
	node, err := s.node(ctx)
	if err != nil {
		return 0, err
	}
	now, err := node.Time(ctx).Result()
	return now.Unix(), err
}

// node answers the server, or the node of the cluster, that has the queue.
func (s *Store) node(ctx context.Context) (goredis.Cmdable, error) {
	if cluster, ok := s.client.(*goredis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, s.key("queue"))
	}
	return s.client, nil
}

// Get implements tasks.Operator.
func (s *Store) Get(ctx context.Context, id int64) (tasks.Record, error) {
	row, err := s.client.HMGet(ctx, s.taskKey(id), fields...).Result()
	if err != nil {
		return tasks.Record{}, fmt.Errorf("look for task %d: %w", id, s.explain(err))
	}
	record, ok := recordOf(id, row)
	if !ok {
		return tasks.Record{}, fmt.Errorf("task %d: %w", id, tasks.ErrNotFound)
	}
	return record, nil
}

func (s *Store) taskKey(id int64) string { return s.key("task:" + strconv.FormatInt(id, 10)) }

// archives are the indexes of archived tasks by id, one a result.
var archives = []string{"archive:0", "archive:1", "archive:2"}

// List implements tasks.Operator. A call reads one window of tasks by ascending id
// and filters them here, so that a filter which matches little looks at no more.
func (s *Store) List(ctx context.Context, f tasks.Filter) (tasks.Page, error) {
	if f.Limit < 1 {
		return tasks.Page{}, fmt.Errorf("%w: a page of %d tasks; the limit must be at least 1", tasks.ErrInvalid, f.Limit)
	}
	indexes := []string{"active"}
	switch f.State {
	case tasks.Active:
	case tasks.Archived:
		indexes = archives
	default:
		return tasks.Page{}, fmt.Errorf("%w: state %q must be %q or %q", tasks.ErrInvalid, f.State, tasks.Active, tasks.Archived)
	}
	page, err := s.page(ctx, f, indexes)
	if err != nil {
		return tasks.Page{}, fmt.Errorf("list tasks: %w", s.explain(err))
	}
	return page, nil
}

func (s *Store) page(ctx context.Context, f tasks.Filter, indexes []string) (page tasks.Page, err error) {
	window := max(f.Limit, listWindow)
	ids, err := s.idsAfter(ctx, indexes, f.After, window)
	if err != nil {
		return page, err
	}
	if len(ids) == window {
		page.Next = ids[window-1]
	}
	wanted := slices.Clone(fields)
	wanted[dataField] = "traceparent" // once more: the data may be large, and nobody asked for it yet
	records, err := s.records(ctx, ids, wanted)
	if err != nil {
		return page, err
	}
	records = slices.DeleteFunc(records, func(r tasks.Record) bool {
		return (r.Archive != nil) != (f.State == tasks.Archived) || !matches(f, r)
	})
	if len(records) > f.Limit {
		records = records[:f.Limit]
		page.Next = records[f.Limit-1].ID
	}
	page.Tasks = records
	return page, s.fillData(ctx, page.Tasks, !f.WithoutData)
}

// idsAfter answers the next n ids that stand in some indexes.
func (s *Store) idsAfter(ctx context.Context, indexes []string, after int64, n int) ([]int64, error) {
	found := make([]*goredis.StringSliceCmd, len(indexes))
	_, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, index := range indexes {
			found[i] = p.ZRangeByScore(ctx, s.key(index), &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: int64(n)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, some := range found {
		for _, member := range some.Val() {
			if id, err := memberID(member); err == nil {
				ids = append(ids, number(id))
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(n, len(ids))], nil
}

// records reads fields of tasks, as far as they still are there.
func (s *Store) records(ctx context.Context, ids []int64, names []string) ([]tasks.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows := make([]*goredis.SliceCmd, len(ids))
	_, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, id := range ids {
			rows[i] = p.HMGet(ctx, s.taskKey(id), names...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var records []tasks.Record
	for i, row := range rows {
		if record, ok := recordOf(ids[i], row.Val()); ok {
			records = append(records, record)
		}
	}
	return records, nil
}

// fillData puts their data into records, or nothing when it is not wanted.
func (s *Store) fillData(ctx context.Context, records []tasks.Record, wanted bool) error {
	for i := range records {
		records[i].Data = nil
	}
	if !wanted || len(records) == 0 {
		return nil
	}
	data := make([]*goredis.StringCmd, len(records))
	_, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, r := range records {
			data[i] = p.HGet(ctx, s.taskKey(r.ID), "data")
		}
		return nil
	})
	if err != nil && err != goredis.Nil {
		return err
	}
	for i := range records {
		if text, err := data[i].Bytes(); err == nil {
			records[i].Data = text
		}
	}
	return nil
}

func matches(f tasks.Filter, r tasks.Record) bool {
	among := func(phids []string, phid *string) bool {
		return len(phids) == 0 || phid != nil && slices.Contains(phids, *phid)
	}
	return (f.Class == "" || f.Class == r.Class) &&
		r.FailureCount >= f.MinFailures && (f.MaxFailures == nil || r.FailureCount <= *f.MaxFailures) &&
		r.Priority >= f.MinPriority && (f.MaxPriority == nil || r.Priority <= *f.MaxPriority) &&
		among(f.Objects, r.ObjectPHID) && among(f.Containers, r.ContainerPHID)
}

// Stats implements tasks.Operator. Indexes know how many entries they have, so the
// counts are exact and their cost is that of the number of classes.
func (s *Store) Stats(ctx context.Context) (tasks.Stats, error) {
	var stats tasks.Stats
	for after, more := "", true; more; more = after != "" {
		answer, err := s.run(ctx, statsScript, after, statsClasses)
		if err != nil {
			return tasks.Stats{}, fmt.Errorf("count tasks: %w", err)
		}
		r := replied(answer)
		stats.Now, after = r.number(), r.text()
		for len(r.values) > 0 {
			c := tasks.ClassStats{
				Class: r.text(), Active: int(r.number()), Leased: int(r.number()), Waiting: int(r.number()), Failing: int(r.number()),
			}
			if c.Active > 0 {
				stats.Classes = append(stats.Classes, c)
			}
		}
	}
	return stats, nil
}
