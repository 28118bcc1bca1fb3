package redis

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// maxData bounds the data of one task, in bytes. Redis could hold more, but
	// every process that looks at the task holds all of it in memory.
	maxData = 64 << 20

	// maxTasks and maxBytes bound one call: a server takes a million arguments, and
	// by default no more than a gigabyte from one client.
	maxTasks = 50_000
	maxBytes = 256 << 20
)

// Enqueue implements tasks.Store. Ids ascend in the order of the calls.
func (s *Store) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if len(news) == 0 {
		return nil, nil
	}
	if err := validate(news); err != nil {
		return nil, err
	}
	if len(news) < gatherRows {
		return s.gather(ctx, news)
	}
	ids, _, err := s.enqueue(ctx, tasks.Once{}, news)
	return ids, err
}

// EnqueueOnce implements tasks.Service.
func (s *Store) EnqueueOnce(ctx context.Context, once tasks.Once, news []tasks.NewTask) (ids []int64, duplicate bool, err error) {
	if err := once.Check(); err != nil {
		return nil, false, err
	}
	if err := validate(news); err != nil {
		return nil, false, err
	}
	return s.enqueue(ctx, once, news)
}

// enqueue queues tasks that are valid, under a key when there is one.
func (s *Store) enqueue(ctx context.Context, once tasks.Once, news []tasks.NewTask) (ids []int64, duplicate bool, err error) {
	args := make([]any, 0, 5+6*len(news))
	args = append(args, once.Key)
	if once.Key == "" {
		args = append(args, "", 0)
	} else {
		hash := tasks.ContentHash(news)
		args = append(args, base64.RawStdEncoding.EncodeToString(hash[:]), min(max(1, int64(once.Keep/time.Second)), maxKeep))
	}
	args = append(args, len(news), tasks.PriorityDefault)
	answer, err := s.runOnce(ctx, enqueueScript, appendTasks(args, news)...)
	if err != nil {
		return nil, false, fmt.Errorf("queue %d tasks: %w", len(news), err)
	}
	reply := replied(answer)
	how := reply.text()
	if how == "reused" {
		return nil, false, fmt.Errorf("queue %d tasks once: %w: %q", len(news), tasks.ErrKeyReused, once.Key)
	}
	return idsFrom(reply.number(), len(news)), how == "duplicate", nil
}

// maxKeep is how long a key is kept at most, in seconds: a hundred years.
const maxKeep = 100 * 366 * 24 * 60 * 60

// validate refuses what the server cannot hold, or should not.
func validate(news []tasks.NewTask) error {
	if len(news) > maxTasks {
		return fmt.Errorf("%w: %d tasks in one call; queue at most %d at once", tasks.ErrTooLarge, len(news), maxTasks)
	}
	bytes := 0
	for _, n := range news {
		if err := n.Validate(); err != nil {
			return err
		}
		if len(n.Data) > maxData {
			return fmt.Errorf("%w: task of class %q: data has %d bytes and the limit is %d; store the content elsewhere and queue a reference",
				&tasks.SizeError{Size: len(n.Data), Limit: maxData}, n.Class, len(n.Data), maxData)
		}
		if bytes += len(n.Data); bytes > maxBytes {
			return fmt.Errorf("%w: the data of %d tasks has more than %d bytes; queue fewer at once", tasks.ErrTooLarge, len(news), maxBytes)
		}
	}
	return nil
}

// appendTasks describes tasks as the function insert of lua/queue.lua reads them.
func appendTasks(args []any, news []tasks.NewTask) []any {
	for _, n := range news {
		priority, delay := "", ""
		if n.Priority != nil {
			priority = strconv.Itoa(*n.Priority)
		}
		if n.DelayUntil > 0 {
			delay = strconv.FormatInt(n.DelayUntil, 10)
		}
		head := len(args) + 3
		args = append(args, n.Class, priority, delay, 0, "data", n.Data)
		if delay != "" {
			args = append(args, "leaseOwner", tasks.DelayOwner, "leaseExpires", delay)
		}
		if n.ObjectPHID != nil {
			args = append(args, "objectPHID", *n.ObjectPHID)
		}
		if n.ContainerPHID != nil {
			args = append(args, "containerPHID", *n.ContainerPHID)
		}
		if n.Traceparent != "" {
			args = append(args, "traceparent", n.Traceparent)
		}
		args[head] = len(args) - head - 1
	}
	return args
}

func idsFrom(first int64, n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = first + int64(i)
	}
	return ids
}
