package storetest

import (
	"context"
	"errors"

	"github.com/phorge-gantry/gantry/tasks"
)

// Operators with one thing wrong.
type (
	cancelsFinished struct{ *Memory }
	cancelsHalf     struct{ *Memory }
	freesLeases     struct{ *Memory }
	freesLater      struct{ *Memory }
	delaysLeased    struct{ *Memory }
	delaysNothing   struct{ *Memory }
	noPriority      struct{ *Memory }
	repeatsSuccess  struct{ *Memory }
	neverRepeats    struct{ *Memory }
	forgetsRetry    struct{ *Memory }
	awakensAll      struct{ *Memory }
	awakensOnce     struct{ *Memory }
	seesActive      struct{ *Memory }
	cutsPages       struct{ *Memory }
	countsLeases    struct{ *Memory }
	countsArchive   struct{ *Memory }
	refusesNothing  struct{ *Memory }
)

// changing applies something more to each task that was changed.
func changing(m *Memory, changed []tasks.Changed, err error, change func(*tasks.Task)) ([]tasks.Changed, error) {
	for _, c := range changed {
		if task, ok := m.active[c.ID]; ok && c.Err == nil {
			change(&task)
			m.active[c.ID] = task
		}
	}
	return changed, err
}

func (o cancelsFinished) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	changed, err := o.Memory.Cancel(ctx, ids)
	for i, c := range changed {
		if errors.Is(c.Err, tasks.ErrArchived) {
			changed[i].Err = nil
		}
	}
	return changed, err
}

func (o cancelsHalf) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	before := map[int64]tasks.Task{}
	for _, id := range ids {
		before[id] = o.active[id]
	}
	changed, err := o.Memory.Cancel(ctx, ids)
	for _, c := range changed {
		if record, ok := o.archived[c.ID]; ok && c.Err == nil {
			record.Place = before[c.ID].Place
			o.archived[c.ID] = record
		}
	}
	return changed, err
}

func (o freesLeases) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return o.change(ctx, ids, func(task tasks.Task) error {
		if !leased(task.Place) {
			return tasks.ErrNotLeased
		}
		task.Place = o.freed()
		o.save(task)
		return nil
	})
}

func (o freesLater) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	changed, err := o.Memory.Free(ctx, ids)
	return changing(o.Memory, changed, err, func(task *tasks.Task) { task.Place = unowned(o.clock() + 1) })
}

func (o delaysLeased) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	return o.change(ctx, ids, func(task tasks.Task) error {
		task.Place = at(tasks.DelayOwner, until)
		o.save(task)
		return nil
	})
}

func (o delaysNothing) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	changed, err := o.Memory.Delay(ctx, ids, until)
	return changing(o.Memory, changed, err, func(task *tasks.Task) { task.Place = tasks.Place{} })
}

func (o noPriority) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	changed, err := o.Memory.Priority(ctx, ids, priority)
	return changing(o.Memory, changed, err, func(task *tasks.Task) { task.Priority = tasks.PriorityDefault })
}

func (o repeatsSuccess) Retry(ctx context.Context, ids []int64, _ bool) ([]tasks.Changed, error) {
	return o.Memory.Retry(ctx, ids, true)
}

func (o neverRepeats) Retry(ctx context.Context, ids []int64, _ bool) ([]tasks.Changed, error) {
	return o.Memory.Retry(ctx, ids, false)
}

func (o forgetsRetry) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	changed, err := o.Memory.Retry(ctx, ids, repeat)
	return changing(o.Memory, changed, err, func(task *tasks.Task) { task.Place = tasks.Place{} })
}

func (o awakensAll) Awaken(_ context.Context, ids []int64) (int, error) {
	count := 0
	for _, id := range ids {
		if task, ok := o.active[id]; ok && task.Owner != nil && tasks.Nobody(*task.Owner) {
			task.Place = at(*task.Owner, o.clock()-awakened)
			o.active[id] = task
			count++
		}
	}
	return count, nil
}

func (o awakensOnce) Awaken(ctx context.Context, ids []int64) (int, error) {
	n, err := o.Memory.Awaken(ctx, ids)
	if n == 0 && len(ids) > 0 {
		return 0, tasks.ErrNotFound
	}
	return n, err
}

func (o seesActive) Get(ctx context.Context, id int64) (tasks.Record, error) {
	record, err := o.Memory.Get(ctx, id)
	if record.Archive != nil {
		return tasks.Record{}, missing(id)
	}
	return record, err
}

func (o cutsPages) List(ctx context.Context, filter tasks.Filter) (tasks.Page, error) {
	page, err := o.Memory.List(ctx, filter)
	page.Next = 0
	return page, err
}

func (o countsLeases) Stats(ctx context.Context) (tasks.Stats, error) {
	stats, err := o.Memory.Stats(ctx)
	for i, class := range stats.Classes {
		stats.Classes[i].Leased += class.Waiting
	}
	return stats, err
}

func (o countsArchive) Stats(ctx context.Context) (tasks.Stats, error) {
	stats, err := o.Memory.Stats(ctx)
	stats.Classes = append(stats.Classes, tasks.ClassStats{Class: "archived", Active: len(o.archived)})
	return stats, err
}

func (o refusesNothing) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	if len(ids) == 0 {
		return nil, tasks.ErrInvalid
	}
	return o.Memory.Cancel(ctx, ids)
}

func operator[O tasks.Operator](wrap func(*Memory) O) func(*Memory) tasks.Operator {
	return func(m *Memory) tasks.Operator { return wrap(m) }
}

var operatorFaults = []fault{
	{name: "finds active tasks only", row: "get answers active and archived tasks and says when there is none",
		operator: operator(func(m *Memory) seesActive { return seesActive{m} })},
	{name: "says that it cancelled a finished task", row: "B16 a finished task cannot be cancelled",
		operator: operator(func(m *Memory) cancelsFinished { return cancelsFinished{m} })},
	{name: "leaves the lease of a cancelled task", row: "cancel archives active tasks, leased or not",
		operator: operator(func(m *Memory) cancelsHalf { return cancelsHalf{m} })},
	{name: "frees leases but no waits", row: "free breaks every lease and every wait",
		operator: operator(func(m *Memory) freesLeases { return freesLeases{m} })},
	{name: "frees a task for the next second", row: "free breaks every lease and every wait",
		operator: operator(func(m *Memory) freesLater { return freesLater{m} })},
	{name: "delays leased tasks", row: "delay makes a waiting task wait and leaves the leased ones",
		operator: operator(func(m *Memory) delaysLeased { return delaysLeased{m} })},
	{name: "delays nothing", row: "delay makes a waiting task wait and leaves the leased ones",
		operator: operator(func(m *Memory) delaysNothing { return delaysNothing{m} })},
	{name: "changes no priority", row: "an urgent priority puts a task first",
		operator: operator(func(m *Memory) noPriority { return noPriority{m} })},
	{name: "repeats successes unasked", row: "retry queues a failed or cancelled task again with its id and its data",
		operator: operator(func(m *Memory) repeatsSuccess { return repeatsSuccess{m} })},
	{name: "never repeats a success", row: "retry repeats a success only when asked to",
		operator: operator(func(m *Memory) neverRepeats { return neverRepeats{m} })},
	{name: "leaves no trace of a retry", row: "retry queues a failed or cancelled task again with its id and its data",
		operator: operator(func(m *Memory) forgetsRetry { return forgetsRetry{m} })},
	{name: "awakens what waits for another try", row: "awaken makes yielded tasks that never failed due",
		operator: operator(func(m *Memory) awakensAll { return awakensAll{m} })},
	{name: "takes a second awakening for an error", row: "B26 awakening twice succeeds twice",
		operator: operator(func(m *Memory) awakensOnce { return awakensOnce{m} })},
	{name: "refuses to do nothing", row: "nothing to operate on is nothing done",
		operator: operator(func(m *Memory) refusesNothing { return refusesNothing{m} })},
	{name: "ends a listing after its first page", row: "list answers what a filter selects by ascending id",
		operator: operator(func(m *Memory) cutsPages { return cutsPages{m} })},
	{name: "counts waiting tasks as leased", row: "stats count active tasks by class",
		operator: operator(func(m *Memory) countsLeases { return countsLeases{m} })},
	{name: "counts a class that is not there", row: "an empty queue has no stats",
		operator: operator(func(m *Memory) countsArchive { return countsArchive{m} })},
}
