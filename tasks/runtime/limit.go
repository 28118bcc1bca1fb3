package runtime

import (
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Limit bounds together how many tasks of several classes run at the same time:
// those that name the same Limit. What stands behind it is of one kind, such as
// the PHP processes of a pool, and nothing else fits in: so these classes have
// these slots for themselves, none of Config.Slots, and are leased apart from
// the others. A class that fills the one never waits for, or holds up, the
// other.
type Limit struct {
	// Slots answers how many tasks may run now. It is asked before each lease
	// call and may change at any time. It does not block. Required.
	Slots func() int
}

func (l *Limit) now() int { return max(0, l.Slots()) }

// group is the classes that share slots. The book's lock guards it.
type group struct {
	limit  *Limit // nil: Config.Slots
	slots  int
	player *player // nil: its tasks start without a turn

	waiting  int
	running  int
	gaveBack time.Time // when tasks last waited for a turn in vain
}

// groupOf answers the group of the classes with a limit.
func (b *book) groupOf(limit *Limit) *group {
	if i := slices.IndexFunc(b.groups, func(g *group) bool { return g.limit == limit }); i >= 0 {
		return b.groups[i]
	}
	g := &group{limit: limit, slots: limit.now()}
	b.groups = append(b.groups, g)
	return g
}

// resize enters how many slots a group has now and answers whether they became
// more.
func (b *book) resize(g *group) bool {
	if g.limit == nil {
		return false
	}
	slots := g.limit.now() // not under the lock: it is somebody else's
	b.mu.Lock()
	defer b.mu.Unlock()
	grown := slots > g.slots
	g.slots = slots
	return grown
}

func (g *group) busy() bool { return g.waiting+g.running > 0 }

// allSlots sums the slots of all groups. It needs the lock.
func (b *book) allSlots() (n int) {
	for _, g := range b.groups {
		n += g.slots
	}
	return n
}

// want answers what to ask the store for, for the classes of one group. hungry
// is false when there is no room, or the store just had nothing.
func (b *book) want(g *group, now time.Time) (req tasks.LeaseRequest, hungry bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping || !b.leasable(now) {
		return req, false
	}
	slots := g.expect(now)
	req.Classes = make(map[string]tasks.ClassRequest, len(b.classes))
	ahead := 0
	for _, c := range b.classes {
		room := 0
		if c.group == g {
			of := min(c.Slots, slots)
			n := c.pace.ahead(of, now)
			ahead += n
			c.low = n / 2
			room = of - c.running + n - len(c.queue)
		}
		switch {
		case room > 0 && c.ready && len(c.queue) <= c.low:
			req.Classes[c.name] = c.request(room)
			hungry = hungry || !c.drained
		case b.others != nil && b.others.group == g:
			req.Classes[c.name] = tasks.ClassRequest{} // or it would be one of the others
		}
	}
	if b.others != nil && b.others.group == g && b.others.ready {
		req.Others = b.others.request(min(b.others.Slots, slots))
		hungry = hungry || !b.others.drained
	}
	room := slots - g.running + min(ahead, maxAhead) - g.waiting
	req.Limit = min(room, b.allSlots()+maxBacklog-len(b.held), leaseBatch)
	return req, hungry && req.Limit > 0
}

func (c *class) request(room int) tasks.ClassRequest {
	return tasks.ClassRequest{
		Limit:       min(room, leaseBatch),
		LeaseTime:   c.LeaseTime,
		PickupDelay: c.PickupDelay,
	}
}

// answered notes which classes the store had nothing of, although it was asked.
// It needs the lock.
func (b *book) answered(req tasks.LeaseRequest, got map[*class]bool) {
	met := len(got)
	for name, asked := range req.Classes {
		c := b.byName[name]
		if got[c] {
			met--
		}
		if asked.Limit > 0 {
			c.drained = !got[c]
		}
	}
	if req.Others.Limit > 0 {
		b.others.drained = met == 0
	}
}
