package queueapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// batchTasks and batchBytes bound what one commit holds.
	batchTasks = 500
	batchBytes = 4 << 20
)

// gatherer makes one commit of the enqueues that arrive while the one before
// them is under way. Nobody waits for others to come: an enqueue that finds no
// commit under way begins one at once.
type gatherer struct {
	store   tasks.Service
	timeout time.Duration

	mu      sync.Mutex
	pending []*gathered
	busy    sync.WaitGroup
	running bool
}

// gathered is one enqueue.
type gathered struct {
	news []tasks.NewTask
	ids  []int64
	now  int64
	err  error
	done chan struct{}
}

// enqueue queues tasks and answers their ids and the time by the store's clock.
func (g *gatherer) enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, int64, error) {
	one := &gathered{news: news, done: make(chan struct{})}
	g.mu.Lock()
	g.pending = append(g.pending, one)
	if !g.running {
		g.running = true
		g.busy.Go(g.run)
	}
	g.mu.Unlock()
	select {
	case <-one.done:
		return one.ids, one.now, one.err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// wait returns when no commit is under way.
func (g *gatherer) wait() { g.busy.Wait() }

// run commits until nothing is pending.
func (g *gatherer) run() {
	for {
		batch := g.next()
		if len(batch) == 0 {
			return
		}
		g.commit(batch)
		for _, one := range batch {
			close(one.done)
		}
	}
}

// next takes what one commit holds, at least one enqueue.
func (g *gatherer) next() (batch []*gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count, bytes := 0, 0
	for len(g.pending) > 0 {
		one := g.pending[0]
		count += len(one.news)
		for _, n := range one.news {
			bytes += len(n.Data)
		}
		if len(batch) > 0 && (count > batchTasks || bytes > batchBytes) {
			return batch
		}
		batch, g.pending = append(batch, one), g.pending[1:]
	}
	g.running = len(batch) > 0
	return batch
}

// commit queues a batch; when the store refuses one of its tasks, each enqueue
// alone, so that it is refused to whom it belongs.
func (g *gatherer) commit(batch []*gathered) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	var news []tasks.NewTask
	for _, one := range batch {
		news = append(news, one.news...)
	}
	ids, err := g.store.Enqueue(ctx, news)
	if len(batch) > 1 && (errors.Is(err, tasks.ErrInvalid) || errors.Is(err, tasks.ErrTooLarge)) {
		for i := range batch {
			g.commit(batch[i : i+1])
		}
		return
	}
	var now int64
	if err == nil {
		now, err = g.store.Now(ctx)
	}
	for _, one := range batch {
		one.err, one.now = err, now
		if err == nil {
			one.ids, ids = ids[:len(one.news)], ids[len(one.news):]
		}
	}
}
