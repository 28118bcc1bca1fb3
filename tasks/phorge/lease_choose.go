package phorge

import (
	"cmp"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// choose answers which of the due rows to lease: new ones by (priority, id),
// then those leased before, oldest expiry first. The latter choose first
// within their share, or they would starve behind a class that new work keeps
// at its limit.
func choose(req tasks.LeaseRequest, found map[int64]entry) []entry {
	var fresh, expired []entry
	for _, e := range found {
		if e.Owner == nil {
			fresh = append(fresh, e)
		} else {
			expired = append(expired, e)
		}
	}
	slices.SortFunc(fresh, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.id, b.id))
	})
	slices.SortFunc(expired, func(a, b entry) int {
		return cmp.Or(cmp.Compare(*a.Expires, *b.Expires), cmp.Compare(a.id, b.id))
	})
	p := pick{req: req, taken: map[string]int{}}
	expired = p.pick(expired, tasks.ReservedOf(req.Limit))
	reserved := p.picked
	p.picked = nil
	p.pick(fresh, req.Limit-len(reserved))
	p.picked = append(p.picked, reserved...)
	p.pick(expired, req.Limit-len(p.picked))
	return p.picked
}

// pick takes rows as far as the limits of their classes go.
type pick struct {
	req    tasks.LeaseRequest
	taken  map[string]int
	picked []entry
}

// pick takes up to n rows and answers those it left.
func (p *pick) pick(from []entry, n int) (left []entry) {
	for _, e := range from {
		if n > 0 && p.taken[e.class] < p.req.Want(e.class).Limit {
			p.taken[e.class]++
			p.picked = append(p.picked, e)
			n--
		} else {
			left = append(left, e)
		}
	}
	return left
}
