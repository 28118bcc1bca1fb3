package gateway

import (
	"container/list"
	"fmt"
	"math"
	"net/netip"
	"sync"
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

func (r Rate) check() error {
	if !(r.PerSecond >= 0) || math.IsInf(r.PerSecond, 1) || r.Burst < 0 {
		return fmt.Errorf("it is %v a second with a burst of %d; neither can be negative", r.PerSecond, r.Burst)
	}
	if r.PerSecond == 0 && r.Burst > 0 {
		return fmt.Errorf("it has a burst of %d and nothing a second; leave both out for no limit", r.Burst)
	}
	return nil
}

// limiter answers a full bucket, or nil where there is no limit.
func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond == 0 {
		return nil
	}
	burst := r.Burst
	if burst == 0 {
		burst = max(1, int(math.Ceil(r.PerSecond)))
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), burst)
}

// take takes one call out of a bucket, or answers how long it takes until there
// is one.
func take(l *rate.Limiter, now time.Time) (wait time.Duration) {
	if l == nil || l.AllowN(now, 1) {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	return max(1, time.Duration(missing/float64(l.Limit())*float64(time.Second)))
}

// maxStrangers is how many addresses are remembered.
const maxStrangers = 4096

// strangers are the buckets of callers without a token, one for each address.
// The address that was not seen for longest is forgotten for a new one: it gets
// a full bucket the next time, which is good for refusals only. Callers with a
// token are not here, so strangers can take nothing from them.
type strangers struct {
	rate Rate

	mu     sync.Mutex
	known  map[netip.Addr]*list.Element
	recent list.List // of stranger, the latest first
}

type stranger struct {
	address netip.Addr
	limit   *rate.Limiter
}

func newStrangers(r Rate) *strangers {
	return &strangers{rate: r, known: map[netip.Addr]*list.Element{}}
}

// take takes one refusal out of the bucket of an address, or answers how long it
// takes until there is one.
func (s *strangers) take(address netip.Addr, now time.Time) (wait time.Duration) {
	address = neighbourhood(address)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, is := s.known[address]
	if !is {
		if len(s.known) >= maxStrangers {
			delete(s.known, s.recent.Remove(s.recent.Back()).(stranger).address)
		}
		found = s.recent.PushFront(stranger{address, s.rate.limiter()})
		s.known[address] = found
	}
	s.recent.MoveToFront(found)
	return take(found.Value.(stranger).limit, now)
}

// neighbourhood answers what one caller can have of addresses: of IPv6 a whole
// network of 64 bits.
func neighbourhood(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		network, _ := address.Prefix(64) // which fits
		return network.Addr()
	}
	return address
}
