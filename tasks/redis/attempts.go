package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

// attempt is what is kept of a tasks.Attempt beside what the script knows.
type attempt struct {
	Route    string `json:"route"`
	Category string `json:"category"`
	Reason   string `json:"reason"`
	Host     string `json:"host,omitempty"`
	Owner    string `json:"leaseOwner,omitempty"`
	Duration int64  `json:"durationUs"`
}

func attemptText(a tasks.Attempt) string {
	text, err := json.Marshal(attempt{a.Route, a.Category, a.Reason, a.Host, a.Owner, a.Duration})
	if err != nil {
		panic(err) // they are texts and a number
	}
	return string(text)
}

// lostAttempt is that of a task whose holder died; the script adds who that was.
var lostAttempt = attemptText(tasks.LostAttempt(tasks.Task{Place: tasks.Place{Owner: new(string)}}, tasks.Owner{}, 0))

// Attempts implements tasks.Service. They are kept as long as their task.
func (s *Store) Attempts(ctx context.Context, taskID int64, limit int) ([]tasks.Attempt, error) {
	if limit <= 0 {
		return nil, nil
	}
	id := fmt.Sprint(taskID)
	var class *goredis.StringCmd
	var kept *goredis.StringSliceCmd
	_, err := s.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		class = p.HGet(ctx, s.key("task:"+id), "taskClass")
		kept = p.LRange(ctx, s.key("attempts:"+id), 0, int64(limit)-1)
		return nil
	})
	if errors.Is(err, goredis.Nil) {
		return nil, nil // nobody knows the task
	}
	if err != nil {
		return nil, fmt.Errorf("read the attempts of task %d: %w", taskID, s.explain(err))
	}
	attempts := make([]tasks.Attempt, len(kept.Val()))
	for i, text := range kept.Val() {
		if err := json.Unmarshal([]byte(text), &attempts[i]); err != nil {
			return nil, fmt.Errorf("read the attempts of task %d: %w", taskID, err)
		}
		attempts[i].TaskID, attempts[i].Class = taskID, class.Val()
	}
	return attempts, nil
}
