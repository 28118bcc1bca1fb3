package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/phorge-gantry/gantry/tasks"
)

// call is a method of tasks.Store that the runtime uses.
type call string

const (
	lease  call = "lease"
	renew  call = "renew"
	settle call = "settle"
)

var errDown = fmt.Errorf("connection refused: %w", tasks.ErrUnavailable)

// faulty is a store that fails while it is told to, and notes what it is asked.
type faulty struct {
	tasks.Store

	// Put in place of a call, when set before the runtime starts.
	lease  func(context.Context, tasks.LeaseRequest) ([]tasks.Task, error)
	settle func(context.Context, []tasks.Settlement) ([]tasks.Settled, error)

	mu       sync.Mutex
	down     map[call]bool
	tried    map[call]int
	worked   []call // since the last fail or mend
	requests []tasks.LeaseRequest
	pending  chan struct{} // renewals hang until it is closed, when set
}

func newFaulty(store tasks.Store) *faulty {
	return &faulty{Store: store, down: map[call]bool{}, tried: map[call]int{}}
}

// fail makes calls fail, all of them when none is named.
func (f *faulty) fail(calls ...call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(calls) == 0 {
		calls = []call{lease, renew, settle}
	}
	for _, c := range calls {
		f.down[c] = true
	}
	f.worked = nil
}

// mend makes every call work again.
func (f *faulty) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.down)
	f.worked = nil
}

// hang makes renewals hang until the function it answers is called.
func (f *faulty) hang() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = make(chan struct{})
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(f.pending)
		f.pending = nil
	})
}

// count answers how often a call was tried.
func (f *faulty) count(c call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tried[c]
}

// history answers the calls that worked since the last fail or mend.
func (f *faulty) history() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.worked)
}

// asked answers the lease requests that worked.
func (f *faulty) asked() []tasks.LeaseRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *faulty) enter(c call) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried[c]++
	if f.down[c] {
		return errDown
	}
	f.worked = append(f.worked, c)
	return nil
}

func (f *faulty) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := f.enter(lease); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.requests = append(f.requests, req)
	f.mu.Unlock()
	if f.lease != nil {
		return f.lease(ctx, req)
	}
	return f.Store.Lease(ctx, req)
}

func (f *faulty) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	f.mu.Lock()
	pending := f.pending
	f.mu.Unlock()
	if pending != nil {
		<-pending
	}
	if err := f.enter(renew); err != nil {
		return nil, err
	}
	return f.Store.Renew(ctx, renewals)
}

func (f *faulty) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if err := f.enter(settle); err != nil {
		return nil, err
	}
	if f.settle != nil {
		return f.settle(ctx, settlements)
	}
	return f.Store.Settle(ctx, settlements)
}
