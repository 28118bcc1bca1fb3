package runtime

import "slices"

// maxMet bounds the classes that are remembered without being configured. What
// is remembered of one is how quickly its tasks come and go, which is learned
// again with its next task.
const maxMet = 1000

// meetNamed meets the classes of Config.OtherClasses. Only the leaser calls it.
func (l *loop) meetNamed() {
	if l.OtherClasses == nil {
		return
	}
	for _, name := range l.OtherClasses() {
		l.book.classOf(name)
	}
}

// classOf answers a class by its name; it is met if it was not before.
// Only the leaser calls it, who is the only one to change the classes.
func (b *book) classOf(name string) *class {
	if c := b.byName[name]; c != nil {
		return c
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.meet(name)
}

// meet enters a class that nobody configured. It needs the lock.
func (b *book) meet(name string) *class {
	c := &class{name: name, Class: b.others.Class, group: b.others.group, ready: true}
	b.classes = append(b.classes, c)
	b.byName[name] = c
	return c
}

// forget drops the met classes of which nothing waits or runs, when they are
// many. It needs the lock.
func (b *book) forget() {
	if len(b.classes)-b.configured <= maxMet {
		return
	}
	kept := b.classes[:b.configured:b.configured]
	for _, c := range b.classes[b.configured:] {
		if len(c.queue)+c.running > 0 {
			kept = append(kept, c)
		} else {
			delete(b.byName, c.name)
		}
	}
	b.classes = kept
}

// anything answers every class that is known.
func (b *book) anything() []*class {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.classes)
}

// takesAny reports whether a task would be leased of whatever class.
func (b *book) takesAny() bool {
	if b.others == nil || !b.others.canRun() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.others.group.slots > 0
}
