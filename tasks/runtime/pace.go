package runtime

import "time"

const (
	// leaseBatch is the most tasks leased in one call. A call has a price of its
	// own, two commits among it, and there is one at a time: in batches of 256 a
	// drain is a tenth slower, in batches of 1,024 no faster.
	leaseBatch = 512

	// maxAhead bounds the tasks that are leased and wait for a slot: one batch
	// to work on while the next is being leased.
	maxAhead = 2 * leaseBatch

	// horizon is how much work is leased ahead, as time. It covers a lease call
	// with room to spare, so that slots do not run dry during one.
	horizon = 100 * time.Millisecond

	// patience is how long a task may wait leased before it is given back. It
	// also bounds how old the news may be that a task was not cancelled when it
	// starts.
	patience = time.Second
)

// pace is how quickly the tasks of one class come and go, and so how many of
// them to lease before there are slots for them: as many as its slots finish
// within the horizon. Tasks that take longer than that are not leased ahead at
// all, and neither is a class that finished nothing lately, however quick it
// was before.
type pace struct {
	mean time.Duration // of one execution, the latest weighing most
	last time.Time     // when the latest ended
}

func (p *pace) finished(took time.Duration, now time.Time) {
	if p.last.IsZero() {
		p.mean = took
	}
	p.mean += (took - p.mean) / 8
	p.last = now
}

// ahead answers how many tasks to have waiting for so many slots.
func (p *pace) ahead(slots int, now time.Time) int {
	if p.last.IsZero() || now.Sub(p.last) > horizon {
		return 0
	}
	return int(min(maxAhead, time.Duration(slots)*horizon/max(p.mean, 1)))
}
