package queueapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// newTask is a task as callers queue it. Its data is text, the bytes to be
// stored; for PHP they are JSON.
type newTask struct {
	Class         string  `json:"taskClass"`
	Data          *string `json:"data"`
	Priority      *number `json:"priority"`
	ObjectPHID    *string `json:"objectPHID"`
	ContainerPHID *string `json:"containerPHID"`
	DelayUntil    number  `json:"delayUntil"`
}

// task answers the task, or says what is wrong with it.
func (n newTask) task() (tasks.NewTask, error) {
	t := tasks.NewTask{Class: n.Class, ObjectPHID: n.ObjectPHID, ContainerPHID: n.ContainerPHID, DelayUntil: int64(n.DelayUntil)}
	if n.Data == nil {
		return t, badRequest("data is missing: the text to be stored, as a string")
	}
	t.Data = []byte(*n.Data)
	if n.Priority != nil {
		t.Priority = new(int(*n.Priority))
	}
	if err := t.Validate(); err != nil {
		return t, badRequest("%s", strings.TrimPrefix(err.Error(), tasks.ErrInvalid.Error()+": "))
	}
	return t, nil
}

// newTasks reads tasks; what names them in errors.
func (c *call) newTasks(list []newTask, what string) ([]tasks.NewTask, error) {
	if len(list) > c.MaxTasks {
		return nil, tooMany(what, c.MaxTasks)
	}
	news := make([]tasks.NewTask, len(list))
	for i, n := range list {
		var err error
		if news[i], err = n.task(); err != nil {
			return nil, badRequest("%s %d: %s", what, i, failureOf(err).Message)
		}
	}
	return news, nil
}

func tooMany(what string, limit int) *failure {
	return refuse(413, codeTooLarge, "%s: there are more than %d", what, limit)
}

// enqueue queues one task, or all the tasks of a list or none of them.
func enqueue(c *call) (answer, error) {
	body, err := c.body()
	if err != nil {
		return answer{}, err
	}
	many := bytes.HasPrefix(bytes.TrimSpace(body), []byte("["))
	list := make([]newTask, 1)
	if many {
		var items []json.RawMessage
		if err := unmarshal(body, &items); err != nil {
			return answer{}, err
		}
		list, err = each[newTask](items, "task", c.MaxTasks)
	} else {
		err = unmarshal(bytes.TrimSpace(append(body, ' ')), &list[0])
	}
	if err != nil {
		return answer{}, err
	}
	news, err := c.newTasks(list, "task")
	if err != nil {
		return answer{}, err
	}
	once, err := c.once()
	if err != nil {
		return answer{}, err
	}
	created, err := c.create(news, once)
	if err != nil {
		return answer{}, err
	}
	a := answer{Data: created.views, Duplicate: created.duplicate}
	if !many {
		a.Data = created.views[0]
	}
	return a, nil
}

// each reads the items of a list, and says which one cannot be read.
func each[T any](items []json.RawMessage, what string, limit int) ([]T, error) {
	if len(items) > limit {
		return nil, tooMany(what, limit)
	}
	list := make([]T, len(items))
	for i, item := range items {
		if err := unmarshal(item, &list[i]); err != nil {
			return nil, badRequest("%s %d: %s", what, i, failureOf(err).Message)
		}
	}
	return list, nil
}

// created is what an enqueue came to.
type created struct {
	views     []taskView
	duplicate bool
}

// once answers the idempotency key of the call, nil when it has none.
func (c *call) once() (*tasks.Once, error) {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return nil, nil
	}
	once := tasks.Once{Key: strings.Join(keys, ","), Keep: c.KeepKeys}
	if err := once.Check(); err != nil {
		return nil, badRequest("Idempotency-Key must have 1 to %d characters of printable ASCII without spaces", tasks.MaxKey)
	}
	return &once, nil
}

// create queues tasks, once where there is a key, and wakes who waits for them.
func (c *call) create(news []tasks.NewTask, once *tasks.Once) (created, error) {
	if len(news) == 0 {
		return created{views: []taskView{}}, nil
	}
	end := c.traced(news)
	made, err := c.write(news, once)
	ids := make([]int64, len(made.views))
	for i, v := range made.views {
		ids[i] = v.ID
	}
	end(ids, err)
	return made, err
}

func (c *call) write(news []tasks.NewTask, once *tasks.Once) (created, error) {
	ctx, cancel := c.store()
	defer cancel()
	if once == nil {
		ids, now, err := c.queue.gather.enqueue(ctx, news)
		if err != nil {
			return created{}, err
		}
		c.queue.room.wake(news)
		return created{views: viewsOf(news, ids, now)}, nil
	}
	ids, duplicate, err := c.queue.Store.EnqueueOnce(ctx, *once, news)
	if err != nil {
		return created{}, err
	}
	if duplicate {
		views, err := c.viewsNow(ctx, news, ids)
		return created{views, true}, err
	}
	c.queue.room.wake(news)
	return created{views: viewsOf(news, ids, c.queue.gather.now(ctx))}, nil
}

// viewsOf shows tasks that were queued a moment ago, without reading them back.
// The dates are those of the answer.
func viewsOf(news []tasks.NewTask, ids []int64, now int64) []taskView {
	views := make([]taskView, len(news))
	for i, n := range news {
		t := tasks.Task{
			ID: ids[i], Class: n.Class, Priority: tasks.PriorityDefault, ObjectPHID: n.ObjectPHID, ContainerPHID: n.ContainerPHID,
			DateCreated: now, DateModified: now,
		}
		if n.Priority != nil {
			t.Priority = *n.Priority
		}
		if n.DelayUntil > 0 {
			t.Place = tasks.Place{Owner: new(tasks.DelayOwner), Expires: new(n.DelayUntil)}
		}
		views[i] = view(t, nil)
	}
	return views
}

// viewsNow shows tasks that were queued before as they stand. One that was
// removed from the archive meanwhile is shown as it was queued.
func (c *call) viewsNow(ctx context.Context, news []tasks.NewTask, ids []int64) ([]taskView, error) {
	views := viewsOf(news, ids, 0)
	for i, id := range ids {
		record, err := c.queue.Store.Get(ctx, id)
		switch {
		case err == nil:
			views[i] = view(record.Task, record.Archive)
		case !errors.Is(err, tasks.ErrNotFound):
			return nil, err
		}
	}
	return views, nil
}
