package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// renewEvery is how often the held leases are looked at. Extending them needs
// much less; but `phd start` expires every lease of the cluster at once, and a
// stock consumer takes what is expired within a second or so.
const renewEvery = 200 * time.Millisecond

// renewer keeps every lease alive until the store calls end.
func (l *loop) renewer() {
	outage := backoff{first: renewEvery, most: time.Second}
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	for {
		select {
		case <-l.calls.Done():
			return
		case <-timer.C:
		case <-l.book.renew:
		}
		pause := renewEvery
		if l.renewOnce() {
			outage.reset()
		} else {
			pause = jittered(outage.next())
		}
		timer.Reset(pause)
	}
}

// renewOnce looks at the leases that no call has looked at lately and answers
// whether the store could be asked.
func (l *loop) renewOnce() bool {
	called := time.Now()
	look := l.book.toRenew(called)
	var answers []tasks.Renewed
	if len(look.held) > 0 {
		ctx, cancel := context.WithTimeout(l.calls, callLimit)
		defer cancel()
		var err error
		if answers, err = l.Store.Renew(ctx, look.renewals); err != nil {
			l.book.notRenewed(look)
			l.renewing.failed(err)
			return false
		}
	}
	l.renewing.worked()
	lost, revived := l.book.renewedAll(look, answers, called)
	for _, h := range lost {
		l.tellLost(h, taken)
	}
	if revived > 0 {
		l.Observer.Revived(revived)
		l.Log.Warn().Int("leases", revived).
			Msg("leases had expired or had been swept, as by `phd start`, and were still ours: revived")
	}
	return true
}

// taken is why a store says that a lease is lost.
const taken = "the task was cancelled, freed or taken by somebody else"

// tellLost is the one word about a lease that ended under us.
func (l *loop) tellLost(h *held, why string) {
	l.Observer.Ended(h.class.name, h.route(), tasks.Lost, 0)
	l.Log.Warn().Int64("id", h.task.ID).Str("taskClass", h.class.name).Str("because", why).
		Msg("lease lost: nothing is settled")
}

// look is one round of renewals; held and renewals run parallel.
type look struct {
	held     []*held
	renewals []tasks.Renewal
	required []chan struct{}
}

// toRenew answers every lease that is due to be looked at: in steady flow few,
// since most tasks are settled sooner. After a failed call it is all of them.
func (b *book) toRenew(now time.Time) (due look) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(func(h *held) bool { return h.waitedTooLong(now) })
	all := !b.renewed.After(b.failed)
	for h := range b.held {
		if all || h.urgent || now.Sub(h.seen) >= renewEvery/2 {
			h.urgent = false
			due.held = append(due.held, h)
			due.renewals = append(due.renewals, tasks.Renewal{ID: h.task.ID, Owner: h.task.Lease.Owner, LeaseTime: h.leaseTime})
		}
	}
	due.required, b.required = b.required, nil
	return due
}

// notRenewed enters a failed call.
func (b *book) notRenewed(due look) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = time.Now()
	b.required = append(b.required, due.required...)
}

// renewedAll enters the answers to a call that began at called.
func (b *book) renewedAll(due look, answers []tasks.Renewed, called time.Time) (lost []*held, revived int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed = called
	for i, h := range due.held {
		if answers[i].Revived {
			revived++
		}
		switch {
		case !errors.Is(answers[i].Err, tasks.ErrLeaseLost):
			h.seen = called
		case b.lose(h):
			lost = append(lost, h)
		}
	}
	for _, granted := range due.required {
		close(granted)
	}
	b.stats.Revived += revived
	b.room.raise()
	return lost, revived
}

// lose cancels a task whose lease ended and answers whether that was news. Of a
// task that has an outcome it is not: settling it is what ended the lease, or
// will find out. It needs the lock.
func (b *book) lose(h *held) bool {
	switch h.state {
	case waiting:
		h.class.queue = slices.DeleteFunc(h.class.queue, func(other *held) bool { return other == h })
		h.class.group.waiting--
	case running:
		h.cancel(errLost)
	default:
		return false
	}
	b.end(h, tasks.Outcome{Kind: tasks.Lost})
	return true
}

// require raises the lease time of a task and answers a channel that is closed
// once the store has it, or nil when the lease is long enough.
func (b *book) require(h *held, lease time.Duration) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lease <= h.leaseTime {
		return nil
	}
	h.leaseTime, h.urgent = lease, true
	granted := make(chan struct{})
	b.required = append(b.required, granted)
	b.renew.raise()
	return granted
}
