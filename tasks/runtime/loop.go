package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// callLimit is how long one store call may take. It is well above what a
	// slow server needs and well below a lease, so that a connection which died
	// in silence is noticed while what we hold can still be renewed.
	callLimit = 15 * time.Second

	// stopLimit is how long a stopping runtime tries to settle what has ended.
	stopLimit = 5 * time.Second
)

func storeBackoff() backoff { return backoff{first: 100 * time.Millisecond, most: 5 * time.Second} }

// loop is one life of the machinery: from Start to Close, or one RunOnce.
type loop struct {
	Config
	book *book
	wake signal

	leasing, renewing, settling *health
	declined                    sync.Map // classes whose declined tasks were logged

	// calls is the context of the store calls. It ends when everything is
	// settled, or cannot be any more.
	calls    context.Context
	endCalls context.CancelFunc

	stopLeasing chan struct{}  // closed first: no more leases
	finishing   chan struct{}  // closed last: no more outcomes
	stopOnce    sync.Once      // of stopLeasing
	leasers     sync.WaitGroup // whoever can add tasks
	settlers    sync.WaitGroup
	crew        sync.WaitGroup // the renewer, who takes turns, and the slots

	// stop is the hard stop, done once.
	stop func() error
}

// newLoop answers a running loop without a leaser.
func newLoop(c Config, player *player, wake signal) *loop {
	l := &loop{
		Config:      c,
		book:        newBook(c, player),
		wake:        wake,
		leasing:     &health{call: "lease tasks", log: c.Log, observer: c.Observer},
		renewing:    &health{call: "renew leases", log: c.Log, observer: c.Observer},
		settling:    &health{call: "settle outcomes", log: c.Log, observer: c.Observer},
		stopLeasing: make(chan struct{}),
		finishing:   make(chan struct{}),
	}
	l.calls, l.endCalls = context.WithCancel(context.Background())
	l.stop = sync.OnceValue(l.stopNow)
	l.crew.Go(l.renewer)
	if player != nil {
		l.crew.Go(func() { l.takeTurns(player.wake) })
	}
	for range settlers {
		l.settlers.Go(l.settler)
	}
	return l
}

// drain gives back what has not started, waits until the rest has ended and is
// settled, or ctx or DrainTimeout ends, and stops.
func (l *loop) drain(ctx context.Context) error {
	l.endIntake()
	ctx, cancel := context.WithTimeout(ctx, l.DrainTimeout)
	defer cancel()
	l.waitEmpty(ctx)
	return l.stop()
}

// waitEmpty returns when nothing is held any more, ctx ends or the loop stops.
func (l *loop) waitEmpty(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.calls, cancel)()
	l.book.wait(ctx, l.book.empty)
}

// endIntake gives back what has not started and leases no more.
func (l *loop) endIntake() {
	l.stopOnce.Do(func() { close(l.stopLeasing) })
	l.book.stop()
}

// stopNow cancels what runs, waits until it has ended, settles what it can and
// ends every goroutine. Leases are renewed until the last of it.
func (l *loop) stopNow() error {
	l.endIntake()
	if n := l.book.cancelRunning(); n > 0 {
		l.Log.Warn().Int("tasks", n).Msg("running tasks are cancelled and go back to the queue")
	}
	l.book.wait(context.Background(), l.book.still)
	timer := time.AfterFunc(stopLimit, l.endCalls)
	defer timer.Stop()
	l.leasers.Wait()
	close(l.finishing)
	l.settlers.Wait()
	l.endCalls()
	l.crew.Wait()
	err := l.book.unsettled()
	if problem := l.settling.problem(); err != nil && problem != nil {
		return fmt.Errorf("%w; %w", err, problem)
	}
	return err
}

// ready answers nil, or why the loop cannot lease and settle now.
func (l *loop) ready() error {
	problems := []error{l.leasing.problem(), l.renewing.problem(), l.settling.problem(), l.book.problem(time.Now())}
	if !slices.ContainsFunc(l.book.anything(), (*class).canRun) && !l.book.takesAny() {
		problems = append(problems, errors.New("no class can run here now"))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	return nil
}
