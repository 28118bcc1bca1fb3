package token

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Rate is a token bucket. The zero value means no limit.
type Rate struct {
	// PerSecond is how many calls a second are let through in the long run.
	PerSecond float64

	// Burst is how many may come at once, at least 1. 0 means PerSecond, rounded
	// up.
	Burst int
}

// Check answers why there can be no such bucket, or nil.
func (r Rate) Check() error {
	if !(r.PerSecond >= 0) || math.IsInf(r.PerSecond, 1) || r.Burst < 0 {
		return fmt.Errorf("it is %v a second with a burst of %d; neither can be negative", r.PerSecond, r.Burst)
	}
	if r.PerSecond == 0 && r.Burst > 0 {
		return fmt.Errorf("it has a burst of %d and nothing a second; leave both out for no limit", r.Burst)
	}
	return nil
}

// Bucket is a full bucket to take calls out of; a nil one has no limit.
type Bucket struct{ limiter *rate.Limiter }

// Bucket answers a full bucket, or nil where there is no limit.
func (r Rate) Bucket() *Bucket {
	if r.PerSecond == 0 {
		return nil
	}
	burst := r.Burst
	if burst == 0 {
		burst = max(1, int(math.Ceil(r.PerSecond)))
	}
	return &Bucket{rate.NewLimiter(rate.Limit(r.PerSecond), burst)}
}

// Take takes one call out of the bucket, or answers how long it takes until
// there is one.
func (b *Bucket) Take(now time.Time) (wait time.Duration) {
	if b == nil || b.limiter.AllowN(now, 1) {
		return 0
	}
	missing := 1 - b.limiter.TokensAt(now)
	return max(1, time.Duration(missing/float64(b.limiter.Limit())*float64(time.Second)))
}
