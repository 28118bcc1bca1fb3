package redis

import (
	"context"
	"slices"
	"sync"

	"github.com/phorge-gantry/gantry/tasks"
)

// gatherer lets small calls that queue at the same moment share a script: while
// some are under way, those that come meanwhile gather, and one of them then queues
// them all.
type gatherer struct {
	turn chan struct{} // held by whoever queues for others

	mu      sync.Mutex
	waiting []*order
}

// order is what one call queues.
type order struct {
	ctx   context.Context
	news  []tasks.NewTask
	ids   []int64
	taken chan struct{} // closed when somebody queues it
	done  chan error
}

const (
	// gatherTurns is how many scripts are under way at the same time: one runs, one
	// is on its way, and one waits for the disk with the others.
	gatherTurns = 3

	// gatherRows is how many tasks a call has that goes alone, and how many go
	// together.
	gatherRows = 100
)

// gather queues a few tasks together with those of other calls.
func (s *Store) gather(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &order{ctx: ctx, news: news, taken: make(chan struct{}), done: make(chan error, 1)}
	g := &s.gatherer
	g.mu.Lock()
	g.waiting = append(g.waiting, o)
	g.mu.Unlock()
	for turn, taken, ended := g.turn, o.taken, ctx.Done(); ; {
		select {
		case err := <-o.done:
			return o.ids, err
		case <-taken:
			turn, taken = nil, nil // who is taken needs no turn
		case turn <- struct{}{}:
			s.queueGathered()
		case <-ended:
			if g.withdraw(o) {
				return nil, ctx.Err()
			}
			ended = nil // it is being queued, and the answer must be the truth
		}
	}
}

// withdraw takes an order back that nobody queues yet.
func (g *gatherer) withdraw(o *order) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, o)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// take answers the orders that are queued next, together.
func (g *gatherer) take() (orders []*order, news []tasks.NewTask) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes := 0
	for len(orders) < len(g.waiting) && len(news) < gatherRows && bytes < maxBytes/2 {
		o := g.waiting[len(orders)]
		orders, news = append(orders, o), append(news, o.news...)
		close(o.taken)
		for _, n := range o.news {
			bytes += len(n.Data)
		}
	}
	g.waiting = slices.Delete(g.waiting, 0, len(orders))
	return orders, news
}

// queueGathered queues what waits, and gives the turn back.
func (s *Store) queueGathered() {
	defer func() { <-s.gatherer.turn }()
	orders, news := s.gatherer.take()
	if len(orders) == 0 {
		return
	}
	ctx := context.Background() // nobody's end is the others'
	if len(orders) == 1 {
		ctx = orders[0].ctx
	}
	ids, _, err := s.enqueue(ctx, tasks.Once{}, news)
	for _, o := range orders {
		if err == nil {
			o.ids, ids = slices.Clip(ids[:len(o.news)]), ids[len(o.news):]
		}
		o.done <- err
	}
}
