package queueapi

import (
	"fmt"
)

// cancel archives a task as cancelled, as `bin/worker cancel`, leased or not.
func cancel(c *call) (answer, error) {
	var in struct {
		TaskID number `json:"taskID"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if in.TaskID < 1 {
		return answer{}, badRequest("taskID must be the id of a task")
	}
	ctx, done := c.store()
	defer done()
	changed, err := c.queue.Store.Cancel(ctx, []int64{int64(in.TaskID)})
	if err == nil {
		err = changed[0].Err
	}
	if err != nil {
		return answer{}, err
	}
	record, err := c.queue.Store.Get(ctx, int64(in.TaskID))
	if err != nil {
		return answer{}, fmt.Errorf("task %d is cancelled; read it: %w", in.TaskID, err)
	}
	return answer{Data: view(record.Task, record.Archive)}, nil
}

// awaken makes yielded tasks due, as PhabricatorWorker::awakenTaskIDs.
func awaken(c *call) (answer, error) {
	var in struct {
		TaskIDs []number `json:"taskIDs"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if len(in.TaskIDs) > c.MaxTasks {
		return answer{}, tooMany("taskIDs", c.MaxTasks)
	}
	ids := make([]int64, len(in.TaskIDs))
	for i, id := range in.TaskIDs {
		if id < 1 {
			return answer{}, badRequest("taskIDs must be ids of tasks")
		}
		ids[i] = int64(id)
	}
	n := 0
	if len(ids) > 0 {
		ctx, done := c.store()
		defer done()
		var err error
		if n, err = c.queue.Store.Awaken(ctx, ids); err != nil {
			return answer{}, err
		}
		c.queue.room.wakeAll()
	}
	return answer{Data: map[string]int{"awakened": n}}, nil
}
