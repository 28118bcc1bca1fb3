package runtime

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// declineWait is how long a task waits that a handler declined when nothing
// else here can run it.
const declineWait = 5 * time.Minute

// dispatch starts waiting tasks in the slots that are free.
func (l *loop) dispatch() {
	for _, h := range l.book.fill(time.Now()) {
		l.crew.Go(func() { l.work(h) })
	}
}

// work is one busy slot: it goes on with the next task as long as there is one.
func (l *loop) work(h *held) {
	for h != nil {
		began := time.Now()
		outcome := l.execute(h)
		took := time.Since(began)
		if outcome.Duration == 0 {
			outcome.Duration = took
		}
		h = l.book.finish(h, outcome, took)
	}
}

// execute runs a task and answers an outcome that a store settles, or Lost.
func (l *loop) execute(h *held) tasks.Outcome {
	ctx := h.ctx
	if h.class.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.class.Deadline, errDeadline)
		defer cancel()
	}
	outcome := l.attempt(ctx, h)
	switch cause := context.Cause(ctx); {
	case cause == errLost:
		return tasks.Outcome{Kind: tasks.Lost}
	case outcome.Kind == tasks.Lost:
		l.tellLost(h, outcome.Reason)
		return outcome
	case outcome.Kind == tasks.Released && outcome.Wait > 0 && cause != errDeadline:
		outcome.Wait = max(outcome.Wait, l.book.leaseToLeave(h))
		return outcome
	case cause == nil || outcome.Kind == tasks.Succeeded:
		return h.settleable(outcome)
	case cause == errDeadline:
		return tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Category: tasks.CategoryDeadline, Reason: fmt.Sprintf(
			"task %d was stopped: it ran longer than %v, the deadline of class %s", h.task.ID, h.class.Deadline, h.class.name)}
	}
	return tasks.Outcome{Kind: tasks.Released}
}

// attempt hands the task to what can run it now, and to the fallback when that
// declines it.
func (l *loop) attempt(ctx context.Context, h *held) tasks.Outcome {
	h.ran = h.class.runner()
	if h.ran == nothing {
		return tasks.Outcome{Kind: tasks.Released, Reason: "its class became unable to run here"}
	}
	outcome := l.run(ctx, h)
	if outcome.Kind != tasks.Declined || ctx.Err() != nil {
		return outcome
	}
	if h.ran == executor && h.class.fallsBack() {
		h.ran = fallback
		if outcome = l.run(ctx, h); outcome.Kind != tasks.Declined {
			return outcome
		}
	}
	if _, again := l.declined.LoadOrStore(h.class.name, true); !again {
		l.Log.Warn().Int64("id", h.task.ID).Str("taskClass", h.class.name).Str("reason", outcome.Reason).
			Msg("the handler declined a task and nothing else here can run it; such tasks wait; said once for a class")
	}
	return tasks.Outcome{Kind: tasks.Released, Wait: declineWait, Reason: outcome.Reason}
}

// run calls what is to run the task. A panic in this process is one failed
// attempt.
func (l *loop) run(ctx context.Context, h *held) (outcome tasks.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			outcome = tasks.Outcome{
				Kind: tasks.Retry, Wait: tasks.DefaultWait, Category: tasks.CategoryPanic,
				Reason: fmt.Sprintf("panic: %v\n%s", cause, debug.Stack()),
			}
		}
	}()
	with := h.class.Executor
	if h.ran == fallback {
		with = h.class.Fallback
	}
	return with.Execute(ctx, h.task, func(lease time.Duration) {
		granted := l.book.require(h, lease)
		if granted == nil {
			return
		}
		select {
		case <-granted:
		case <-ctx.Done():
		}
	})
}

// settleable answers the outcome as it is to be settled.
func (h *held) settleable(outcome tasks.Outcome) tasks.Outcome {
	switch outcome.Kind {
	case tasks.Succeeded:
		if h.task.Traceparent == "" {
			return outcome
		}
		outcome.FollowUps = slices.Clone(outcome.FollowUps) // the executor's own
		for i := range outcome.FollowUps {                  // they are part of the same trace
			if f := &outcome.FollowUps[i]; f.Traceparent == "" {
				f.Traceparent = h.task.Traceparent
			}
		}
		return outcome
	case tasks.Yielded, tasks.Released:
		return outcome
	case tasks.Retry:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryTemporary)
		return outcome
	case tasks.Failed:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryPermanent)
		return outcome
	case tasks.Crashed:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryCrash)
		if crashes := h.task.Lease.Crashes + 1; crashes >= h.class.MaxCrashes {
			return tooManyCrashes(h, crashes, outcome.Reason)
		}
		return outcome
	}
	return tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Category: tasks.CategoryOutcome, Reason: fmt.Sprintf("its executor answered the unknown outcome %q", outcome.Kind)}
}

// fill puts waiting tasks into free slots and answers them.
func (b *book) fill(now time.Time) (started []*held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		c := b.next(g, now)
		for c != nil && g.player.take() {
			started = append(started, b.start(c))
			c = b.next(g, now)
		}
		if c == nil {
			g.player.pass()
		}
	}
	return started
}

// next answers the class whose first task is to start next in a group: the one
// that was leased first, among those whose class has a slot free. It answers
// nil when there is none. It needs the lock.
func (b *book) next(g *group, now time.Time) (first *class) {
	if g.running >= g.slots {
		return nil
	}
	for _, c := range b.classes {
		if c.group != g {
			continue
		}
		for len(c.queue) > 0 && c.queue[0].waitedTooLong(now) {
			b.release(c.pop())
		}
		if len(c.queue) > 0 && c.running < c.Slots && (first == nil || c.queue[0].order < first.queue[0].order) {
			first = c
		}
	}
	return first
}

// start puts the first task of a class into a slot. It needs the lock.
func (b *book) start(c *class) *held {
	h := c.pop()
	h.state = running
	c.group.waiting--
	c.group.running++
	c.running++
	b.stats.Started++
	return h
}

// leaseToLeave answers the least that a task is to wait when the runtime stops
// and what runs it goes on: as long as its lease would have lasted.
func (b *book) leaseToLeave(h *held) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopping {
		return 0
	}
	return h.leaseTime
}

// finish ends a running task and answers the next one for its slot.
func (b *book) finish(h *held, outcome tasks.Outcome, took time.Duration) (next *held) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	g := h.class.group
	g.running--
	h.class.running--
	if outcome.Kind != tasks.Released { // it may never have run
		h.class.pace.finished(took, now)
	}
	if c := b.next(g, now); g.player.end(c != nil) {
		next = b.start(c)
	}
	if h.state != gone {
		b.end(h, outcome)
	}
	if len(h.class.queue) <= h.class.low {
		b.room.raise()
	}
	b.changed()
	return next
}

// giveBack releases the waiting tasks that are chosen. It needs the lock.
func (b *book) giveBack(chosen func(*held) bool) {
	for _, c := range b.classes {
		c.queue = slices.DeleteFunc(c.queue, func(h *held) bool {
			if !chosen(h) {
				return false
			}
			b.release(h)
			return true
		})
	}
}

// release ends a task that has not started and leaves its queue: it returns to
// its place, and nothing is counted. It needs the lock.
func (b *book) release(h *held) {
	g := h.class.group
	g.waiting--
	if g.player != nil {
		g.gaveBack = time.Now()
	}
	b.end(h, tasks.Outcome{Kind: tasks.Released})
	b.changed()
}
