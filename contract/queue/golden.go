package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Golden is a sequence and what stock Phorge made of each operation, before
// deviations were applied.
type Golden struct {
	Name string

	// Without names a deviation that was not allowed, so that stock Phorge was
	// asked and its rows were left as if there were none.
	Without string

	Steps []Step
}

// line is one line of the file: the first of a golden, or a step.
type line struct {
	Name    string `json:"sequence,omitempty"`
	Without string `json:"without,omitempty"`
	*Step
}

// WriteGoldens writes a line of JSON for each golden and one for each of its
// steps.
func WriteGoldens(w io.Writer, goldens []Golden) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	for _, g := range goldens {
		if err := e.Encode(line{Name: g.Name, Without: g.Without}); err != nil {
			return fmt.Errorf("write the golden %q: %w", g.Name, err)
		}
		for i := range g.Steps {
			if err := e.Encode(line{Step: &g.Steps[i]}); err != nil {
				return fmt.Errorf("write the golden %q: %w", g.Name, err)
			}
		}
	}
	if _, err := text.WriteTo(w); err != nil {
		return fmt.Errorf("write goldens: %w", err)
	}
	return nil
}

// ReadGoldens reads what WriteGoldens wrote.
func ReadGoldens(r io.Reader) ([]Golden, error) {
	var goldens []Golden
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	for {
		var l line
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF):
			return goldens, nil
		case err != nil:
			return nil, fmt.Errorf("read goldens, behind %d of them: %w", len(goldens), err)
		case l.Name != "":
			goldens = append(goldens, Golden{Name: l.Name, Without: l.Without})
		case len(goldens) == 0 || l.Step == nil:
			return nil, errors.New("read goldens: a step stands before the first sequence")
		default:
			last := &goldens[len(goldens)-1]
			last.Steps = append(last.Steps, *l.Step)
		}
	}
}

// Ops answers the operations of a golden.
func (g Golden) Ops() []Op { return performed(g.Steps) }

// Replay holds our store against a golden. It answers where it differs, nil when
// it never does. Without and After of the runner count as in Run.
func (r *Runner) Replay(ctx context.Context, g Golden) (*Difference, error) {
	replay := *r
	replay.stock = &recorded{golden: g}
	steps, difference, err := replay.Run(ctx, g.Ops())
	if err == nil && difference == nil && len(steps) != len(g.Steps) {
		err = fmt.Errorf("%d of the %d operations of %q had a task or a lease to act on; record it again", len(steps), len(g.Steps), g.Name)
	}
	return difference, err
}

// NewReplay holds our store against goldens alone.
func NewReplay(ours *Ours) *Runner { return &Runner{ours: ours} }

// recorded is stock Phorge as it was.
type recorded struct {
	golden Golden
	next   int
	state  State
}

func (r *recorded) clear(context.Context) error {
	r.next, r.state = 0, State{}
	return nil
}

func (r *recorded) pass(context.Context, int64) error {
	r.next++
	return nil
}

func (r *recorded) perform(_ context.Context, a ask, _ int64) (State, string, error) {
	step := r.golden.Steps[r.next]
	if !reflect.DeepEqual(step.Op, a.op) {
		return nil, "", fmt.Errorf("the golden %q has %q here; record it again", r.golden.Name, step.Op)
	}
	r.next++
	return r.state.with(step.Changes), step.Threw, nil
}

func (r *recorded) write(_ context.Context, _, to State) error {
	r.state = to
	return nil
}
