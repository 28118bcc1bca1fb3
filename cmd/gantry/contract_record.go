package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
something else already, also of a table in schema.sql, is shown and left as it is,
and the exit code is 1; with --update it is written over. A table that a class reads and that no case puts rows
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
	if err := a.warnOfStale(u.Folder); err != nil {
		return err
	}
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
	a.watchCases(&u, "Recording")
	goldens, err := g.stage.Record(ctx, u, g.php, side, update)
	return errors.Join(err, g.Close(), a.printGoldens(u.Folder.Name(), goldens))
}

// recordReport is what became of the records, as it is printed: the like of what
// verify prints.
type recordReport struct {
	Name    string         `json:"name"`
	OK      bool           `json:"ok"`
	New     int            `json:"new"`
	Same    int            `json:"same"`
	Updated int            `json:"updated"`
	Kept    int            `json:"kept"`
	Failed  int            `json:"failed"`
	Cases   []goldenReport `json:"cases"`
}

// goldenReport is one record. Want is what it says, and got what was observed now.
type goldenReport struct {
	Case        string                `json:"case"`
	TaskClass   string                `json:"taskClass"`
	Side        string                `json:"side"`
	Status      string                `json:"status"` // new, same, updated, kept or error
	Error       string                `json:"error,omitempty"`
	Differences []contract.Difference `json:"differences"`
}

func reportOf(name string, goldens []stage.Golden) recordReport {
	r := recordReport{Name: name, Cases: []goldenReport{}}
	for _, g := range goldens {
		one := goldenReport{
			Case: g.Case.Name, TaskClass: g.Case.TaskClass, Side: g.Side, Status: string(g.Recorded),
			Differences: append([]contract.Difference{}, g.Differences...),
		}
		switch {
		case g.Err != nil:
			one.Status, one.Error = contract.StatusError, g.Err.Error()
			r.Failed++
		case g.Recorded == stage.RecordedNew:
			r.New++
		case g.Recorded == stage.RecordedSame:
			r.Same++
		case g.Recorded == stage.RecordedOver:
			r.Updated++
		default:
			r.Kept++
		}
		r.Cases = append(r.Cases, one)
	}
	r.OK = r.Failed+r.Kept == 0
	return r
}

// printGoldens tells what became of the records, and answers an error when one
// was not made.
func (a *app) printGoldens(name string, goldens []stage.Golden) error {
	r := reportOf(name, goldens)
	if a.print.json {
		if err := a.print.document(r); err != nil {
			return err
		}
	} else {
		a.printRecords(r)
	}
	switch {
	case r.Failed > 0:
		return coded{fmt.Errorf("%s could not be recorded", plural(r.Failed, "case", "cases")), exitFailed}
	case r.Kept > 0:
		return coded{fmt.Errorf("%s already something else; look at what changed, and write it over with --update", plural(r.Kept, "record says", "records say")), exitFailed}
	}
	return nil
}

// becameOf says of a status what became of the record.
var becameOf = map[string]string{
	string(stage.RecordedNew):  "new",
	string(stage.RecordedOver): "updated; it said something else",
	string(stage.RecordedNot):  "kept, and now something else comes of it",
}

func (a *app) printRecords(r recordReport) {
	for _, g := range r.Cases {
		switch {
		case g.Error != "":
			a.print.linef("%s (%s): %s", g.Case, g.Side, plain(g.Error))
		case becameOf[g.Status] != "":
			a.print.linef("%s (%s): %s", g.Case, g.Side, becameOf[g.Status])
		}
		for _, d := range g.Differences {
			a.print.linef("  %s", plain(d.Field))
			for _, line := range d.Lines("Recorded", "Now") {
				a.print.linef("    %s", line)
			}
		}
	}
	a.print.linef("%s: %d new, %d the same, %d updated, %d kept, %d failed", r.Name, r.New, r.Same, r.Updated, r.Kept, r.Failed)
}
