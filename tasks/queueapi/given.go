package queueapi

import (
	"net/netip"
	"sync"

	"github.com/phorge-gantry/gantry/tasks"
)

// given remembers under which lease tasks were given out lately, and to whom.
// Gorge's older clients lease under a name and settle without one; from where
// they lease, a settlement that names nobody is about the lease given there.
type given struct {
	mu           sync.Mutex
	young, older map[int64]grant // by task
}

// grant is a lease and who has it.
type grant struct {
	token   string // its name
	address netip.Addr
	lease   tasks.Lease
}

// givenLeases is how many leases are remembered at least, and twice as many at
// most.
const givenLeases = 32768

func (g *given) note(token string, address netip.Addr, held []tasks.Task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range held {
		if g.young == nil || len(g.young) >= givenLeases {
			g.young, g.older = make(map[int64]grant), g.young
		}
		g.young[t.ID] = grant{token, address, *t.Lease}
	}
}

// find answers the last lease of a task, when it was given there.
func (g *given) find(token string, address netip.Addr, id int64) (tasks.Lease, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last, known := g.young[id]
	if !known {
		last, known = g.older[id]
	}
	return last.lease, known && last.token == token && last.address == address
}
