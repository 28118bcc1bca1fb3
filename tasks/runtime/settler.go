package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// settlers is how many settlements are under way at the same time. To a
	// server on this host one is as quick as four; a second one hides the round
	// trips to a distant one.
	settlers = 2

	// settleBatch is the most outcomes settled in one call.
	settleBatch = 256

	// An outcome waits for others to share its commit: about as long as tasks of
	// its class take, within these bounds. Slow tasks end seldom, and would be
	// settled one by one.
	lingerLeast = 3 * time.Millisecond
	lingerMost  = 25 * time.Millisecond

	// maxBacklog bounds what is held beyond the running tasks: a batch in line,
	// one being leased and one for each settler. Settling that falls behind so
	// holds up leasing.
	maxBacklog = leaseBatch*2 + settleBatch*settlers
)

// settler settles outcomes until there can be no more of them.
func (l *loop) settler() {
	outage := storeBackoff()
	for {
		batch := l.gather()
		if batch == nil {
			return
		}
		if l.settle(batch) {
			outage.reset()
		} else if !tasks.Pause(l.calls, jittered(outage.next())) {
			return
		}
	}
}

// gather waits for outcomes that are worth a call. It answers nil when there
// will be none.
func (l *loop) gather() []*held {
	for {
		select {
		case <-l.finishing:
			return l.book.take()
		case <-l.book.ended:
		}
		timer := time.NewTimer(l.book.gather())
		select {
		case <-l.finishing:
		case <-l.book.full:
		case <-timer.C:
		}
		timer.Stop()
		if batch := l.book.take(); batch != nil {
			return batch
		}
	}
}

// settle makes one call. An outcome that it cannot settle goes back and is
// tried again: settle then answers false, and the lease is renewed meanwhile.
func (l *loop) settle(batch []*held) bool {
	settlements := make([]tasks.Settlement, len(batch))
	for i, h := range batch {
		settlements[i] = tasks.Settlement{ID: h.task.ID, Lease: *h.task.Lease, Outcome: h.outcome, Route: h.route()}
	}
	ctx, cancel := context.WithTimeout(l.calls, callLimit)
	defer cancel()
	answers, err := l.Store.Settle(ctx, settlements)
	if err != nil {
		l.book.storeFailed()
		l.book.putBack(batch)
		l.settling.failed(err)
		return false
	}
	var ended, again []*held
	for i, h := range batch {
		switch refusal := answers[i].Err; {
		case refusal == nil:
			l.tellSettled(h)
			ended = append(ended, h)
		case errors.Is(refusal, tasks.ErrLeaseLost):
			l.tellLost(h, taken)
			h.outcome.Kind = tasks.Lost
			ended = append(ended, h)
		case !h.refused && (errors.Is(refusal, tasks.ErrInvalid) || errors.Is(refusal, tasks.ErrTooLarge)):
			h.refused = true
			h.outcome = tasks.Outcome{
				Kind:     tasks.Retry,
				Wait:     tasks.DefaultWait,
				Category: tasks.CategoryOutcome,
				Reason:   fmt.Sprintf("it %s, but that cannot be stored: %v", h.outcome.Kind, refusal),
				Duration: h.outcome.Duration,
			}
			again = append(again, h)
		default:
			err = errors.Join(err, refusal)
			again = append(again, h)
		}
	}
	l.book.settled(ended)
	l.book.putBack(again)
	if err != nil {
		l.settling.failed(err)
		return false
	}
	l.settling.worked()
	return true
}

// tellSettled tells a person about failures, and everything to who debugs.
func (l *loop) tellSettled(h *held) {
	l.Observer.Ended(h.class.name, h.route(), h.outcome.Kind, h.outcome.Duration)
	event, message := l.Log.Debug(), "task settled"
	switch h.outcome.Kind {
	case tasks.Succeeded:
		if h.outcome.Reason != "" {
			event, message = l.Log.Error(), "task succeeded, but not all that it wanted was done"
		}
	case tasks.Failed:
		event, message = l.Log.Error(), "task failed permanently"
	case tasks.Retry, tasks.Crashed:
		event, message = l.Log.Warn().Int("failureCount", h.task.FailureCount+1), "task failed and will be tried again"
	}
	if route := h.route(); route != "" {
		event.Str("route", route)
	}
	event.Int64("id", h.task.ID).Str("taskClass", h.class.name).Str("outcome", string(h.outcome.Kind)).
		Stringer("wait", h.outcome.Wait).Stringer("took", h.outcome.Duration).
		Str("reason", h.outcome.Reason).Msg(message)
}

// announce wakes a settler for the outcomes. One is enough: it wakes another
// when it leaves some. They do not wait for more when they are enough for a
// batch, or when nothing is under way that could join them. It needs the lock.
func (b *book) announce() {
	if len(b.outcomes) == 0 {
		return
	}
	if !b.gathering {
		b.ended.raise()
	}
	if len(b.outcomes) >= settleBatch || b.still() {
		b.full.raise()
	}
}

// gather answers how long the first outcome is to wait for others. Until they
// are taken, further ones wake nobody.
func (b *book) gather() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = true
	if len(b.outcomes) == 0 {
		return lingerLeast
	}
	return min(max(b.outcomes[0].class.pace.mean, lingerLeast), lingerMost)
}

// take answers outcomes to be settled together, nil when there are none.
func (b *book) take() []*held {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = false
	n := min(len(b.outcomes), settleBatch)
	if n == 0 {
		return nil
	}
	batch := slices.Clone(b.outcomes[:n])
	b.outcomes = slices.Delete(b.outcomes, 0, n)
	b.announce()
	return batch
}

// putBack returns outcomes that are to be settled again.
func (b *book) putBack(batch []*held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes = append(b.outcomes, batch...)
	b.announce()
}

// settled removes tasks whose leases have ended.
func (b *book) settled(batch []*held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range batch {
		b.stats.count(h.outcome.Kind)
		b.drop(h)
	}
	b.room.raise()
}
