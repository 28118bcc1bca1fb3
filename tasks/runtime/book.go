package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// book is what this process holds and how far each task has come: the line of
// waiting tasks, the slots, the outcomes to be settled. Its methods stand with
// whoever uses them. Those that lock do it once, for a whole batch where there
// is one; the others say that they need the lock.
type book struct {
	mu      sync.Mutex
	held    map[*held]struct{}
	groups  []*group
	classes []*class // the configured ones by name, then those that were met
	byName  map[string]*class

	configured int    // how many of the classes
	others     *class // nameless, stands for those that were not met; nil: they are left alone

	leased   uint64  // tasks so far, which numbers them
	outcomes []*held // ended, not yet taken by a settler

	gathering bool // a settler waits for more outcomes

	// The store is known to have worked when the renewal that began at renewed
	// succeeded, and to have failed at failed.
	renewed, failed time.Time
	required        []chan struct{} // closed by the next renewal

	stopping bool
	waiters  []waiter
	stats    Stats

	room  signal // there may be room to lease more
	renew signal // a renewal cannot wait
	ended signal // there are outcomes
	full  signal // settling them should not wait for more
}

// signal wakes one goroutine, now or when it next looks.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newBook(c Config, player *player) *book {
	b := &book{
		held:    map[*held]struct{}{},
		byName:  map[string]*class{},
		groups:  []*group{{slots: c.Slots, player: player}},
		renewed: time.Now(),
		room:    newSignal(),
		renew:   newSignal(),
		ended:   newSignal(),
		full:    newSignal(),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		class := &class{name: name, Class: c.Classes[name], ready: true}
		class.group = b.groupOf(class.Limit)
		b.classes = append(b.classes, class)
		b.byName[name] = class
	}
	b.configured = len(b.classes)
	if c.Others != nil {
		b.others = &class{Class: *c.Others, group: b.groupOf(c.Others.Limit)}
	}
	return b
}

// end enters what a task came to. It needs the lock.
func (b *book) end(h *held, outcome tasks.Outcome) {
	if outcome.Kind == tasks.Lost {
		b.drop(h)
		b.stats.count(tasks.Lost)
		return
	}
	h.state, h.outcome = ended, outcome
	b.outcomes = append(b.outcomes, h)
	b.announce()
}

// drop forgets a task that is not held any more. It needs the lock.
func (b *book) drop(h *held) {
	h.state = gone
	h.cancel(nil)
	delete(b.held, h)
	b.changed()
}

// storeFailed closes the gate of leasing until a renewal that begins later
// succeeds.
func (b *book) storeFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = time.Now()
}

// stop ends the intake: waiting tasks go back to the queue, and no task starts
// any more.
func (b *book) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopping = true
	b.giveBack(func(*held) bool { return true })
	for _, g := range b.groups {
		g.player.pass()
	}
}

// cancelRunning cancels every execution and answers how many there were.
func (b *book) cancelRunning() (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for h := range b.held {
		if h.state == running {
			h.cancel(errStopped)
			count++
		}
	}
	return count
}

// wait returns when a condition of the book is met or ctx ends.
func (b *book) wait(ctx context.Context, met func() bool) {
	w := waiter{met: met, done: make(chan struct{})}
	b.mu.Lock()
	b.waiters = append(b.waiters, w)
	b.changed()
	b.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

type waiter struct {
	met  func() bool
	done chan struct{}
}

// still: nothing waits or runs.
func (b *book) still() bool {
	return !slices.ContainsFunc(b.groups, (*group).busy)
}

// empty: nothing is held.
func (b *book) empty() bool { return len(b.held) == 0 && b.still() }

// changed looks whether somebody waits for what the book now says. It needs the
// lock.
func (b *book) changed() {
	b.waiters = slices.DeleteFunc(b.waiters, func(w waiter) bool {
		if !w.met() {
			return false
		}
		close(w.done)
		return true
	})
}

// unsettled answers an error that names the tasks which are still held.
func (b *book) unsettled() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 {
		return nil
	}
	var ids []int64
	for h := range b.held {
		ids = append(ids, h.task.ID)
	}
	slices.Sort(ids)
	return fmt.Errorf("runtime: the outcomes of %d tasks could not be settled; they run again when their leases end: %v",
		len(ids), ids[:min(len(ids), 20)])
}

// problem answers nil, or why nothing is leased now.
func (b *book) problem(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch age := now.Sub(b.renewed); {
	case b.stopping:
		return errors.New("it is stopping")
	case age >= staleAfter:
		return fmt.Errorf("the held leases were last looked at %v ago", age)
	}
	return nil
}

func (b *book) counts() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.stats
	stats.Held, stats.Slots = len(b.held), b.allSlots()
	for _, g := range b.groups {
		stats.Running += g.running
	}
	return stats
}
