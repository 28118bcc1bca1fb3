package storetest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// awakened is how far in the past, in seconds, an awakened task's lease ends,
// as in PhabricatorWorker::awakenTaskIDs.
const awakened = 3600

// Now implements tasks.Operator.
func (m *Memory) Now(context.Context) (int64, error) { return m.clock(), nil }

// Get implements tasks.Operator.
func (m *Memory) Get(ctx context.Context, id int64) (tasks.Record, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return tasks.Record{}, err
	}
	defer leave()
	if task, ok := m.active[id]; ok {
		return tasks.Record{Task: looked(task)}, nil
	}
	if record, ok := m.archived[id]; ok {
		record.Task = looked(record.Task)
		return record, nil
	}
	return tasks.Record{}, missing(id)
}

// List implements tasks.Operator.
func (m *Memory) List(ctx context.Context, filter tasks.Filter) (tasks.Page, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return tasks.Page{}, err
	}
	defer leave()
	var page tasks.Page
	for _, record := range m.all() {
		if record.ID <= filter.After || !matches(filter, record) {
			continue
		}
		if len(page.Tasks) == filter.Limit {
			page.Next = page.Tasks[len(page.Tasks)-1].ID
			break
		}
		page.Tasks = append(page.Tasks, record)
	}
	return page, nil
}

func matches(f tasks.Filter, r tasks.Record) bool {
	among := func(phids []string, phid *string) bool {
		return len(phids) == 0 || phid != nil && slices.Contains(phids, *phid)
	}
	return (f.State == tasks.Archived) == (r.Archive != nil) &&
		(f.Class == "" || f.Class == r.Class) &&
		r.FailureCount >= f.MinFailures &&
		(f.MaxFailures == nil || r.FailureCount <= *f.MaxFailures) &&
		r.Priority >= f.MinPriority &&
		(f.MaxPriority == nil || r.Priority <= *f.MaxPriority) &&
		among(f.Objects, r.ObjectPHID) &&
		among(f.Containers, r.ContainerPHID)
}

// Stats implements tasks.Operator. The model counts without a bound.
func (m *Memory) Stats(ctx context.Context) (tasks.Stats, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return tasks.Stats{}, err
	}
	defer leave()
	stats := tasks.Stats{Now: m.clock()}
	classes := map[string]tasks.ClassStats{}
	for _, task := range m.active {
		class := classes[task.Class]
		class.Class = task.Class
		class.Active++
		if task.Expires != nil && *task.Expires >= stats.Now {
			if leased(task.Place) {
				class.Leased++
			} else {
				class.Waiting++
			}
		}
		if task.FailureCount > 0 {
			class.Failing++
		}
		classes[task.Class] = class
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		stats.Classes = append(stats.Classes, classes[name])
	}
	return stats, nil
}

// leased reports whether somebody holds or held the row and has not settled.
func leased(p tasks.Place) bool {
	return p.Owner != nil && *p.Owner != "" && !tasks.Nobody(*p.Owner)
}

// Cancel implements tasks.Operator.
func (m *Memory) Cancel(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return m.change(ctx, ids, func(task tasks.Task) error {
		task.Place = m.freed()
		m.archive(task, tasks.ResultCancelled, 0)
		return nil
	})
}

// freed is the place of a row whose lease was broken.
func (m *Memory) freed() tasks.Place {
	now := m.clock()
	return tasks.Place{Expires: &now}
}

// Free implements tasks.Operator.
func (m *Memory) Free(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
	return m.change(ctx, ids, func(task tasks.Task) error {
		if task.Owner == nil {
			return tasks.ErrNotLeased
		}
		task.Place = m.freed()
		m.save(task)
		return nil
	})
}

// Delay implements tasks.Operator. A task that was tried before keeps its
// owner in parentheses, and with it what it counts.
func (m *Memory) Delay(ctx context.Context, ids []int64, until int64) ([]tasks.Changed, error) {
	if until < 0 || until > math.MaxUint32 {
		return nil, fmt.Errorf("delay until %d: %w", until, tasks.ErrInvalid)
	}
	return m.change(ctx, ids, func(task tasks.Task) error {
		switch {
		case leased(task.Place):
			return tasks.ErrLeased
		case task.Owner == nil || *task.Owner == "":
			task.Place = place(tasks.DelayOwner, until)
		default:
			task.Place = place(*task.Owner, until)
		}
		m.save(task)
		return nil
	})
}

// Priority implements tasks.Operator.
func (m *Memory) Priority(ctx context.Context, ids []int64, priority int) ([]tasks.Changed, error) {
	if priority < 1 || priority > math.MaxUint32 {
		return nil, fmt.Errorf("priority %d: %w", priority, tasks.ErrInvalid)
	}
	return m.change(ctx, ids, func(task tasks.Task) error {
		if task.Priority == priority {
			return tasks.ErrUnchanged
		}
		task.Priority = priority
		m.save(task)
		return nil
	})
}

func (m *Memory) save(task tasks.Task) {
	task.DateModified = m.clock()
	m.active[task.ID] = task
}

// change applies an operation that archived tasks refuse.
func (m *Memory) change(ctx context.Context, ids []int64, apply func(tasks.Task) error) ([]tasks.Changed, error) {
	return m.each(ctx, ids, func(id int64) (string, error) {
		if task, ok := m.active[id]; ok {
			return task.Class, apply(task)
		}
		if record, ok := m.archived[id]; ok {
			return record.Class, tasks.ErrArchived
		}
		return "", tasks.ErrNotFound
	})
}

func (m *Memory) each(ctx context.Context, ids []int64, apply func(id int64) (class string, err error)) ([]tasks.Changed, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	changed := make([]tasks.Changed, len(ids))
	for i, id := range ids {
		changed[i].ID = id
		if changed[i].Class, err = apply(id); err != nil {
			changed[i].Err = fmt.Errorf("task %d: %w", id, err)
		}
	}
	return changed, nil
}

// Retry implements tasks.Operator.
func (m *Memory) Retry(ctx context.Context, ids []int64, repeat bool) ([]tasks.Changed, error) {
	return m.each(ctx, ids, func(id int64) (string, error) {
		if task, ok := m.active[id]; ok {
			return task.Class, tasks.ErrActive
		}
		record, ok := m.archived[id]
		switch {
		case !ok:
			return "", tasks.ErrNotFound
		case record.Result == tasks.ResultSuccess && !repeat:
			return record.Class, tasks.ErrSucceeded
		}
		delete(m.archived, id)
		task := record.Task
		task.Place = tasks.Place{Expires: new(int64)}
		task.FailureCount = 0
		m.save(task)
		return task.Class, nil
	})
}

// Awaken implements tasks.Operator. dateModified stays, as in Phorge.
func (m *Memory) Awaken(ctx context.Context, ids []int64) (int, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	count, past := 0, m.clock()-awakened
	for _, id := range ids {
		task, yielded := m.held(id, tasks.YieldOwner)
		if yielded && task.FailureCount == 0 && value(task.Expires) > past {
			task.Place = place(tasks.YieldOwner, past)
			m.active[id] = task
			count++
		}
	}
	return count, nil
}
