package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
)

// link is the work of one running process: its stream, and the tasks it holds.
type link struct {
	*peer
	name    string
	classes map[string]Class
	grace   time.Duration
	slots   map[string]chan struct{} // of classes whose handler limits itself
	outbox  *pluginpb.Outbox[order]
	ended   chan struct{} // closed when no more tasks are taken

	mu    sync.Mutex
	calls map[uint64]*call
	last  uint64
	end   ending
	why   string // for people; the death of a process is explained later
}

// ending is why a link takes no more tasks.
type ending int

const (
	open    ending = iota // it takes tasks
	died                  // the process died of itself, or broke the protocol
	killed                // the host killed it because of one of its tasks
	stopped               // the host is closing
)

// order is something to tell the process about a call.
type order struct {
	*call
	what command
}

type command int

const (
	tellTask   command = iota
	tellLeased         // the lease that it required is there
	tellCancel
)

// call is one task that Execute was called with.
type call struct {
	task    *pluginpb.Task
	fate    atomic.Int32 // unsent, then sent or withdrawn
	culprit bool         // went on after it was cancelled; guarded by link.mu
	lease   chan time.Duration
	done    chan answer
}

// answer is what came of a call.
type answer struct {
	tasks.Outcome
	effects *pluginpb.Effects // of a shadow run
}

const (
	unsent int32 = iota
	sent
	withdrawn
)

func newLink(r *peer, plugin Plugin, grace time.Duration) *link {
	l := &link{
		peer:    r,
		name:    plugin.Name,
		classes: plugin.Classes,
		grace:   grace,
		slots:   map[string]chan struct{}{},
		outbox:  pluginpb.NewOutbox[order](),
		ended:   make(chan struct{}),
		calls:   map[uint64]*call{},
	}
	for class, limit := range r.limits {
		if limit > 0 {
			l.slots[class] = make(chan struct{}, limit)
		}
	}
	return l
}

// execute runs one task and answers its outcome, when nothing of it runs any
// more.
func (l *link) execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	return l.run(ctx, task, false, require).Outcome
}

// run does what execute says, in shadow or not.
func (l *link) run(ctx context.Context, task tasks.Task, shadow bool, require func(time.Duration)) answer {
	if slots := l.slots[task.Class]; slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return answer{Outcome: released("cancelled before it started")}
		case <-l.ended:
			return l.unstarted()
		}
	}
	c := l.call(task, shadow)
	if c == nil {
		return l.unstarted()
	}
	for {
		select {
		case done := <-c.done:
			return done
		case lease := <-c.lease:
			require(lease)
			if ctx.Err() == nil {
				l.outbox.Put(order{c, tellLeased})
			}
		case <-ctx.Done():
			return l.cancel(c)
		}
	}
}

func (l *link) unstarted() answer {
	return answer{Outcome: released("handler binary %s stopped before the task started", l.name)}
}

// call registers a task and hands it to the sender; nil when no more tasks
// are taken.
func (l *link) call(task tasks.Task, shadow bool) *call {
	c := &call{lease: make(chan time.Duration, 1), done: make(chan answer, 1)}
	l.mu.Lock()
	if l.end != open {
		l.mu.Unlock()
		return nil
	}
	l.last++
	c.task = pluginpb.FromTask(l.last, task)
	c.task.Shadow = shadow
	l.calls[l.last] = c
	l.mu.Unlock()

	policy := l.classes[task.Class]
	if policy.MaxRetries != nil {
		c.task.MaxRetries = new(int64(*policy.MaxRetries))
	}
	if policy.Wait != nil {
		c.task.RetryWaitMs = new(policy.Wait.Milliseconds())
	}
	l.outbox.Put(order{c, tellTask})
	return c
}

// cancel stops a call: asks, waits for the grace to pass, then kills the
// process.
func (l *link) cancel(c *call) answer {
	if c.fate.CompareAndSwap(unsent, withdrawn) {
		l.mu.Lock()
		delete(l.calls, c.task.Run)
		l.mu.Unlock()
		return answer{Outcome: released("cancelled before it started")}
	}
	l.outbox.Put(order{c, tellCancel})
	grace := time.NewTimer(l.grace)
	defer grace.Stop()
	select {
	case done := <-c.done:
		return done
	case <-grace.C:
	}
	l.mu.Lock()
	c.culprit = true
	l.mu.Unlock()
	l.close(killed, fmt.Sprintf("task %d (%s) went on for %v after it was cancelled, so its process was killed", c.task.Id, c.task.TaskClass, l.grace))
	_ = l.child.Kill(context.Background())
	return <-c.done
}

// close makes the link take no more tasks. Only the first reason counts.
func (l *link) close(end ending, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == open {
		l.end, l.why = end, why
		close(l.ended)
	}
}

// ending answers why no more tasks are taken, or open.
func (l *link) ending() (ending, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.why
}

// held answers how many tasks the process holds.
func (l *link) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// bury answers every call of a process that is gone.
func (l *link) bury(end ending, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		switch {
		case c.fate.CompareAndSwap(unsent, withdrawn):
			c.done <- l.unstarted()
		case end == died || c.culprit:
			c.done <- l.crashed(c, why)
		default:
			c.done <- answer{Outcome: released("cut short: %s", why)}
		}
	}
	l.calls = nil
}

// crashed answers the outcome of a call that may have killed its process. The
// handler cannot be asked any more how long to wait.
func (l *link) crashed(c *call, why string) answer {
	wait := tasks.DefaultWait
	if own := l.classes[c.task.TaskClass].Wait; own != nil {
		wait = *own
	}
	return answer{Outcome: tasks.Outcome{Kind: tasks.Crashed, Wait: wait, Reason: why}}
}
