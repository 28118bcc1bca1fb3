package runtime

import "slices"

// maxMet bounds the classes that are remembered because a task of them came
// through Config.Others. What is remembered of one is how quickly its tasks
// come and go, and whether it can run: it is learned again with its next task.
const maxMet = 1000

// classOf answers the class of a leased task, which is met if it was not before.
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

// met answers the names of the classes that were met.
func (b *book) met() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.classes[b.configured:] {
		names = append(names, c.name)
	}
	return names
}

// anything answers every class that is known.
func (b *book) anything() []*class {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.classes)
}

// mayMeet reports whether a class that was not met yet would be leased: whether
// it can run turns out with its first task.
func (b *book) mayMeet() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.others != nil && b.others.group.slots > 0 && len(b.classes) == b.configured
}
