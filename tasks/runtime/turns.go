package runtime

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Turns bounds together how many tasks several runtimes of one process run at
// the same time: those that name the same Turns, one for each instance. A task
// takes a turn when it starts and gives it back when what runs it has returned.
// Tasks of classes with a Limit take none: what bounds those, such as the PHP
// processes of a pool, is not shared.
//
// Whoever has work takes what turns are free, but one is kept for each runtime
// that runs nothing: so however many tasks of one instance run, and however
// long they take or hang, each of the others runs at least one. Beyond that, a
// turn that becomes free goes to the runtime that has a task waiting and runs
// the fewest, whatever its Slots are; among equals to the one whose latest turn
// is the oldest. No task is stopped for it.
type Turns struct {
	// Total is the number of turns. Required; at least one for each runtime.
	Total int

	mu      sync.Mutex
	players []*player
	taken   int    // by all of them
	given   uint64 // turns so far, which numbers them
}

// player is a runtime among those that share Turns. A nil one has as many turns
// as it likes. It calls nobody back, so its methods may be called under locks.
type player struct {
	turns *Turns
	wake  signal // there may be a turn for a waiting task

	// The lock of turns guards the rest.
	taken   int
	last    uint64 // the number of its latest turn
	waiting bool   // it has a task that could start with a turn
}

func (t *Turns) join() (*player, error) {
	if t == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.players) >= t.Total {
		return nil, fmt.Errorf("runtime: there are %d turns and more runtimes that share them; each needs one, so raise their total", t.Total)
	}
	p := &player{turns: t, wake: newSignal()}
	t.players = append(t.players, p)
	return p, nil
}

// leave is for a runtime that starts no task any more. It may be called again.
func (p *player) leave() {
	if p == nil {
		return
	}
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.players = slices.DeleteFunc(t.players, func(other *player) bool { return other == p })
	t.wakeNext()
}

// take answers whether one more task may start. When it may not, the runtime
// is woken when it may.
func (p *player) take() bool {
	if p == nil {
		return true
	}
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.may() {
		p.has()
		return true
	}
	p.waiting = true
	t.wakeNext()
	return false
}

// pass says that there is no task which could start with a turn.
func (p *player) pass() {
	if p == nil {
		return
	}
	p.turns.mu.Lock()
	defer p.turns.mu.Unlock()
	p.waiting = false
	p.turns.wakeNext()
}

// end is for a task that has ended. again says that there is another which could
// start in its place; the answer is whether it may.
func (p *player) end(again bool) bool {
	if p == nil {
		return again
	}
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	p.taken--
	t.taken--
	if again && p.may() {
		p.has()
		return true
	}
	p.waiting = p.waiting || again
	t.wakeNext()
	return false
}

// expect answers how many tasks may run, those that do among them. In line it
// is what will be free for it once tasks of others end, as long as the same
// runtimes have work; otherwise what is free now.
func (p *player) expect(inLine bool) int {
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	now := p.taken + p.room()
	if !inLine {
		return now
	}
	busy := 1
	for _, other := range t.players {
		if other != p && (other.taken > 0 || other.waiting) {
			busy++
		}
	}
	kept := len(t.players) - busy
	return max(now, (t.Total-kept)/busy)
}

// has enters a turn. It needs the lock.
func (p *player) has() {
	t := p.turns
	p.taken++
	t.taken++
	t.given++
	p.last = t.given
}

// may answers whether there is a turn for the player and nobody else who waits
// goes first. It needs the lock.
func (p *player) may() bool {
	return p.room() > 0 && !slices.ContainsFunc(p.turns.players, func(other *player) bool {
		return other != p && other.waiting && other.before(p)
	})
}

// room answers how many turns are free for the player. It needs the lock.
func (p *player) room() int {
	t := p.turns
	free := t.Total - t.taken
	room := free
	for _, other := range t.players {
		if other != p && other.taken == 0 {
			room--
		}
	}
	if p.taken == 0 {
		room = max(room, 1)
	}
	return max(0, min(room, free))
}

// before answers whether the player goes before another. It needs the lock.
func (p *player) before(other *player) bool {
	if p.taken != other.taken {
		return p.taken < other.taken
	}
	return p.last < other.last
}

// wakeNext wakes whoever is next, when there is a turn for it. It needs the lock.
func (t *Turns) wakeNext() {
	var next *player
	for _, p := range t.players {
		if p.waiting && (next == nil || p.before(next)) {
			next = p
		}
	}
	if next != nil && next.room() > 0 {
		next.wake.raise()
	}
}

// lineRest is how long nothing is leased to wait for the turns of others, after
// tasks have waited for them in vain: long enough for an idle process elsewhere
// to find these tasks.
const lineRest = 4 * DefaultIdlePoll

// expect answers how many slots to lease for. Where turns are shared it is not
// what is free now, or a runtime with nothing in line would never get what ends
// elsewhere. It needs the lock of the book.
func (g *group) expect(now time.Time) int {
	if g.player == nil {
		return g.slots
	}
	return min(g.slots, g.player.expect(now.Sub(g.gaveBack) >= lineRest))
}

// takeTurns starts waiting tasks when there are turns for them, whatever the
// store is doing, until the store calls end.
func (l *loop) takeTurns(wake signal) {
	for {
		select {
		case <-l.calls.Done():
			return
		case <-wake:
			l.dispatch()
		}
	}
}
