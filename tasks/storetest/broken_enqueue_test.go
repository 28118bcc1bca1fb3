package storetest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

var enqueueFaults = []fault{
	{
		name: "drops a task", row: "ids ascend in the order of the tasks and are never used twice", rule: TaskLost,
		store: func(b *broken) {
			b.enqueue = func(news []tasks.NewTask) ([]int64, error) {
				ids, err := b.Memory.Enqueue(context.Background(), news)
				if len(ids) > 1 {
					delete(b.active, ids[len(ids)-1])
				}
				return ids, err
			}
		},
	},
	{
		name: "queues what can be stored of a batch that is refused", row: "B18 one task that cannot be stored refuses the whole batch",
		store: func(b *broken) {
			b.enqueue = func(news []tasks.NewTask) (ids []int64, err error) {
				for _, n := range news {
					one, err := b.Memory.Enqueue(context.Background(), []tasks.NewTask{n})
					if err != nil {
						return nil, err
					}
					ids = append(ids, one...)
				}
				return ids, nil
			}
		},
	},
	{
		name: "decodes data and encodes it again", row: "B18 B21 data is stored and leased byte for byte",
		store: func(b *broken) {
			b.enqueueAs(func(n *tasks.NewTask) {
				var data any
				if json.Unmarshal(n.Data, &data) == nil {
					n.Data, _ = json.Marshal(data)
				}
			})
		},
	},
	{
		name: "cuts long data", row: "large data and large batches arrive whole", rule: "", unseen: "they queue nothing long",
		store: func(b *broken) {
			b.enqueueAs(func(n *tasks.NewTask) {
				if len(n.Data) > 65535 {
					n.Data = append(n.Data[:65534:65534], '"')
				}
			})
		},
	},
	{
		name: "stores other data", row: "B18 B21 data is stored and leased byte for byte", rule: TaskChanged,
		store: func(b *broken) { b.enqueueAs(func(n *tasks.NewTask) { n.Data = []byte("[]") }) },
	},
	{
		name: "forgets the objectPHID", row: "a queued task is a row that was never leased",
		store: func(b *broken) { b.enqueueAs(func(n *tasks.NewTask) { n.ObjectPHID = nil }) },
	},
	{
		name: "forgets the priority", row: "a priority is kept",
		store: func(b *broken) { b.enqueueAs(func(n *tasks.NewTask) { n.Priority = nil }) },
	},
	{
		name: "ignores delayUntil", row: "a delayed task waits as (delay) until its epoch has passed",
		store: func(b *broken) { b.enqueueAs(func(n *tasks.NewTask) { n.DelayUntil = 0 }) },
	},
	{
		name: "queues an empty batch as one task", row: "queuing nothing does nothing",
		store: func(b *broken) {
			b.enqueue = func(news []tasks.NewTask) ([]int64, error) {
				if len(news) == 0 {
					news = []tasks.NewTask{task("A")}
				}
				return b.Memory.Enqueue(context.Background(), news)
			}
		},
	},
}

// enqueueAs changes what is queued.
func (b *broken) enqueueAs(change func(*tasks.NewTask)) {
	b.enqueue = func(news []tasks.NewTask) ([]int64, error) {
		changed := slices.Clone(news)
		for i := range changed {
			if err := news[i].Validate(); err != nil {
				return nil, err
			}
			change(&changed[i])
		}
		return b.Memory.Enqueue(context.Background(), changed)
	}
}
