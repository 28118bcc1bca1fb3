package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// op is what one call did to one task.
type op struct {
	start, end int64

	// optional: the call may have had no effect, because its answer is unknown.
	optional bool

	// sweep: it is a disturbance of all expiries, and does what every other does.
	sweep bool

	// apply answers the row after the call, or why the call cannot have been
	// answered as it was while the row stood as it did.
	apply func(row) (row, *refusal)
}

type refusal struct {
	rule Rule
	why  string
}

func refuse(rule Rule, format string, args ...any) *refusal {
	return &refusal{rule, fmt.Sprintf(format, args...)}
}

// explain looks for an order of a task's calls in which every answer is right.
// A violation names the refusal at the point that the best order reached.
func (c *checker) explain(id int64) {
	first := row{is: absent}
	if _, known := c.known[id]; !known {
		if _, there := c.final[id]; !there && !c.disturbed[id] {
			c.violate(TaskFromNowhere, id, "it was worked on, nobody is known to have queued it, and it is in neither table")
			return
		}
		first.is = wild // claim tells whether somebody may have queued it
	}
	ops := slices.Concat(c.ops[id], c.sweeps(c.ops[id]), []op{c.observed(id)})
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(a.start, b.start) })
	s := search{ops: ops, done: make([]byte, len(ops)), dead: map[string]bool{}}
	if !s.from(first, 0) {
		c.violate(s.refusal.rule, id, "%s", s.refusal.why)
	}
}

// search goes through the orders that keep to real time: an operation comes
// next only when none that is still to come had ended before it began.
type search struct {
	ops  []op
	done []byte          // 0 or 1 an operation
	dead map[string]bool // what was tried in vain: done and row

	reached int
	refusal refusal
}

func (s *search) from(at row, depth int) bool {
	if s.finished() {
		return true
	}
	key := string(s.done) + fmt.Sprint(at)
	if s.dead[key] {
		return false
	}
	for _, optional := range []bool{false, true} {
		for _, i := range s.next(optional) {
			next, refused := s.ops[i].apply(at)
			if refused != nil {
				s.note(*refused, depth, optional)
				continue
			}
			if optional && next == at {
				continue // as if it had had no effect
			}
			s.done[i] = 1
			if s.from(next, depth+1) {
				return true
			}
			s.done[i] = 0
		}
	}
	s.dead[key] = true
	return false
}

// note keeps the first refusal of the order that got furthest.
func (s *search) note(r refusal, depth int, optional bool) {
	if !optional && (s.refusal.rule == "" || depth > s.reached) {
		s.reached, s.refusal = depth, r
	}
}

func (s *search) finished() bool {
	for i, o := range s.ops {
		if s.done[i] == 0 && !o.optional {
			return false
		}
	}
	return true
}

func (s *search) next(optional bool) []int {
	limit := int64(math.MaxInt64)
	for i, o := range s.ops {
		if s.done[i] == 0 && !o.optional {
			limit = min(limit, o.end)
		}
	}
	var next []int
	swept := false
	for i, o := range s.ops {
		if s.done[i] != 0 || o.optional != optional || o.start > limit || optional && o.sweep && swept {
			continue // of sweeps that may come at any time, one is as good as another
		}
		swept = swept || o.sweep
		next = append(next, i)
	}
	return next
}
