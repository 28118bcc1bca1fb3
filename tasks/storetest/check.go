package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// Rule names what a history can violate.
type Rule string

// The rules of Check.
const (
	// TaskLost: a task was queued and is neither active nor archived.
	TaskLost Rule = "task lost"

	// TaskFromNowhere: a task that nobody queued, or a follow-up that was
	// queued twice.
	TaskFromNowhere Rule = "task from nowhere"

	// FollowUpLost: a task succeeded and one of its follow-ups is not there.
	FollowUpLost Rule = "follow-up lost"

	// TaskChanged: a row holds another class or other data than was queued.
	TaskChanged Rule = "task changed"

	// AnswerMisplaced: the items of an answer are not those of the call.
	AnswerMisplaced Rule = "answer about something else"

	// SettledTwice: two outcomes were accepted where one had ended the task.
	SettledTwice Rule = "settled twice"

	// SettledUnheld: an outcome was accepted under a lease that had ended.
	SettledUnheld Rule = "settled without holding the lease"

	// RenewedUnheld: a lease was renewed that had ended.
	RenewedUnheld Rule = "renewed without holding the lease"

	// HeldRefused: a lease that was held, or a settlement that had taken
	// effect, was called lost.
	HeldRefused Rule = "held lease called lost"

	// LeasedLive: a task was leased while another lease of it lived.
	LeasedLive Rule = "leased while another lease lived"

	// LeasedEarly: a task was leased before it was due.
	LeasedEarly Rule = "leased before it was due"

	// OwnerReused: two calls of Lease answered the same owner.
	OwnerReused Rule = "owner used for two leases"

	// LeasedEnded: a task was leased after it had been archived.
	LeasedEnded Rule = "leased after it was archived"

	// PlaceUnexplained: a row stands where none of the recorded calls put it.
	PlaceUnexplained Rule = "row changed by nobody"

	// RanUnleased: a task ran without a lease, or after its lease was settled.
	RanUnleased Rule = "ran without a lease"

	// RanTwice: a task ran twice under one lease, or again after an outcome
	// that ended it.
	RanTwice Rule = "ran twice"

	// NeverRan: a task is archived as successful and did not run to its end
	// under the lease that settled it.
	NeverRan Rule = "succeeded without running"
)

// Violation is one thing that must not have happened.
type Violation struct {
	Rule Rule
	ID   int64
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("task %d: %s: %s", v.ID, v.Rule, v.Text) }

// Report is what Check found.
type Report struct {
	Tasks      int // tasks of the final state
	Archived   int // of them archived
	Executions int

	// Repeats counts executions of a task after its first one. Each is
	// explained by an outcome that asked for another attempt, by a lease that
	// was lost, or it is a violation.
	Repeats int
	Asked   int
	Lost    int

	Violations []Violation
}

// Count answers how many violations of some rules there are.
func (r Report) Count(rules ...Rule) int {
	n := 0
	for _, v := range r.Violations {
		if slices.Contains(rules, v.Rule) {
			n++
		}
	}
	return n
}

// Check proves that a history and the rows it ended with are what a correct
// store and correct callers produce. The events may come from several
// processes of one machine, in any order; the queue was empty when the history
// began.
//
// For each task it looks for an order of the calls, one that keeps to real
// time, in which every answer is the right one and the last state is the final
// row. A call without an answer, or with one that does not say whether it was
// carried out, may take its place in that order or none. When there is no such
// order, the violation names the answer that fits nowhere.
func Check(history []Event, final []tasks.Record) Report {
	c := newChecker(history, final)
	c.report.Tasks = len(final)
	for _, record := range final {
		if record.Archive != nil {
			c.report.Archived++
		}
	}
	for id := range c.ops {
		c.explain(id)
	}
	c.claim()
	c.executions()
	slices.SortFunc(c.report.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	return c.report
}

// call is a beginning and its answer.
type call struct {
	Event
	end      int64 // of the answer; math.MaxInt64 without one
	answered bool  // with an answer that says what was done
	refused  bool  // with an answer that says that nothing was done
	answers  []Item
}

// held names one lease of one task.
type held struct {
	id    int64
	owner string
}

type checker struct {
	calls  []call
	final  map[int64]tasks.Record
	report Report

	ops       map[int64][]op // what happened to each id
	swept     []call         // what happened to every id
	known     map[int64]Item // what an answer says was queued, by id
	disturbed map[int64]bool
	children  map[held][]Item  // the follow-ups that a lease's settlement answered
	owners    map[string]int64 // when the Lease call began that answered an owner
	settling  map[held][]call  // the settlements of a lease

	// clock is how far the database's clock is ahead of the machine's at most,
	// in nanoseconds.
	clock int64

	// Since when calls have an unknown effect.
	leasedUnknown  int64
	renewedUnknown map[string]int64 // by owner
	settledUnknown map[string]bool
}

func newChecker(history []Event, final []tasks.Record) *checker {
	c := &checker{
		calls:          pair(history),
		final:          map[int64]tasks.Record{},
		ops:            map[int64][]op{},
		known:          map[int64]Item{},
		disturbed:      map[int64]bool{},
		children:       map[held][]Item{},
		owners:         map[string]int64{},
		settling:       map[held][]call{},
		clock:          math.MaxInt64,
		leasedUnknown:  math.MaxInt64,
		renewedUnknown: map[string]int64{},
		settledUnknown: map[string]bool{},
	}
	for _, record := range final {
		c.final[record.ID] = record
		c.ops[record.ID] = nil
	}
	for _, call := range c.calls {
		c.noteSettling(call)
		if call.Op == OpDisturb && len(call.Items) == 0 {
			c.swept = append(c.swept, call)
		}
	}
	for _, call := range c.calls {
		c.read(call)
	}
	return c
}

// pair joins beginnings and answers, ordered by when the calls began.
func pair(history []Event) []call {
	type key struct {
		process string
		call    int64
	}
	answers := map[key]Event{}
	for _, e := range history {
		if e.Answer {
			answers[key{e.Process, e.Call}] = e
		}
	}
	var calls []call
	for _, e := range history {
		if e.Answer {
			continue
		}
		c := call{Event: e, end: math.MaxInt64}
		if a, ok := answers[key{e.Process, e.Call}]; ok {
			c.answers = a.Items
			c.refused = a.Refused
			c.answered = a.Failed == ""
			if c.answered || c.refused {
				c.end = a.At
			}
		}
		calls = append(calls, c)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.At, b.At) })
	return calls
}

func (c *checker) violate(rule Rule, id int64, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{rule, id, fmt.Sprintf(format, args...)})
}
