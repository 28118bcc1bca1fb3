package phorge

import "github.com/phorge-gantry/gantry/tasks"

// entry is what the search reads of a row of worker_activetask.
type entry struct {
	id, priority int64
	class        string
	tasks.Place
}

// due reports whether a row with these lease columns can be leased. A row
// without an owner waits for its expiry when it has one, which stock Phorge
// does not heed; an owner without an expiry holds its row for ever, as there.
func due(p tasks.Place, now int64) bool {
	if p.Expires == nil {
		return p.Owner == nil
	}
	if p.Owner != nil {
		if _, ok := tasks.ParseOwner(*p.Owner); ok {
			return *p.Expires < now-tasks.Grace
		}
	}
	return *p.Expires < now
}

// spot is a place in a lane: (0, id) among the new tasks of one priority,
// (leaseExpires, id) among those that were leased before.
type spot struct{ key, id int64 }

func (s spot) before(o spot) bool { return s.key < o.key || s.key == o.key && s.id < o.id }

func (s spot) next() spot { return spot{s.key, s.id + 1} }

func (e entry) byID() spot     { return spot{0, e.id} }
func (e entry) byExpiry() spot { return spot{*e.Expires, e.id} }

// lane is a range of an index in the order in which its rows are to be leased,
// with a cursor for each class: everything of the class that lies before it
// was leased, has to wait, or came later. A class that nobody wants at the
// moment keeps its cursor, so that nothing is lost when slots fill and empty,
// and those that are wanted do not have to cross its rows again.
type lane struct {
	seen spot            // where the classes stand that at does not name
	at   map[string]spot // each before seen
}

func (l *lane) cursor(class string) spot {
	if at, ok := l.at[class]; ok {
		return at
	}
	return l.seen
}

// hold makes sure that a row of the class at this spot is looked at again.
func (l *lane) hold(class string, at spot) {
	if l.at == nil {
		l.at = map[string]spot{}
	}
	if before, ok := l.at[class]; !ok || at.before(before) {
		l.at[class] = at
	}
}

// advance moves the active classes to a spot before which all their rows were
// looked at.
func (l *lane) advance(to spot, active func(class string) bool) {
	if l.seen.before(to) {
		l.seen = to
	}
	for class, at := range l.at {
		if !at.before(to) || !active(class) {
			continue
		}
		if l.at[class] = to; !to.before(l.seen) {
			delete(l.at, class)
		}
	}
}

// start answers the first spot that can hold a row of an active class that was
// not looked at. unnamed says whether a class which at does not name can be
// active.
func (l *lane) start(active func(class string) bool, unnamed bool) (first spot, ok bool) {
	first, ok = l.seen, unnamed
	for class, at := range l.at {
		if active(class) && (!ok || at.before(first)) {
			first, ok = at, true
		}
	}
	return first, ok
}
