package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
)

// Recorded is what became of the golden of a case.
type Recorded string

// What becomes of a golden.
const (
	RecordedNew  Recorded = "new"     // there was none
	RecordedSame Recorded = "same"    // it says so already
	RecordedOver Recorded = "updated" // it said something else
	RecordedNot  Recorded = "kept"    // it says something else, and stays
)

// Golden is a golden that was to be recorded.
type Golden struct {
	Case        contract.Case
	Side        string // PHP, or Go for what a deviation declares
	Recorded    Recorded
	Differences []contract.Difference // between what it says, which is wanted, and what was observed now
	Err         error                 // there is no observation
}

// Record runs the cases on PHP, and those with a deviation on Go too, and keeps
// the observations as goldens, and the definitions of their tables. A golden
// that says something else is left as it is unless update is set, and so is the
// definition of a table, which is answered as the golden of SchemaCase then. Each
// case runs twice, and both runs must come to the same, or what differs by chance
// would be recorded as if it were a promise. side may be nil when no case has a
// deviation.
func (s *Stage) Record(ctx context.Context, u Suite, php, side Side, update bool) ([]Golden, error) {
	var goldens []Golden
	_, err := s.each(ctx, u, func(c contract.Case, _ *contract.Result) {
		goldens = append(goldens, s.record(ctx, u.Folder, c, "PHP", php, update))
		if c.Deviation != nil {
			goldens = append(goldens, s.record(ctx, u.Folder, c, "Go", side, update))
		}
	})
	if err != nil {
		return goldens, err
	}
	tables, err := u.Folder.Tables()
	if err != nil {
		return goldens, err
	}
	schema, err := s.Schema(ctx, tables)
	if err != nil {
		return goldens, err
	}
	g, err := saveSchema(u.Folder, schema, update)
	if len(g.Differences) > 0 {
		goldens = append(goldens, g)
	}
	return goldens, err
}

// SchemaCase is the name under which Record answers that tables are not defined
// as schema.sql says.
const SchemaCase = "schema.sql"

// saveSchema records the definitions of tables. Without update, those that are
// recorded stay, and others are added.
func saveSchema(folder *contract.Folder, now string, update bool) (Golden, error) {
	g := Golden{Case: contract.Case{Name: SchemaCase}, Side: "tables", Recorded: RecordedOver}
	was, err := folder.Schema()
	if errors.Is(err, fs.ErrNotExist) {
		return g, folder.SaveSchema(now)
	}
	if err != nil {
		return g, err
	}
	var kept string
	if kept, g.Differences = keepTables(was, now); !update {
		g.Recorded, now = RecordedNot, kept
	}
	return g, folder.SaveSchema(now)
}

func (s *Stage) record(ctx context.Context, folder *contract.Folder, c contract.Case, name string, side Side, update bool) Golden {
	g := Golden{Case: c, Side: name}
	if g.Err = ctx.Err(); g.Err != nil {
		return g
	}
	observed, err := s.twice(ctx, c, side)
	if err == nil {
		err = isKnown(c, observed)
	}
	if err != nil {
		g.Err = err
		return g
	}
	read, save := folder.Golden, folder.SaveGolden
	if name == "Go" {
		read, save = folder.GoldenOfGo, folder.SaveGoldenOfGo
	}
	was, err := read(c.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		g.Recorded = RecordedNew
	case err != nil:
		g.Err = err
		return g
	default:
		if g.Differences = contract.Compare(plain(c), was, observed); len(g.Differences) == 0 {
			g.Recorded, observed = RecordedSame, was // the case can be another one
			break
		}
		if g.Recorded = RecordedOver; !update {
			g.Recorded = RecordedNot
			return g
		}
	}
	g.Err = save(c, observed)
	return g
}

// isKnown answers an error when the Phorge does not have the class of a case. What
// it does then says nothing of the class, and the name was most likely mistyped.
func isKnown(c contract.Case, observed contract.Observation) error {
	if observed.Outcome.Category != "unknown-class" { // GantryTaskOutcome::CATEGORY_UNKNOWN_CLASS
		return nil
	}
	return fmt.Errorf("case %s: this Phorge has no class %s; write the class as its PHP does, or put a class of your own into src/extensions/ of the Phorge that is named: libraries that the configuration of a site loads are not in the scratch copy", c.Name, c.TaskClass)
}

// twice runs a case twice and answers what both runs came to.
func (s *Stage) twice(ctx context.Context, c contract.Case, side Side) (contract.Observation, error) {
	first, err := s.Run(ctx, c, side)
	if err != nil {
		return first, err
	}
	second, err := s.Run(ctx, c, side)
	if err != nil {
		return first, err
	}
	if differences := contract.Compare(plain(c), first, second); len(differences) > 0 {
		return first, fmt.Errorf("case %s: two runs of it differ:\n%s", c.Name, unstable(differences))
	}
	return first, nil
}

// unstable tells in what two runs of a side differ, and how a case declares that.
func unstable(differences []contract.Difference) string {
	var b strings.Builder
	declare := "make the world say it"
	var columns []string
	for _, d := range differences {
		fmt.Fprintf(&b, "%s\n", d.Field)
		for _, line := range d.Lines("first", "second") {
			fmt.Fprintf(&b, "  %s\n", line)
		}
		if column := d.Column(); column != "" && !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	if len(columns) > 0 {
		declare += ", or declare in the case what is volatile:\nvolatile:"
	}
	b.WriteString(declare)
	for _, column := range columns {
		fmt.Fprintf(&b, "\n  - column: %s\n    pattern: 'what stands around it (and in brackets what differs)'\n    reason: why two runs differ in it", column)
	}
	return b.String()
}

// plain is a case that is compared in everything.
func plain(c contract.Case) contract.Case {
	c.Declines = false
	return c
}

func fieldsOf(differences []contract.Difference) string {
	var fields []string
	for _, d := range differences {
		fields = append(fields, d.Field)
	}
	return strings.Join(fields, ", ")
}
