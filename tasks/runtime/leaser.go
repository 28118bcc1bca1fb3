package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// staleAfter is how old the last look at the held leases may be for new
	// ones to be taken.
	staleAfter = time.Second

	// firstPoll is how soon a queue that just ran dry is looked at again.
	firstPoll = 5 * time.Millisecond
)

// leaser keeps the slots busy until leasing stops.
func (l *loop) leaser() {
	idle := backoff{first: firstPoll, most: l.IdlePoll}
	outage := storeBackoff()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		polled := false
		select {
		case <-l.stopLeasing:
			return
		case <-l.wake:
			l.book.poll()
		case <-timer.C:
			l.book.poll()
			polled = true
		case <-l.book.room:
		}
		n, err := l.leaseMore()
		if n > 0 {
			idle.reset()
			outage.reset()
		}
		switch {
		case err != nil:
			l.leasing.failed(err)
			timer.Reset(jittered(outage.next()))
		case polled:
			// Not after every call, or a class that keeps the leaser busy would
			// put off the poll that another one waits for.
			timer.Reset(idle.next())
		}
	}
}

// leaseMore leases until there is no room or nothing to be had, and answers how
// many tasks it got.
func (l *loop) leaseMore() (total int, err error) {
	for {
		n, err := l.lease()
		total += n
		if n == 0 || err != nil {
			return total, err
		}
	}
}

// lease asks once for each group.
func (l *loop) lease() (total int, err error) {
	l.meetNamed()
	for _, g := range l.book.groups {
		n, err := l.leaseFor(g)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// leaseFor asks once, in as many calls as the store needs to look everywhere.
func (l *loop) leaseFor(g *group) (int, error) {
	for {
		n, err := l.ask(g)
		if !errors.Is(err, tasks.ErrSearching) {
			return n, err
		}
	}
}

// ask makes one call, if there is anything to ask for, and puts what it answers
// into slots and in line.
func (l *loop) ask(g *group) (int, error) {
	l.lookWhoIsReady(g)
	if l.book.resize(g) {
		l.dispatch()
	}
	called := time.Now()
	req, hungry := l.book.want(g, called)
	if !hungry {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(l.calls, callLimit)
	defer cancel()
	found, err := l.Store.Lease(ctx, req)
	if err != nil && !errors.Is(err, tasks.ErrSearching) {
		l.book.storeFailed()
		l.book.rest()
		return 0, err
	}
	l.leasing.worked()
	if err != nil {
		return 0, err
	}
	batch := make([]*held, len(found))
	now := time.Now()
	for i, task := range found {
		c := l.book.classOf(task.Class)
		h := &held{task: task, class: c, since: now, seen: called, leaseTime: c.LeaseTime}
		h.ctx, h.cancel = context.WithCancelCause(context.Background())
		batch[i] = h
		l.Observer.Leased(task, c.LeaseTime)
	}
	l.book.add(req, batch)
	l.dispatch()
	return len(batch), nil
}

// lookWhoIsReady notes which classes of a group can run and logs which of them
// changed, as far as they have names: one line, because what runs them all may
// be gone.
func (l *loop) lookWhoIsReady(g *group) {
	var gone, back []string
	for _, c := range l.book.classes { // without the lock: only the leaser changes it
		if c.group != g {
			continue
		}
		ready := c.canRun()
		switch {
		case c.ready && !ready:
			gone = append(gone, c.name)
		case ready && !c.ready:
			back = append(back, c.name)
		}
		c.ready = ready
	}
	if others := l.book.others; others != nil && others.group == g {
		others.ready = others.canRun()
	}
	if gone != nil {
		l.Log.Warn().Strs("taskClasses", gone).Msg("classes cannot run here now; their tasks stay in the queue")
	}
	if back != nil {
		l.Log.Info().Strs("taskClasses", back).Msg("classes can run again")
	}
}

// leasable is the gate of leasing: what is held must have been looked at
// lately, and since the last failed call of any kind. After an outage the rows
// that this process holds look like anybody's expired ones, and it would lease
// them again while it still runs them. It needs the lock.
func (b *book) leasable(now time.Time) bool {
	return b.renewed.After(b.failed) && now.Sub(b.renewed) < staleAfter
}

// rest lets no class be asked for until the next poll, whatever room there is.
func (b *book) rest() { b.setDrained(true) }

// poll lets every class be asked for again.
func (b *book) poll() { b.setDrained(false) }

func (b *book) setDrained(drained bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.classes {
		c.drained = drained
	}
	if b.others != nil {
		b.others.drained = drained
	}
}

// add enters what the store answered.
func (b *book) add(req tasks.LeaseRequest, batch []*held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Leased += len(batch)
	got := map[*class]bool{}
	for _, h := range batch {
		got[h.class] = true
		b.held[h] = struct{}{}
		if crashes := h.task.Lease.Crashes; crashes >= h.class.MaxCrashes {
			b.end(h, tooManyCrashes(h, crashes, ""))
			continue
		}
		b.leased++
		h.order = b.leased
		h.class.group.waiting++
		h.class.queue = append(h.class.queue, h)
	}
	if len(batch) < req.Limit {
		b.answered(req, got)
	}
	b.forget()
	if b.stopping {
		b.giveBack(func(*held) bool { return true })
	}
}

func tooManyCrashes(h *held, crashes int, last string) tasks.Outcome {
	reason := fmt.Sprintf("what ran it died %d times with it; that is as often as class %s allows", crashes, h.class.name)
	if last != "" {
		reason += "; the last time: " + last
	}
	return tasks.Outcome{Kind: tasks.Failed, Category: tasks.CategoryCrash, Reason: reason}
}
