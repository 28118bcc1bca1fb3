package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/contract"
)

// Suite is cases of a folder that are run one after the other.
type Suite struct {
	Folder *contract.Folder
	Cases  []contract.Case // those of the folder, or some

	// Timeout is how long one run of a case may take. 0: what the manifest says
	// of the class as its deadline, or else 60 s.
	Timeout time.Duration

	// Tell is called before each case, for whoever waits. May be nil.
	Tell func(done int, c contract.Case)
}

// each runs something for each case and answers the results in the order of the
// cases. They run in the order of contract.ByOptions. When it is interrupted, the results are of the cases
// that ran until then.
func (s *Stage) each(ctx context.Context, u Suite, do func(c contract.Case, r *contract.Result)) (contract.Report, error) {
	report := contract.Report{Name: u.Folder.Name(), Results: make([]contract.Result, len(u.Cases))}
	order := make([]int, len(u.Cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return contract.ByOptions(u.Cases[a], u.Cases[b]) })
	s.mu.Lock()
	s.timeout = u.Timeout
	s.mu.Unlock()
	ran := make([]bool, len(u.Cases))
	for done, i := range order {
		if ctx.Err() != nil {
			break
		}
		if u.Tell != nil {
			u.Tell(done, u.Cases[i])
		}
		r := &report.Results[i]
		began := time.Now()
		r.Case = u.Cases[i]
		do(r.Case, r)
		r.Duration, ran[i] = time.Since(began), true
		if ctx.Err() != nil {
			r.Err, report.Interrupted, report.Missing = errors.New("interrupted while it ran"), r.Case.Name, len(order)-done-1
		}
	}
	done := report.Results[:0]
	for i, r := range report.Results {
		if ran[i] {
			done = append(done, r)
		}
	}
	report.Results = done
	return report, ctx.Err()
}

// Verify holds Go against the goldens of the cases. Each case runs in shadow
// first, which must leave no trace and note the requests that the real run then
// sends. Tables must be there already: see Prepare.
func (s *Stage) Verify(ctx context.Context, u Suite, side Shadower) (contract.Report, error) {
	return s.each(ctx, u, func(c contract.Case, r *contract.Result) {
		want, err := u.Folder.Want(c)
		if err == nil {
			err = u.Folder.Current(c)
		}
		if err != nil {
			r.Err = err
			return
		}
		var f finding
		f, r.Err = s.observeGo(ctx, c, side, want)
		f.tell(r)
	})
}

// finding is what came of a case on both sides.
type finding struct {
	contract.Pair
	shadow  contract.Outcome
	printed func() []string // by the handler; nil: nobody looked
}

// tell puts into a result what a person wants to know of it.
func (f finding) tell(r *contract.Result) {
	r.Differences = f.Differences
	if r.Status() == contract.StatusEqual {
		return
	}
	if f.printed != nil {
		r.Printed = f.printed()
	}
	say := func(who, text string) {
		if text != "" {
			r.Reasons = append(r.Reasons, contract.Reason{Who: who, Text: text})
		}
	}
	if r.Case.Deviation == nil {
		say("PHP", f.Want.Outcome.Reason)
	} else {
		say("Declared", f.Want.Outcome.Reason)
	}
	say("Go", f.Got.Outcome.Reason)
	if f.shadow.Kind != f.Got.Outcome.Kind {
		say("Go in shadow", f.shadow.Reason)
	}
}

// observeGo runs a case in shadow and then really, and answers in what that is
// not what is wanted.
func (s *Stage) observeGo(ctx context.Context, c contract.Case, side Shadower, want contract.Observation) (f finding, err error) {
	f.Want = want
	printed := takePrinted(side)
	f.printed = func() []string { return printed(true) }
	shadow, err := s.Shadow(ctx, c, side)
	if err != nil {
		return f, err
	}
	f.shadow = shadow.outcome
	inShadow := printed(false)
	if f.Got, err = s.Run(ctx, c, side); err != nil {
		return f, err
	}
	f.Differences = contract.Compare(c, want, f.Got)
	if wrong := shadow.Against(c, f.Got); len(wrong) > 0 {
		f.Differences = append(f.Differences, wrong...)
		f.printed = func() []string { return append(inShadow, printed(true)...) }
	}
	return f, nil
}

// Live runs both sides now and compares them. Of a case with a deviation, Go is
// held against what was recorded of it, and PHP against its golden. With shrink,
// a case in which the sides differ is made smaller for as long as they differ in
// the same way.
func (s *Stage) Live(ctx context.Context, u Suite, php Side, side Shadower, shrink bool) (contract.Report, error) {
	return s.each(ctx, u, func(c contract.Case, r *contract.Result) {
		var f finding
		f, r.Err = s.bothSides(ctx, u.Folder, c, php, side)
		f.tell(r)
		if !shrink || len(r.Differences) == 0 {
			return
		}
		small := f
		smaller := contract.Shrink(c, func(c contract.Case) bool {
			now, err := s.bothSides(ctx, u.Folder, c, php, side)
			if err != nil || !f.Kin(now.Pair) {
				return false
			}
			small = now
			return true
		})
		r.Shrunk = &contract.Shrunk{Case: contract.SmallerOf(c, smaller), Differences: small.Differences}
	})
}

func (s *Stage) bothSides(ctx context.Context, folder *contract.Folder, c contract.Case, php Side, side Shadower) (finding, error) {
	want, err := s.Run(ctx, c, php)
	if err == nil {
		err = isKnown(c, want)
	}
	if err != nil {
		return finding{}, fmt.Errorf("PHP: %w", err)
	}
	if c.Deviation != nil {
		golden, err := folder.Golden(c.Name)
		if err == nil {
			err = folder.Current(c)
		}
		if err != nil {
			return finding{}, err
		}
		if differences := contract.Compare(plain(c), golden, want); len(differences) > 0 {
			return finding{}, fmt.Errorf("PHP no longer does what was recorded, and the deviation was declared from: %s; record the case again", fieldsOf(differences))
		}
		if want, err = folder.GoldenOfGo(c.Name); err != nil {
			return finding{}, err
		}
	}
	f, err := s.observeGo(ctx, c, side, want)
	if err != nil {
		err = fmt.Errorf("Go: %w", err)
	}
	return f, err
}
