package queueapi

import (
	"context"
	"sync"
	"time"
)

// sample is something that is costly to find out, found out at most once in a
// while however many ask.
type sample[T any] struct {
	every   time.Duration
	timeout time.Duration
	take    func(context.Context) (T, error)

	mu      sync.Mutex
	current *taken[T]
	busy    sync.WaitGroup
}

// taken is one look. done is closed when the rest is there.
type taken[T any] struct {
	done  chan struct{}
	value T
	err   error
	until time.Time // how long it counts; an error counts for nobody who comes later
}

// get answers the current value, or waits for a new one. Who asks and goes away
// does not end the look, which others wait for as well.
func (s *sample[T]) get(ctx context.Context) (value T, err error) {
	s.mu.Lock()
	look := s.current
	if look == nil || look.over() {
		look = &taken[T]{done: make(chan struct{})}
		s.current = look
		s.busy.Go(func() { s.look(look) })
	}
	s.mu.Unlock()
	select {
	case <-look.done:
		return look.value, look.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (t *taken[T]) over() bool {
	select {
	case <-t.done:
		return t.err != nil || time.Now().After(t.until)
	default:
		return false
	}
}

func (s *sample[T]) look(look *taken[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	look.value, look.err = s.take(ctx)
	look.until = time.Now().Add(s.every)
	close(look.done)
}

// wait returns when no look is under way.
func (s *sample[T]) wait() { s.busy.Wait() }
