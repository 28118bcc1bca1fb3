package runtime

import (
	"math/rand/v2"
	"time"
)

// backoff answers pauses that double from first to most.
type backoff struct {
	first, most time.Duration
	last        time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(b.first, 2*b.last), b.most)
	return b.last
}

func (b *backoff) reset() { b.last = 0 }

// jittered spreads a pause over half of its length, so that many hosts which
// lost the same store do not come back to it in the same moment.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
