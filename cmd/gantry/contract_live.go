package main

import (
	"context"
	"errors"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) contractLiveCommand() *cobra.Command {
	var arcanist, junit string
	var shrink bool
	cmd := &cobra.Command{
		Use:   "live",
		Short: "Run both sides now, PHP and Go, and compare them",
		Long: `Run each case in PHP and in its handler binary, and compare what came of it. Where
a case declares that Go does something else, Go is held against what was recorded
of that, and PHP against its own record.

` + aboutScratch + `

` + aboutPins + `

With --shrink, a case in which the two differ is made smaller for as long as they
differ in the same way: with the same outcomes, and in one of the same fields. The
smaller one is shown with what differs in it. Its world is whole, so it belongs
into a folder without a world.yaml. That takes both sides, so verify cannot.

` + aboutPrinted + `

A run of a case that takes longer than --timeout is ended, and the case reported as
one that could not run.

Exit codes: 1 when a case is not as wanted, 2 when the cases, the manifest or the
command line are wrong, 3 when MariaDB or the Phorge cannot be had.`,
		Example: `  gantry contract live --cases cases --plugins plugins.yaml --phorge /opt/phorge --shrink`,
	}
	addArcanist(cmd, &arcanist)
	addJUnit(cmd, &junit)
	cmd.Flags().BoolVar(&shrink, "shrink", false, "make cases that differ smaller")
	return a.suiteCommand(cmd, func(ctx context.Context, c *config, u stage.Suite) error {
		manifest, err := handlersFor(c, u.Cases)
		if err != nil {
			return err
		}
		from, err := checkouts(c, arcanist)
		if err != nil {
			return err
		}
		return a.live(ctx, u, manifest, from, shrink, junit, a.caseLogger(c))
	})
}

func (a *app) live(ctx context.Context, u stage.Suite, manifest *host.Manifest, from scratch.Checkouts, shrink bool, junit string, log zerolog.Logger) error {
	g, err := a.startPhorge(ctx, from, u.Cases, log)
	if err != nil {
		return err
	}
	side, err := g.handlers(ctx, manifest, u.Cases, log)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	a.watchCases(&u, "Comparing PHP and Go in")
	report, err := g.stage.Live(ctx, u, g.php, side, shrink)
	return errors.Join(a.report(report, err, junit), g.Close())
}
