package metrics

import (
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Instance counts for one queue. It is the Observer of tasks/runtime. What it
// shows beside, it is told where to find; each at most once, before it is
// scraped.
type Instance struct {
	name    string
	classes *bounded
	*family
	sample *sampler

	mu     sync.Mutex
	held   map[int64]string // classes of tasks that callers of the API leased
	slots  func() (slots, running, held int)
	states map[string]func() map[string]int // processes by state, by kind
}

func newInstance(name string, f *family) *Instance {
	return &Instance{
		name: name, family: f, classes: newBounded(maxClasses), sample: newSampler(),
		held: map[int64]string{}, states: map[string]func() map[string]int{},
	}
}

// Queue has the depth and the age of the queue shown.
func (i *Instance) Queue(store tasks.Operator) { i.sample.of(store) }

// Concurrency has shown how many tasks may run at the same time, how many do, and
// how many are held under a lease.
func (i *Instance) Concurrency(now func() (slots, running, held int)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.slots = now
}

// Pool and Plugins have shown how many processes there are in each state. States
// that are not answered are 0 only if they were in all.
func (i *Instance) Pool(now func() map[string]int) { i.processes("pool", now) }

// Plugins: see Pool.
func (i *Instance) Plugins(now func() map[string]int) { i.processes("plugin", now) }

func (i *Instance) processes(kind string, now func() map[string]int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.states[kind] = now
}

// Leased implements Observer of tasks/runtime, as do Ended, Revived and
// StoreFailed.
func (i *Instance) Leased(task tasks.Task, leaseTime time.Duration) {
	i.leased("runtime", task, leaseTime)
}

func (i *Instance) leased(by string, task tasks.Task, leaseTime time.Duration) {
	class := i.classes.label(task.Class)
	i.leases.WithLabelValues(i.name, class, by).Inc()
	if l := task.Lease; l != nil {
		at := l.Expires - max(1, tasks.WholeSeconds(leaseTime)) // by the clock of the store
		i.pickup.WithLabelValues(i.name, class).Observe(float64(max(0, at-task.DueSince(l.Prior))))
	}
}

// Ended: see Leased.
func (i *Instance) Ended(class, route string, kind tasks.Kind, took time.Duration) {
	i.ended(class, route, kind, took)
}

func (i *Instance) ended(class, route string, kind tasks.Kind, took time.Duration) {
	class = i.classes.label(class)
	if kind == tasks.Lost {
		i.lost.WithLabelValues(i.name, class).Inc()
		return
	}
	if route == "" {
		route = "none"
	}
	i.settled.WithLabelValues(i.name, class, route, string(kind)).Inc()
	if took > 0 && kind != tasks.Released {
		i.execution.WithLabelValues(i.name, class, route).Observe(took.Seconds())
	}
}

// Revived: see Leased.
func (i *Instance) Revived(leases int) { i.revived.WithLabelValues(i.name).Add(float64(leases)) }

// StoreFailed: see Leased.
func (i *Instance) StoreFailed(call string) { i.storeErrors.WithLabelValues(i.name, call).Inc() }

// Repeated counts what a store tries again: see Repeated of its Config.
func (i *Instance) Repeated(reason string) { i.storeRetries.WithLabelValues(i.name, reason).Inc() }

// maxHeld bounds the tasks whose class is remembered until a caller settles
// them.
const maxHeld = 10000

// remember keeps the class of a task that a caller leased: who settles it names
// the id alone.
func (i *Instance) remember(task tasks.Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id := range i.held { // whichever comes first
		if len(i.held) < maxHeld {
			break
		}
		delete(i.held, id)
	}
	i.held[task.ID] = task.Class
}

// recall answers the class of a task that a caller settled, "" when it is not
// known any more.
func (i *Instance) recall(s tasks.Settlement) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	class := i.held[s.ID]
	if s.Outcome.Kind != tasks.Lost { // whoever holds it now goes on
		delete(i.held, s.ID)
	}
	return class
}
