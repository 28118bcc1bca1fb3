package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// side is what performs the operations that ours is held against: Stock, or
// what was recorded of it.
type side interface {
	clear(ctx context.Context) error
	pass(ctx context.Context, seconds int64) error
	perform(ctx context.Context, a ask, now int64) (after State, threw string, err error)

	// write makes one state of another: what a deviation expects instead.
	write(ctx context.Context, from, to State) error
}

// ask is what stock Phorge is asked to do, and our store in the same words.
type ask struct {
	op    Op
	lease int   // the number of the lease, of Lease and Taskmaster
	held  *held // of Execute

	// What deviations have stock Phorge asked instead.
	queries []query // of Lease, one after the other, until there are enough
	revive  bool    // of Execute: the lease has not ended
}

// query is a PhabricatorWorkerLeaseQuery.
type query struct {
	limit int
	tasks []int // withIDs; nil: all
}

// Runner runs sequences on both sides. It is not safe for concurrent use.
type Runner struct {
	ours  *Ours
	stock side

	// Without names a deviation that is not allowed, for the proof that it is
	// needed.
	Without string

	// After, when it is set, is called after our store did an operation and
	// before the rows are read: for tests, which change one to see that it is
	// found.
	After func(step int) error
}

// NewRunner holds our store against stock Phorge.
func NewRunner(stock *Stock, ours *Ours) *Runner { return &Runner{ours: ours, stock: stock} }

// Step is an operation that was performed, and what stock Phorge made of it.
type Step struct {
	Op      Op      `json:"op"`
	Threw   string  `json:"threw,omitempty"` // the class of what Phorge threw
	Changes Changes `json:"rows,omitempty"`
}

// Difference is where the two copies are no longer equal.
type Difference struct {
	Steps []Step // the last one differs
	Want  State  // stock Phorge, with what deviations expect instead
	Got   State  // ours
}

// tears bounds how often a sequence is run again because a second ended within
// an operation.
const tears = 20

// Run performs a sequence from an empty queue on. It answers what was performed,
// and where the copies differ, nil if they never do.
func (r *Runner) Run(ctx context.Context, ops []Op) ([]Step, *Difference, error) {
	for try := 1; ; try++ {
		s := sequence{Runner: r, state: State{}}
		difference, err := s.run(ctx, ops)
		if !errors.Is(err, errTorn) || try == tears {
			return s.steps, difference, err
		}
	}
}

// sequence is a run of one.
type sequence struct {
	*Runner
	now    int64
	state  State // of both copies
	held   []held
	leases int
	steps  []Step
}

func (s *sequence) run(ctx context.Context, ops []Op) (*Difference, error) {
	if err := errors.Join(s.stock.clear(ctx), s.ours.clear(ctx)); err != nil {
		return nil, err
	}
	for _, op := range ops {
		op, ok := op.resolve(s.state.tasks(), len(s.held))
		if !ok {
			continue
		}
		if difference, err := s.step(ctx, op); difference != nil || err != nil {
			return difference, err
		}
	}
	return nil, nil
}

func (s *sequence) step(ctx context.Context, op Op) (*Difference, error) {
	if op.Do == Pass {
		s.now += op.Seconds
		s.steps = append(s.steps, Step{Op: op})
		return nil, errors.Join(s.stock.pass(ctx, op.Seconds), s.ours.pass(ctx, op.Seconds))
	}
	a := s.ask(op)
	after, threw, err := s.stock.perform(ctx, a, s.now)
	if err != nil {
		return nil, fmt.Errorf("step %d, %s: %w", len(s.steps)+1, op, err)
	}
	class, _, _ := strings.Cut(threw, ":")
	s.steps = append(s.steps, Step{op, class, s.state.changesTo(after)})
	want := s.expect(a, after)
	if err := s.stock.write(ctx, after, want); err != nil {
		return nil, err
	}
	var got State
	if op.foreign() {
		if err = s.ours.carry(ctx, a, s.state, want); err == nil {
			got, err = s.ours.read(ctx)
		}
	} else {
		got, err = s.onOurs(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	if len(want.changesTo(got)) > 0 {
		return &Difference{s.steps, want, got}, nil
	}
	s.hold(a, want)
	s.state = want
	return nil, nil
}

func (s *sequence) onOurs(ctx context.Context, a ask) (State, error) {
	got, err := s.ours.perform(ctx, a, s.now)
	if err != nil || s.After == nil {
		return got, err
	}
	if err := s.After(len(s.steps)); err != nil {
		return nil, err
	}
	return s.ours.read(ctx)
}

// ask says what stock Phorge is asked, as deviations have it.
func (s *sequence) ask(op Op) ask {
	a := ask{op: op}
	switch op.Do {
	case Lease, Taskmaster:
		s.leases++
		a.lease = s.leases
		if op.Do == Lease {
			a.queries = s.queries(op.Limit)
		}
	case Execute:
		h := s.held[op.Held-1]
		a.held = &h
		a.revive = s.revives(*op.Outcome, a.held)
	}
	return a
}

// hold notes what was leased, and what is no longer.
func (s *sequence) hold(a ask, after State) {
	switch a.op.Do {
	case Execute:
		s.held = slices.Delete(s.held, a.op.Held-1, a.op.Held)
	case Lease:
		for n := range after.tasks() {
			h := held{lease: a.lease, task: n + 1, since: s.now}
			if row := after[active(h.task)]; row["leaseOwner"] == h.owner() {
				h.priority = row["priority"]
				s.held = append(s.held, h)
			}
		}
	}
}

// String is the sequence as a script, and what differs after its last line.
func (d *Difference) String() string {
	var b strings.Builder
	for i, step := range d.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, step.Op)
	}
	b.WriteString("Then the rows differ (- stock Phorge, with the declared deviations; + ours):\n")
	changes := d.Want.changesTo(d.Got)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		want, got := d.Want[name], d.Got[name]
		for _, column := range slices.Sorted(maps.Keys(union(want, got))) {
			if line := column + " " + shown(want, column); line != column+" "+shown(got, column) {
				fmt.Fprintf(&b, "   - %s: %s\n   + %s: %s %s\n", name, line, name, column, shown(got, column))
			}
		}
	}
	if threw := d.Steps[len(d.Steps)-1].Threw; threw != "" {
		fmt.Fprintf(&b, "Stock Phorge threw %s.\n", threw)
	}
	return b.String()
}

func union(a, b Row) Row {
	all := maps.Clone(a)
	if all == nil {
		all = Row{}
	}
	maps.Copy(all, b)
	return all
}

func shown(row Row, column string) string {
	if row == nil {
		return "(no such row)"
	}
	if value, ok := row[column]; ok {
		return value
	}
	return "NULL"
}
