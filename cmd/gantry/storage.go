package main

import (
	"github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/spf13/cobra"
)

func (a *app) storageCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "storage",
		Short: "Create Gantry's own tables",
		Long: `Create Gantry's own tables. They are in the database <namespace>_gantry, beside
the worker database, and hold what Phorge has no column for: why attempts failed,
and what worker.execute has run. Without them the queue works all the same.`,
		Example: "  gantry storage upgrade --phorge /opt/phorge",
	}, a.storageUpgradeCommand())
}

func (a *app) storageUpgradeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade",
		Short: "Create what is missing of the tables",
		Long: `Create what is missing of Gantry's database and its tables. Phorge's own
` + "`bin/storage upgrade`" + ` does the same once the PHP library is installed; the order of
the two is no matter, and either may be run again at any time.`,
		Example: `  gantry storage upgrade --phorge /opt/phorge`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			c, err := a.loadOne(cmd)
			if err != nil {
				return err
			}
			dsn, err := c.storeDSN()
			if err != nil {
				return err
			}
			created, err := phorge.UpgradeStorage(ctx, dsn, php.Library)
			if printed := a.printCreated(created); printed != nil {
				return printed
			}
			switch {
			case err != nil:
				return coded{err, exitUnavailable}
			case len(created) == 0 && !a.print.json:
				a.print.linef("Nothing was missing.")
			}
			return nil
		},
	}
}

// printCreated tells what was created, also when the rest could not be.
func (a *app) printCreated(created []string) error {
	if a.print.json {
		return a.print.document(struct {
			Created []string `json:"created"`
		}{append([]string{}, created...)})
	}
	for _, name := range created {
		a.print.linef("%s was created.", plain(name))
	}
	return nil
}
