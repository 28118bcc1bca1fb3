package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// remembered is an idempotency key.
type remembered struct {
	content [sha256.Size]byte
	ids     []int64
	epoch   int64
}

// LeaseFor implements tasks.Service.
func (m *Memory) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := (tasks.Caller{Name: name}).Check(); err != nil {
		return nil, err
	}
	return m.lease(ctx, req, func(fence int64, _ int) string { return tasks.Caller{Name: name, Fence: fence}.String() })
}

// SettleLive implements tasks.Service.
func (m *Memory) SettleLive(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return m.settleAll(ctx, settlements, true)
}

// EnqueueOnce implements tasks.Service.
func (m *Memory) EnqueueOnce(ctx context.Context, once tasks.Once, news []tasks.NewTask) ([]int64, bool, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	if err := once.Check(); err != nil {
		return nil, false, err
	}
	now, content := m.clock(), tasks.ContentHash(news)
	if before, ok := m.inbox[once.Key]; ok && before.epoch >= now-int64(once.Keep/time.Second) {
		if before.content != content {
			return nil, false, fmt.Errorf("%w: %q", tasks.ErrKeyReused, once.Key)
		}
		return before.ids, true, nil
	}
	ids, err := m.insert(news, tasks.PriorityDefault)
	if err == nil {
		m.inbox[once.Key] = remembered{content, ids, now}
	}
	return ids, false, err
}

// CountArchived implements tasks.Service. The model counts without a bound.
func (m *Memory) CountArchived(ctx context.Context) (counted tasks.ArchivedCount, err error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return counted, err
	}
	defer leave()
	for _, record := range m.archived {
		switch record.Result {
		case tasks.ResultSuccess:
			counted.Succeeded++
		case tasks.ResultFailure:
			counted.Failed++
		case tasks.ResultCancelled:
			counted.Cancelled++
		}
	}
	return counted, nil
}

// remember keeps an attempt, the newest first.
func (m *Memory) remember(a tasks.Attempt) {
	kept := slices.Insert(m.failed[a.TaskID], 0, a)
	m.failed[a.TaskID] = kept[:min(len(kept), tasks.AttemptsKept)]
}

// Attempts implements tasks.Service.
func (m *Memory) Attempts(ctx context.Context, taskID int64, limit int) ([]tasks.Attempt, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	kept := m.failed[taskID]
	return slices.Clone(kept[:min(len(kept), max(0, limit))]), nil
}

// Ready implements tasks.Service.
func (m *Memory) Ready(ctx context.Context) error { return ctx.Err() }
