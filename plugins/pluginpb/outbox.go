package pluginpb

import (
	"runtime"
	"sync"
)

// Outbox gathers what many goroutines send, so that the one goroutine that
// owns the stream can put it all into one message. While a message is being
// written the next one fills, so batches grow with the load and a lone item
// waits for nobody.
type Outbox[T any] struct {
	mu     sync.Mutex
	items  []T
	filled chan struct{}
}

// NewOutbox answers an empty outbox.
func NewOutbox[T any]() *Outbox[T] {
	return &Outbox[T]{filled: make(chan struct{}, 1)}
}

// Put adds an item. It never blocks.
func (o *Outbox[T]) Put(item T) {
	o.mu.Lock()
	o.items = append(o.items, item)
	first := len(o.items) == 1
	o.mu.Unlock()
	if first {
		select {
		case o.filled <- struct{}{}:
		default:
		}
	}
}

// Take waits for items and answers all there are, in the order of Put; nil
// once done is closed.
func (o *Outbox[T]) Take(done <-chan struct{}) []T {
	for {
		select {
		case <-done:
			return nil
		case <-o.filled:
		}
		runtime.Gosched() // who else is about to put something travels along
		o.mu.Lock()
		items := o.items
		o.items = nil
		o.mu.Unlock()
		if len(items) > 0 {
			return items
		}
	}
}
