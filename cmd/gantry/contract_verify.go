package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// serverVariable names the server for verify, with its password.
const serverVariable = "GANTRY_CONTRACT_SERVER"

func (a *app) contractVerifyCommand() *cobra.Command {
	var server, junit string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold the handlers against what PHP was recorded to do",
		Long: `Run each case in its handler binary and hold what comes of it against what was
recorded of PHP, or against what the case declares that Go does instead. Phorge is
not needed: this is what CI runs.

Each case runs in shadow first, and must leave no trace then: no row, no request.
What it notes that it would have sent must be what the real run then sends; where
the receivers of the case do not simply answer 200, that holds for the first
request.

A MariaDB that is installed on this machine is started for it, in a temporary
folder, and removed afterwards. With --server a server that runs already is used:
databases are made there, and dropped; nothing else of it is changed. It must be one
for tests, and is refused when it holds the databases of a Phorge. ` + serverVariable + `
names one with a password.

` + aboutPins + `

` + aboutPrinted + `

A run of a case that takes longer than --timeout is ended, and the case reported as
one that could not run.

Exit codes: 1 when a case is not as wanted, 2 when the cases, the manifest or the
command line are wrong, 3 when the server cannot be had.`,
		Example: `  gantry contract verify --cases contract/cases/herald --plugins plugins.yaml
  gantry contract verify --cases cases --plugins plugins.yaml --only 'silent-*' --junit report.xml`,
	}
	cmd.Flags().StringVar(&server, "server", "", "`DSN` of a server for tests, user@tcp(127.0.0.1:3306)/")
	addJUnit(cmd, &junit)
	return a.suiteCommand(cmd, func(ctx context.Context, c *config, u stage.Suite) error {
		manifest, err := handlersFor(c, u.Cases)
		if err != nil {
			return err
		}
		if server, err = a.serverOf(server); err != nil {
			return err
		}
		return a.verify(ctx, u, manifest, server, junit, a.caseLogger(c))
	})
}

// serverOf answers the server of a command line, or of the environment.
func (a *app) serverOf(flag string) (string, error) {
	if phorge.PasswordIn(flag) != "" {
		return "", usagef("--server holds a password, which everybody on this machine can read; put the DSN into %s", serverVariable)
	}
	for _, variable := range a.environ {
		if value, found := strings.CutPrefix(variable, serverVariable+"="); found && flag == "" {
			return value, nil
		}
	}
	return flag, nil
}

func (a *app) verify(ctx context.Context, u stage.Suite, manifest *host.Manifest, server, junit string, log zerolog.Logger) (err error) {
	schema, err := u.Folder.Schema()
	if err != nil {
		return coded{err, exitUsage}
	}
	if err := a.warnOfStale(u.Folder); err != nil {
		return err
	}
	g := &ground{}
	defer func() { err = errors.Join(err, g.Close()) }()
	if server == "" {
		m, err := a.startServer(g)
		if err != nil {
			return err
		}
		server = m.DSN("")
	} else if err := forTests(ctx, server); err != nil {
		return err
	}
	if err := g.open(ctx, server, scratchNamespace+"_"+strings.ToLower(rand.Text()[:8]), log); err != nil {
		return err
	}
	if err := g.stage.Prepare(ctx, schema); err != nil {
		return coded{err, exitUnavailable}
	}
	side, err := g.handlers(ctx, manifest, u.Cases, log)
	if err != nil {
		return err
	}
	a.watchCases(&u, "Verifying")
	report, err := g.stage.Verify(ctx, u, side)
	return a.report(report, err, junit)
}

// Databases of an interrupted verify can be left on a server for tests.
const phorgesSQL = `SELECT COALESCE(MIN(SCHEMA_NAME), '') FROM information_schema.SCHEMATA
WHERE SCHEMA_NAME LIKE '%\_worker' AND SCHEMA_NAME NOT LIKE '` + scratchNamespace + `\_%'`

// forTests refuses a server that somebody's Phorge lives on.
func forTests(ctx context.Context, dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		// Not wrapped: the driver quotes from the DSN, and so from the password.
		return usagef("the DSN of the server cannot be read; it has the form user@tcp(127.0.0.1:3306)/")
	}
	defer db.Close()
	var database string
	if err := db.QueryRowContext(ctx, phorgesSQL).Scan(&database); err != nil {
		return coded{fmt.Errorf("ask the server %s: %w", phorge.ShowDSN(dsn), err), exitUnavailable}
	}
	if database != "" {
		return usagef("the server %s holds %s, the database of a Phorge; name a server for tests, or none", phorge.ShowDSN(dsn), database)
	}
	return nil
}
