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

	// manyTasks are a commit of their own: company makes it no cheaper.
	manyTasks = 100

	// maxLinger bounds how long a commit waits for company.
	maxLinger = 2 * time.Millisecond

	// clockLife is how long the time of the store is taken to go on from where it
	// was read.
	clockLife = time.Second
)

// gatherer makes one commit of the enqueues that arrive while the one before
// them is under way. An enqueue that finds no commit under way begins one at
// once. Whoever was answered by the last commit may come back: the next one waits
// until as many have come as came lately, for half as long as the last one took,
// because a commit for half of them would let the others wait for all of it.
type gatherer struct {
	store   tasks.Service
	timeout time.Duration

	mu      sync.Mutex
	pending []*gathered
	busy    sync.WaitGroup
	running bool
	company int           // as many as are waited for
	there   chan struct{} // they have come

	clock, read time.Time // of the store, and when it was read here
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
	if len(news) < manyTasks {
		g.add(one)
	} else {
		g.busy.Go(func() { g.commit([]*gathered{one}) })
	}
	select {
	case <-one.done:
		return one.ids, one.now, one.err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

func (g *gatherer) add(one *gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, one)
	switch {
	case !g.running:
		g.running = true
		g.busy.Go(g.run)
	case len(g.pending) == g.company:
		close(g.there)
		g.company = 0
	}
}

// wait returns when no commit is under way.
func (g *gatherer) wait() { g.busy.Wait() }

// run commits until nothing is pending.
func (g *gatherer) run() {
	for batch := g.next(); len(batch) > 0; batch = g.next() {
		began := time.Now()
		g.commit(batch)
		g.linger(len(batch), min(time.Since(began)/2, maxLinger))
	}
}

// linger waits for company after a commit of so many.
func (g *gatherer) linger(answered int, most time.Duration) {
	g.mu.Lock()
	lately := answered + len(g.pending)
	if lately == 1 {
		g.mu.Unlock()
		return // there is one caller
	}
	there := make(chan struct{})
	g.company, g.there = lately, there
	g.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-there:
	case <-timer.C:
	}
}

// next takes what one commit holds, at least one enqueue.
func (g *gatherer) next() (batch []*gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.company = 0
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
		now = g.now(ctx)
	}
	for _, one := range batch {
		one.err, one.now = err, now
		if err == nil {
			one.ids, ids = ids[:len(one.news)], ids[len(one.news):]
		}
		close(one.done)
	}
}

// now answers the time by the store's clock, which it reads once in a while. When
// that cannot be read it is the one of the host: what was queued is queued, and
// whoever is told something else queues it again.
func (g *gatherer) now(ctx context.Context) int64 {
	g.mu.Lock()
	clock, age := g.clock, time.Since(g.read)
	g.mu.Unlock()
	if clock.IsZero() || age > clockLife {
		epoch, err := g.store.Now(ctx)
		if err != nil {
			return time.Now().Unix()
		}
		clock, age = time.Unix(epoch, 0), 0
		g.mu.Lock()
		g.clock, g.read = clock, time.Now()
		g.mu.Unlock()
	}
	return clock.Add(age).Unix()
}
