package queueapi

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// room is where lease calls wait, in the order in which they came.
type room struct {
	limit int

	mu      sync.Mutex
	waiters []*waiter
}

// waiter is one lease call.
type waiter struct {
	classes []string      // none: every class
	woken   chan struct{} // holds one
}

func (w *waiter) wants(class string) bool {
	return len(w.classes) == 0 || slices.Contains(w.classes, class)
}

// enter begins a wait. Whoever entered is woken by what is queued from then on,
// so the queue is to be looked at once more.
func (r *room) enter(classes []string) (*waiter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiters) >= r.limit {
		f := refuse(http.StatusServiceUnavailable, codeUnavailable, "%d calls wait for tasks already; ask again without wait, or later", r.limit)
		f.retryAfter = time.Second
		return nil, f
	}
	w := &waiter{classes: classes, woken: make(chan struct{}, 1)}
	r.waiters = append(r.waiters, w)
	return w, nil
}

// leave ends a wait. A call to wake up that nobody heeded goes to the next.
func (r *room) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters = slices.DeleteFunc(r.waiters, func(other *waiter) bool { return other == w })
	if len(w.woken) == 0 {
		return
	}
	for _, other := range r.waiters {
		if len(w.classes) == 0 || len(other.classes) == 0 || slices.ContainsFunc(w.classes, other.wants) {
			other.wake()
			return
		}
	}
}

func (w *waiter) wake() bool {
	select {
	case w.woken <- struct{}{}:
		return true
	default:
		return false // it is awake
	}
}

// wake wakes, for each task, the first who waits for its class.
func (r *room) wake(news []tasks.NewTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range news {
		r.wakeOne(n.Class)
	}
}

func (r *room) wakeHeld(held []tasks.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range held {
		r.wakeOne(t.Class)
	}
}

func (r *room) wakeOne(class string) {
	for _, w := range r.waiters {
		if w.wants(class) && w.wake() {
			return
		}
	}
}

// wakeAll has everybody look again.
func (r *room) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiters {
		w.wake()
	}
}

// pace answers how long to wait until looking again, so that the store is asked
// about as often by many as by a few.
func (r *room) pace(every time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return every * time.Duration(1+len(r.waiters)/16)
}
