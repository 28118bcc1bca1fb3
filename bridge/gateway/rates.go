package gateway

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// maxStrangers is how many addresses are remembered.
const maxStrangers = 4096

// strangers are the buckets of callers without a token, one for each address.
// The address that was not seen for longest is forgotten for a new one: it gets
// a full bucket the next time, which is good for refusals only. Callers with a
// token are not here, so strangers can take nothing from them.
type strangers struct {
	rate token.Rate

	mu     sync.Mutex
	known  map[netip.Addr]*list.Element
	recent list.List // of stranger, the latest first
}

type stranger struct {
	address netip.Addr
	limit   *token.Bucket
}

func newStrangers(r token.Rate) *strangers {
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
		found = s.recent.PushFront(stranger{address, s.rate.Bucket()})
		s.known[address] = found
	}
	s.recent.MoveToFront(found)
	return found.Value.(stranger).limit.Take(now)
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
