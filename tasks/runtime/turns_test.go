package runtime

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sharers drives Turns by hand: runtimes that share them, each with so many
// tasks that could start.
type sharers struct {
	*rapid.T
	turns   *Turns
	players []*player
	ready   []int // tasks that could start, of each
	running []int
	passed  [][]int // [i][j]: turns that j got while i waited, ran no more than j, and got none
	late    bool    // one came when others had taken what would be kept for it
}

func newSharers(t *rapid.T) *sharers {
	n := rapid.IntRange(1, 5).Draw(t, "runtimes")
	s := &sharers{T: t, turns: &Turns{Total: rapid.IntRange(n, 12).Draw(t, "total")}}
	for range n {
		s.join()
	}
	return s
}

func (s *sharers) join() {
	p, err := s.turns.join()
	if err != nil {
		s.Skip(err)
	}
	s.players = append(s.players, p)
	s.ready, s.running = append(s.ready, 0), append(s.running, 0)
	s.passed = append(s.passed, nil)
	for i := range s.passed {
		s.passed[i] = make([]int, len(s.passed))
	}
}

func (s *sharers) leave(i int) {
	s.players[i].leave()
	s.players, s.ready = slices.Delete(s.players, i, i+1), slices.Delete(s.ready, i, i+1)
	s.running, s.passed = slices.Delete(s.running, i, i+1), slices.Delete(s.passed, i, i+1)
	for j := range s.passed {
		s.passed[j] = slices.Delete(s.passed[j], i, i+1)
	}
}

// fill is what a runtime does when tasks came, or when it was woken.
func (s *sharers) fill(i int) {
	for s.ready[i] > 0 && s.players[i].take() {
		s.ready[i]--
		s.started(i)
	}
	if s.ready[i] == 0 {
		s.players[i].pass()
	}
	s.quiet()
}

// end is a task that ends.
func (s *sharers) end(i int) {
	s.running[i]--
	if s.players[i].end(s.ready[i] > 0) {
		s.ready[i]--
		s.started(i)
	}
	s.quiet()
}

// started notes a turn of i, and whom it overtook.
func (s *sharers) started(i int) {
	before := s.running[i]
	s.running[i]++
	for other, p := range s.players {
		switch {
		case other == i:
			clear(s.passed[i])
		case p.waiting && s.ready[other] > 0 && s.running[other] <= before:
			if s.passed[other][i]++; s.passed[other][i] > 1 {
				s.Fatalf("runtime %d got %d turns with at least as many running as %d, which waited for one", i, s.passed[other][i], other)
			}
		}
	}
}

// quiet forgets whom somebody overtook who does not wait any more.
func (s *sharers) quiet() {
	for i, p := range s.players {
		if !p.waiting {
			clear(s.passed[i])
		}
	}
}

// wake lets a runtime that was woken do its work, and answers whether there was
// one. Which comes first is drawn.
func (s *sharers) wake() bool {
	var woken []int
	for i, p := range s.players {
		if len(p.wake) > 0 {
			woken = append(woken, i)
		}
	}
	if woken == nil {
		return false
	}
	i := rapid.SampledFrom(woken).Draw(s.T, "woken")
	<-s.players[i].wake
	s.fill(i)
	return true
}

// atRest is what must be so when everybody who was woken has done its work.
func (s *sharers) atRest() {
	total := 0
	for _, n := range s.running {
		total += n
	}
	for i, ready := range s.ready {
		if ready == 0 {
			continue
		}
		kept := 0
		for j, n := range s.running {
			if j != i && n == 0 {
				kept++
			}
		}
		if s.running[i] == 0 && (!s.late || s.turns.Total > total) {
			s.Fatalf("runtime %d has tasks and runs none: %v run, %v are ready", i, s.running, s.ready)
		}
		if s.turns.Total-total > kept {
			s.Fatalf("runtime %d waits and %d of %d turns are free, %d of them kept: %v run, %v are ready",
				i, s.turns.Total-total, s.turns.Total, kept, s.running, s.ready)
		}
	}
}

func (s *sharers) Check(*rapid.T) {
	total := 0
	for i, n := range s.running {
		total += n
		if s.players[i].taken != n {
			s.Fatalf("runtime %d runs %d tasks with %d turns", i, n, s.players[i].taken)
		}
	}
	if total > s.turns.Total {
		s.Fatalf("%d tasks run with %d turns", total, s.turns.Total)
	}
}

// Whatever runtimes do, and in whatever order they come to notice: never more
// run than there are turns; who has tasks runs at least one; no turn is free
// that somebody could use, but those that are kept for who runs nothing; and
// while a runtime waits, none that runs as many or more gets two turns.
func TestTurnsAreNeverTooManyNeverIdleAndNeverUnfair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSharers(t)
		one := func(t *rapid.T) int {
			if len(s.players) == 0 {
				t.Skip("all have left")
			}
			return rapid.IntRange(0, len(s.players)-1).Draw(t, "runtime")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": s.Check,
			"come": func(t *rapid.T) {
				i := one(t)
				s.ready[i] += rapid.IntRange(1, 20).Draw(t, "tasks")
				s.fill(i)
			},
			"go back": func(t *rapid.T) {
				s.ready[one(t)] = 0 // it does not tell
			},
			"end": func(t *rapid.T) {
				i := one(t)
				if s.running[i] == 0 {
					t.Skip("it runs nothing")
				}
				s.ready[i] += rapid.IntRange(0, 1).Draw(t, "of a class that was full")
				s.end(i)
			},
			"join": func(*rapid.T) {
				s.join()
				s.late = true
			},
			"leave": func(t *rapid.T) {
				i := one(t)
				if s.ready[i]+s.running[i] > 0 {
					t.Skip("it has work")
				}
				s.leave(i)
			},
			"wake": func(t *rapid.T) {
				if !s.wake() {
					t.Skip("nobody was woken")
				}
			},
			"rest": func(*rapid.T) {
				for s.wake() {
				}
				s.atRest()
			},
		})
	})
}

// All flood: what ends is started again. Each has its share before long, however
// unequal they were.
func TestTurnsBecomeEqualWhoeverHadThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSharers(t)
		for i := range s.players { // the first takes what it can
			s.ready[i] = 1000
			s.fill(i)
		}
		for range 2 * s.turns.Total {
			busiest := slices.Index(s.running, slices.Max(s.running))
			s.end(busiest)
			for s.wake() {
			}
			s.atRest()
		}
		if apart := slices.Max(s.running) - slices.Min(s.running); apart > 1 {
			t.Errorf("%v run", s.running)
		}
	})
}

func TestEachRuntimeNeedsATurnOfItsOwn(t *testing.T) {
	turns := &Turns{Total: 2}
	p, err := turns.join()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turns.join(); err != nil {
		t.Fatal(err)
	}
	if _, err := turns.join(); err == nil {
		t.Error("three runtimes share two turns")
	}
	p.leave()
	p.leave()
	if _, err := turns.join(); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

func TestARuntimeLeasesForTheTurnsThatItMayExpect(t *testing.T) {
	for _, c := range []struct {
		total        int
		running      []int
		waiting      int // runtimes, from the first
		free, inLine int
	}{
		{total: 12, running: []int{0}, free: 12, inLine: 12},
		{total: 12, running: []int{0, 0}, free: 11, inLine: 11},
		{total: 12, running: []int{4, 0}, free: 11, inLine: 11},
		{total: 12, running: []int{0, 11}, free: 1, inLine: 6},
		{total: 12, running: []int{1, 11}, free: 1, inLine: 6},
		{total: 12, running: []int{3, 8, 0}, free: 3, inLine: 5},
		{total: 12, running: []int{3, 9, 0}, waiting: 3, free: 3, inLine: 4},
		{total: 12, running: []int{9, 3}, waiting: 2, free: 9, inLine: 9},
	} {
		t.Run(fmt.Sprint(c.running), func(t *testing.T) {
			turns := &Turns{Total: c.total}
			var first *player
			for i, n := range c.running {
				p, err := turns.join()
				if err != nil {
					t.Fatal(err)
				}
				p.taken, p.waiting = n, i < c.waiting
				turns.taken += n
				if i == 0 {
					first = p
				}
			}
			if free, inLine := first.expect(false), first.expect(true); free != c.free || inLine != c.inLine {
				t.Errorf("it expects %d now and %d in line, want %d and %d", free, inLine, c.free, c.inLine)
			}
		})
	}
}
