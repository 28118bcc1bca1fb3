package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Runtime empties a queue: see the package comment. Its methods may be called
// at the same time.
type Runtime struct {
	config Config
	player *player // at Config.Turns
	wake   signal

	mu    sync.Mutex
	state lifecycle
	loop  *loop // the current one, or the latest
}

type lifecycle int

const (
	fresh   lifecycle = iota
	passing           // in RunOnce
	started
	closed
)

// New answers a runtime that does nothing yet. If it shares Turns, one is kept
// for it from now on until it is closed.
func New(config Config) (*Runtime, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	player, err := config.Turns.join()
	if err != nil {
		return nil, err
	}
	return &Runtime{config: config, player: player, wake: newSignal()}, nil
}

// Start begins to work. A runtime is started once; after it was closed, it
// stays closed.
func (r *Runtime) Start() error {
	l, err := r.begin(started)
	if err != nil {
		return err
	}
	r.config.Log.Info().Int("slots", r.config.Slots).Int("classes", len(r.config.Classes)).Msg("runtime started")
	go func() {
		defer l.leasers.Done()
		l.leaser()
	}()
	return nil
}

// RunOnce makes one pass, without Start: it leases as many tasks as there are
// slots, runs and settles them, and answers what it did. When ctx ends, what
// still runs is cancelled and given back. A pass that leased nothing found
// nothing due.
func (r *Runtime) RunOnce(ctx context.Context) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, err
	}
	l, err := r.begin(passing)
	if err != nil {
		return Stats{}, err
	}
	defer r.endPass()
	defer context.AfterFunc(ctx, l.endIntake)()
	if _, err = l.lease(); err != nil {
		err = fmt.Errorf("runtime: lease tasks: %w", err)
	}
	l.leasers.Done()
	l.waitEmpty(ctx)
	err = errors.Join(err, l.stop(), ctx.Err())
	return l.book.counts(), err
}

// begin makes a loop with one leaser, who is to report done.
func (r *Runtime) begin(next lifecycle) (*loop, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case passing, started:
		return nil, errors.New("runtime: it is running already")
	case closed:
		return nil, errors.New("runtime: it was closed; make a new one")
	}
	r.state = next
	r.loop = newLoop(r.config, r.player, r.wake)
	r.loop.leasers.Add(1)
	return r.loop, nil
}

func (r *Runtime) endPass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == passing {
		r.state = fresh
	}
}

// Drain is the graceful stop: it leases no more and gives unstarted tasks back
// at once, waits until the running ones have ended and are settled, and closes.
// When ctx or Config.DrainTimeout ends first, those that still run are
// cancelled and given back. Its error is that of Close.
func (r *Runtime) Drain(ctx context.Context) error {
	l := r.close()
	defer r.player.leave()
	if l != nil {
		return l.drain(ctx)
	}
	return nil
}

// Close is the hard stop: it cancels what runs and gives it back, settles what
// can be settled within a few seconds, and ends every goroutine. It waits for
// the executors to return. Its error names the outcomes that could not be
// settled. It may be called any number of times.
func (r *Runtime) Close() error {
	l := r.close()
	defer r.player.leave()
	if l != nil {
		return l.stop()
	}
	return nil
}

// close answers the loop to be stopped, if there is one.
func (r *Runtime) close() *loop {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == started {
		r.config.Log.Info().Msg("runtime stops")
	}
	r.state = closed
	return r.loop
}

// Wake makes the runtime look for tasks now: somebody in this process queued
// some.
func (r *Runtime) Wake() { r.wake.raise() }

// Ready answers nil, or why tasks cannot be leased and settled now.
func (r *Runtime) Ready() error {
	r.mu.Lock()
	state, l := r.state, r.loop
	r.mu.Unlock()
	if state != started {
		return errors.New("runtime: it is not running")
	}
	return l.ready()
}

// Stats counts what was done since Start, or by the latest RunOnce.
func (r *Runtime) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loop == nil {
		return Stats{}
	}
	return r.loop.book.counts()
}
