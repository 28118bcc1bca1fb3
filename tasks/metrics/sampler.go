package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// sampleEvery is how old a sample may be, and sampleTime how long a store may
	// take for one.
	sampleEvery = 15 * time.Second
	sampleTime  = 20 * time.Second

	// scrapeTime is how long a scrape waits for a sample that is under way.
	// Prometheus gives up on a scrape after ten seconds.
	scrapeTime = 3 * time.Second

	// oldestRows bounds the tasks that are looked at to find the one that has been
	// due for longest: those with the lowest ids.
	oldestRows = 1000
)

// sample is what a look at a queue found.
type sample struct {
	tasks.Stats
	oldest int64 // for how long the oldest due task has been due, in seconds
	taken  time.Time
}

// sampler looks at a queue at most once in a while.
type sampler struct {
	mu     sync.Mutex
	store  tasks.Operator // nil: there is nothing to look at
	last   *sample        // that worked
	failed bool           // the latest did not
	under  chan struct{}  // closed when the look under way is over; nil: there is none
	tried  time.Time      // when it began
	ctx    context.Context
	end    context.CancelFunc
	busy   sync.WaitGroup
}

func newSampler() *sampler {
	s := &sampler{}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

func (s *sampler) of(store tasks.Operator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
}

// close ends the look that is under way and lets no other begin.
func (s *sampler) close() {
	s.mu.Lock()
	s.store = nil
	s.end()
	s.mu.Unlock()
	s.busy.Wait()
}

// begin begins a look when it is time.
func (s *sampler) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil && s.under == nil && (s.tried.IsZero() || now.Sub(s.tried) >= sampleEvery) {
		done := make(chan struct{})
		s.under, s.tried = done, now
		store := s.store
		s.busy.Go(func() { s.look(store, done) })
	}
}

// get answers the latest sample that worked, nil when there was none, and
// whether the store answers. It waits for a look under way until ctx ends. There
// is nothing to look at when known is false.
func (s *sampler) get(ctx context.Context) (last *sample, up, known bool) {
	s.mu.Lock()
	under, known := s.under, s.store != nil
	s.mu.Unlock()
	late := false
	if under != nil {
		select {
		case <-under:
		case <-ctx.Done():
			late = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.last != nil && !s.failed && !late, known
}

func (s *sampler) look(store tasks.Operator, done chan struct{}) {
	ctx, cancel := context.WithTimeout(s.ctx, sampleTime)
	defer cancel()
	found, err := lookAt(ctx, store)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under, s.failed = nil, err != nil
	if err == nil {
		s.last = found
	}
	close(done)
}

// lookAt makes two bounded reads.
func lookAt(ctx context.Context, store tasks.Operator) (*sample, error) {
	stats, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	page, err := store.List(ctx, tasks.Filter{State: tasks.Active, Limit: oldestRows, WithoutData: true})
	if err != nil {
		return nil, err
	}
	found := &sample{Stats: stats, taken: time.Now()}
	for _, r := range page.Tasks {
		if r.Expires == nil && r.Owner != nil || r.Expires != nil && *r.Expires >= stats.Now {
			continue // it waits, or somebody has it
		}
		found.oldest = max(found.oldest, stats.Now-r.DueSince(r.Place))
	}
	return found, nil
}
