package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// enqueue queues everything, in calls with a key each: one that an earlier demo
// made, and perhaps had no time to write down, answers the ids of that time.
func (d *demo) enqueue(ctx context.Context, live *demoLine) error {
	pause, err := json.Marshal(demoWork{Milliseconds: demoPause})
	if err != nil {
		return err
	}
	routes := []struct {
		key, class string
		count      int
	}{{"go", demoGoClass, d.plan}, {"php", demoPHPClass, d.plan / 10}}
	if d.run.pool == nil {
		routes = routes[:1]
	}
	for _, route := range routes {
		for at := 0; at < route.count; at += demoBatch {
			batch := make([]tasks.NewTask, min(demoBatch, route.count-at))
			for i := range batch {
				batch[i] = tasks.NewTask{Class: route.class, Data: pause}
			}
			ids, err := d.enqueueOnce(ctx, fmt.Sprintf("%s-%d", route.key, at), batch)
			if err != nil {
				return err
			}
			d.flood = append(d.flood, ids...)
			if err := live.tell(time.Now()); err != nil {
				return err
			}
		}
	}
	var chosen []tasks.NewTask
	for _, c := range demoChosen {
		chosen = append(chosen, tasks.NewTask{Class: c.class, Data: []byte(c.data)})
	}
	d.chosen, err = d.enqueueOnce(ctx, "chosen", chosen)
	return err
}

func (d *demo) enqueueOnce(ctx context.Context, key string, news []tasks.NewTask) ([]int64, error) {
	ids, duplicate, err := d.queue.EnqueueOnce(ctx, tasks.Once{Key: key, Keep: demoKeep}, news)
	if err != nil {
		return nil, err
	}
	d.run.runtime.Wake()
	if _, noted := d.queued[key]; noted {
		return ids, nil
	}
	by := os.Getpid()
	if duplicate {
		by = d.demos[len(d.demos)-2] // or the one after it would have noted it
	}
	return ids, d.note("queued %d %s %d", by, key, len(ids))
}

// done reports whether nothing is left of what runs here but what waits for
// long.
func (d *demo) done(ctx context.Context) (bool, error) {
	stats, err := d.queue.Stats(ctx)
	if err != nil {
		return false, err
	}
	for _, class := range stats.Classes {
		if d.runs(class.Class) && class.Active > class.Waiting {
			return false, nil
		}
	}
	left := 0
	err = d.each(ctx, tasks.Active, func(r tasks.Record) error {
		if d.runs(r.Class) && r.ID != d.chosen[2] {
			left++
		}
		return nil
	})
	return left == 0, err
}

// runs reports whether tasks of a class run in this demo.
func (d *demo) runs(class string) bool {
	return class == demoGoClass || class == demoPHPClass && d.run.pool != nil
}
