package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) contractRecordCommand() *cobra.Command {
	var arcanist string
	var update bool
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record what PHP does with the cases",
		Long: `Run each case in PHP and record what comes of it beside the cases: in golden/, and
in schema.sql the tables that the cases name. What Go is to do in a case that
declares a deviation is recorded from its handler binary, which needs --plugins.

` + aboutScratch + `

Each case runs twice, and both runs must come to the same. A record that says
something else already is shown and left as it is, and the exit code is 1; with
--update it is written over. A table that a class reads and that no case puts rows
into is recorded when world.yaml names it, with an empty list of rows.

A run of a case that takes longer than --timeout is ended, and the case reported as
one that could not run.

A class or an option that this Phorge does not have is refused. The scratch copy
has no libraries but Gantry's.

Exit codes: 1 when a record was not made, 2 when the cases or the command line are
wrong, 3 when MariaDB or the Phorge cannot be had.`,
		Example: `  gantry contract record --cases cases --phorge /opt/phorge
  gantry contract record --cases cases --phorge /opt/phorge --only 'silent-*' --update`,
	}
	addArcanist(cmd, &arcanist)
	cmd.Flags().BoolVar(&update, "update", false, "write over records that say something else")
	return a.suiteCommand(cmd, func(ctx context.Context, c *config, u stage.Suite) error {
		from, err := checkouts(c, arcanist)
		if err != nil {
			return err
		}
		manifest, err := forDeviations(c, u.Cases)
		if err != nil {
			return err
		}
		return a.record(ctx, u, manifest, from, update, a.caseLogger(c))
	})
}

// deviating answers the cases that declare a deviation.
func deviating(cases []contract.Case) []contract.Case {
	return slices.DeleteFunc(slices.Clone(cases), func(c contract.Case) bool { return c.Deviation == nil })
}

// forDeviations answers the manifest where a case declares a deviation, and nil
// where none does.
func forDeviations(c *config, cases []contract.Case) (*host.Manifest, error) {
	declared := deviating(cases)
	if len(declared) == 0 {
		return nil, nil
	}
	manifest, err := handlersFor(c, declared)
	if err != nil {
		return nil, coded{fmt.Errorf("case %s declares that Go does something else, which its handler binary has to show: %w", declared[0].Name, err), exitUsage}
	}
	return manifest, nil
}

func (a *app) record(ctx context.Context, u stage.Suite, manifest *host.Manifest, from scratch.Checkouts, update bool, log zerolog.Logger) error {
	g, err := a.startPhorge(ctx, from, u.Cases, log)
	if err != nil {
		return err
	}
	var side stage.Side
	if manifest != nil {
		if side, err = g.handlers(ctx, manifest, deviating(u.Cases), log); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	a.watchCases(&u)
	goldens, err := g.stage.Record(ctx, u, g.php, side, update)
	return errors.Join(err, g.Close(), a.printGoldens(goldens))
}

// goldenReport is what became of a record, as it is printed.
type goldenReport struct {
	Case        string           `json:"case"`
	Side        string           `json:"side"`
	Recorded    stage.Recorded   `json:"recorded,omitempty"`
	Error       string           `json:"error,omitempty"`
	Differences []recordedChange `json:"differences,omitempty"`
}

type recordedChange struct {
	Field    string  `json:"field"`
	Recorded *string `json:"recorded"`
	Now      *string `json:"now"`
}

// printGoldens tells what became of the records, and answers an error when one
// was not made.
func (a *app) printGoldens(goldens []stage.Golden) error {
	counts := map[stage.Recorded]int{}
	failed := 0
	for _, g := range goldens {
		if g.Err != nil {
			failed++
		} else {
			counts[g.Recorded]++
		}
		if err := a.printGolden(g); err != nil {
			return err
		}
	}
	if !a.print.json {
		a.print.linef("%d new, %d the same, %d updated, %d refused, %d failed",
			counts[stage.RecordedNew], counts[stage.RecordedSame], counts[stage.RecordedOver], counts[stage.RecordedNot], failed)
	}
	switch {
	case failed > 0:
		return coded{fmt.Errorf("%s could not be recorded", plural(failed, "case", "cases")), exitFailed}
	case counts[stage.RecordedNot] > 0:
		return coded{fmt.Errorf("%s recorded already, with something else; look at what changed, and write it over with --update", plural(counts[stage.RecordedNot], "case is", "cases are")), exitFailed}
	}
	return nil
}

func (a *app) printGolden(g stage.Golden) error {
	r := goldenReport{Case: g.Case.Name, Side: g.Side, Recorded: g.Recorded}
	if g.Err != nil {
		r.Error = g.Err.Error()
	}
	for _, d := range g.Differences {
		r.Differences = append(r.Differences, recordedChange{d.Field, d.Want, d.Got})
	}
	if a.print.json {
		return a.print.document(r)
	}
	switch {
	case g.Err != nil:
		a.print.linef("%s (%s): %s", r.Case, r.Side, plain(r.Error))
	case g.Recorded != stage.RecordedSame:
		a.print.linef("%s (%s): %s", r.Case, r.Side, r.Recorded)
	}
	for _, d := range r.Differences {
		a.print.linef("  %s", plain(d.Field))
		a.print.linef("    recorded: %s", shownValue(d.Recorded))
		a.print.linef("    now:      %s", shownValue(d.Now))
	}
	return nil
}

func shownValue(value *string) string {
	switch {
	case value == nil:
		return "nothing"
	case strings.Contains(*value, "\n"):
		return fmt.Sprintf("%q", *value)
	}
	return plain(*value)
}
