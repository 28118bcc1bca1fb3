package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) contractCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "contract",
		Short: "Prove that Go does with a task what PHP did",
		Long: `Write cases of a task class, record what PHP does with them, and hold a Go handler
against that. contract/GUIDE.md of Gantry tells the whole way.`,
		Example: `  gantry contract new HeraldWebhookWorker --cases cases
  gantry contract record --cases cases --phorge /opt/phorge
  gantry contract verify --cases cases --plugins plugins.yaml`,
	}, a.contractNewCommand(), a.contractRecordCommand(), a.contractVerifyCommand(), a.contractLiveCommand())
}

// suite is which cases of which folder are run.
type suite struct {
	dir     string
	only    []string
	timeout time.Duration
}

// suiteCommand gives a command what record, verify and live have in common.
func (a *app) suiteCommand(cmd *cobra.Command, run func(ctx context.Context, c *config, u stage.Suite) error) *cobra.Command {
	var s suite
	flags := cmd.Flags()
	flags.StringVar(&s.dir, "cases", "", "`folder` of cases")
	flags.StringSliceVar(&s.only, "only", nil, "only cases whose names match this `pattern`, as webhook-*; can be repeated")
	flags.Lookup("only").DefValue = ""
	flags.DurationVar(&s.timeout, "timeout", 0, "how long one run of a case may take (default the deadline of its class in the manifest, or else 60s)")
	addFlags(flags, "plugins")
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		u, err := s.load()
		if err != nil {
			return err
		}
		return run(ctx, c, u)
	}
	return cmd
}

func addJUnit(cmd *cobra.Command, junit *string) {
	cmd.Flags().StringVar(junit, "junit", "", "`file` to write a JUnit report to")
}

// addArcanist gives a command the flag for an Arcanist that is somewhere else.
func addArcanist(cmd *cobra.Command, arcanist *string) {
	cmd.Flags().StringVar(arcanist, "arcanist", "", "`directory` of Arcanist (default the one beside the Phorge)")
}

// load answers the cases that were asked for.
func (s *suite) load() (stage.Suite, error) {
	if s.timeout < 0 {
		return stage.Suite{}, usagef("--timeout %v is negative", s.timeout)
	}
	if s.dir == "" {
		return stage.Suite{}, usagef("name the folder of cases with --cases")
	}
	folder, err := contract.LoadFolder(s.dir)
	if err != nil {
		return stage.Suite{}, coded{err, exitUsage}
	}
	u := stage.Suite{Folder: folder, Timeout: s.timeout}
	for _, c := range folder.Cases {
		matches := len(s.only) == 0
		for _, pattern := range s.only {
			match, err := path.Match(pattern, c.Name)
			if err != nil {
				return u, usagef("--only %q is no pattern: %w", pattern, err)
			}
			matches = matches || match
		}
		if matches {
			u.Cases = append(u.Cases, c)
		}
	}
	if len(u.Cases) == 0 {
		return u, usagef("no case of %s matches --only", s.dir)
	}
	return u, nil
}

// ground is what cases run on, and how it is taken away again.
type ground struct {
	stage *stage.Stage
	php   stage.Side // nil without a Phorge
	ends  []func() error
}

// Close ends everything, what came last first.
func (g *ground) Close() (err error) {
	for len(g.ends) > 0 {
		last := len(g.ends) - 1
		err = errors.Join(err, g.ends[last]())
		g.ends = g.ends[:last]
	}
	return err
}

// private are the arguments of a server that nobody will miss: what a crash of
// the machine takes from it, it takes from nobody.
var private = []string{"--innodb-flush-log-at-trx-commit=0"}

func (a *app) startServer(g *ground) (*scratch.MariaDB, error) {
	a.phasef("Starting a private MariaDB ...")
	server, err := scratch.Start(scratch.Options{Args: private})
	if err != nil {
		return nil, coded{fmt.Errorf("start a private database server: %w", err), exitUnavailable}
	}
	g.ends = append(g.ends, server.Stop)
	return server, nil
}

// open opens the stage on a server.
func (g *ground) open(ctx context.Context, dsn, namespace string, log zerolog.Logger) (err error) {
	if g.stage, err = stage.Open(ctx, stage.Config{DSN: dsn, Namespace: namespace, Log: log}); err != nil {
		return coded{err, exitUnavailable}
	}
	g.ends = append(g.ends, g.stage.Close)
	return nil
}

const scratchNamespace = "contract"

// startPhorge makes a scratch copy of a Phorge on a private server, and the stage
// on it.
func (a *app) startPhorge(ctx context.Context, from scratch.Checkouts, cases []contract.Case, log zerolog.Logger) (g *ground, err error) {
	if err := from.Check(); err != nil {
		return nil, coded{err, exitUsage}
	}
	g = &ground{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	server, err := a.startServer(g)
	if err != nil {
		return nil, err
	}
	a.phasef("Making a scratch Phorge of %s, with a database of its own; it takes about a minute ...", from.Phorge)
	phorge, err := scratch.Install(ctx, server, scratchNamespace, from)
	if err != nil {
		return nil, coded{err, exitUnavailable}
	}
	g.ends = append(g.ends, phorge.Remove)
	options, err := phorge.Options(ctx)
	if err != nil {
		return nil, coded{err, exitUnavailable}
	}
	if err := knownOptions(options, cases); err != nil {
		return nil, err
	}
	if err := g.open(ctx, server.DSN(""), scratchNamespace, log); err != nil {
		return nil, err
	}
	g.php = stage.NewPHP(phorge, log)
	g.ends = append(g.ends, g.php.Close)
	return g, nil
}

// knownOptions refuses cases that set an option which the Phorge does not have: PHP
// would not read it.
func knownOptions(options []string, cases []contract.Case) error {
	for _, c := range cases {
		for _, name := range slices.Sorted(maps.Keys(c.World.Options)) {
			if !slices.Contains(options, name) {
				return usagef("case %s: this Phorge has no option %q; `bin/config list` of it shows how they are written", c.Name, name)
			}
		}
	}
	return nil
}

// handlersFor answers a manifest with a handler for every class of the cases. The
// binaries are taken as they are: a pin says which of them may work for a site, and
// here somebody tries what was just built.
func handlersFor(c *config, cases []contract.Case) (*host.Manifest, error) {
	manifest, err := loadPlugins(c)
	if err != nil {
		return nil, err
	}
	classes := served(manifest)
	for _, c := range cases {
		if !classes[c.TaskClass] {
			return nil, usagef("no handler binary of the manifest takes class %s of case %s", c.TaskClass, c.Name)
		}
	}
	for i, checked := range manifest.Verify() {
		manifest.Plugins[i].SHA256 = checked.Actual
	}
	for _, checked := range manifest.Verify() {
		if checked.Err != nil {
			return nil, coded{fmt.Errorf("plugin manifest %s: %w", c.Plugins, checked.Err), exitUsage}
		}
	}
	return manifest, nil
}

// handlers answers the side of the handlers of a manifest, which were started once.
func (g *ground) handlers(ctx context.Context, manifest *host.Manifest, cases []contract.Case, log zerolog.Logger) (stage.Shadower, error) {
	var classes []string
	for _, c := range cases {
		classes = append(classes, c.TaskClass)
	}
	if err := g.stage.Try(ctx, manifest, classes); err != nil {
		return nil, coded{err, exitUsage}
	}
	side := g.stage.Go(manifest, log)
	g.ends = append(g.ends, side.Close)
	return side, nil
}

const aboutPins = `The binaries of the manifest run as they are, pinned or not: a pin protects a site,
and here somebody tries what was just built.`

// checkouts answers the Phorge that was named, and the Arcanist beside it.
func checkouts(c *config, arcanist string) (scratch.Checkouts, error) {
	if c.Phorge == "" {
		return scratch.Checkouts{}, usagef("name the directory of a Phorge with --phorge; only a copy of its code is used")
	}
	if arcanist == "" {
		arcanist = filepath.Join(c.Phorge, "..", "arcanist")
	}
	return scratch.Checkouts{Phorge: c.Phorge, Arcanist: arcanist}, nil
}

const aboutPrinted = `Of a case that is not as wanted, the report has what each side said of it, and the
lines that the handler printed. Nothing else that handlers print is shown, because
many cases fail on purpose: --log-level debug logs all of it.`

const aboutScratch = `The PHP runs in a scratch copy of the Phorge that --phorge names, with an
installation of MariaDB that lives as long as this command. Of the site itself
only the code is read: its configuration is not copied, and its database is not
connected to.`

// watchCases says that the cases begin, and has a person on a terminal see how far
// they are.
func (a *app) watchCases(u *stage.Suite, doing string) {
	progress, total := newProgress(a.err), len(u.Cases)
	a.phasef("%s %s ...", doing, plural(total, "case", "cases"))
	u.Tell = func(done int, c contract.Case) {
		progress.tell(time.Now(), func() string { return fmt.Sprintf("%d of %d cases done; now %s", done, total, c.Name) })
	}
}

// warnOfStale names goldens that nobody is held against.
func (a *app) warnOfStale(folder *contract.Folder) error {
	stale, err := folder.Stale()
	if len(stale) > 0 {
		a.warnf("these goldens belong to no case, remove them: %s", strings.Join(stale, ", "))
	}
	return err
}

// caseLogger is a log without what tasks of cases print: many of them fail on
// purpose.
func (a *app) caseLogger(c *config) zerolog.Logger {
	log := newLogger(a.err, a.environ, c)
	if log.GetLevel() == zerolog.InfoLevel {
		log = log.Level(zerolog.WarnLevel)
	}
	return log
}

// phasef says what takes its time now, on a terminal and in the log of a CI alike.
func (a *app) phasef(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", args...)
}

// report writes what came of the cases, as far as they were run, and answers the
// error that it means.
func (a *app) report(r contract.Report, ended error, junit string) error {
	if r.Interrupted == "" && ended != nil {
		return ended
	}
	if junit != "" {
		if err := writeReport(junit, r.JUnit); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error { return r.Text(w, a.print.colour) }
	if a.print.json {
		write = r.JSON
	}
	if err := write(a.print.w); err != nil {
		return err
	}
	if r.Interrupted != "" {
		return coded{fmt.Errorf("interrupted in case %s; %s not run", r.Interrupted, plural(r.Missing, "case was", "cases were")), exitFailed}
	}
	if !r.OK() {
		return coded{errors.New("not every case is as wanted"), exitFailed}
	}
	return nil
}

func writeReport(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return coded{fmt.Errorf("write the JUnit report: %w", err), exitUsage}
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write the JUnit report %s: %w", file, err)
	}
	return nil
}
