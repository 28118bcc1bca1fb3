package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// store is all that commands do with a queue.
type store interface {
	tasks.Service
	Close() error
}

// ownTables is a store beside whose tables Gantry has some of its own.
type ownTables interface {
	Gantry() error // why they cannot be used, nil when they can
	MissingStorage(ctx context.Context, files fs.FS) ([]string, error)
}

// untold answers why what Gantry's own tables hold is not known, nil when
// it is.
func untold(s store) error {
	if own, has := s.(ownTables); has {
		return own.Gantry()
	}
	return nil
}

// app is what the commands share.
type app struct {
	in         io.Reader
	out        io.Writer
	err        io.Writer
	environ    []string
	configFile string // read when nothing names another
	open       func(context.Context, *config) (store, error)
	php        func(context.Context, *config, zerolog.Logger) (*phpRoute, error)

	output string // --output
	print  *printer
}

func newApp() *app {
	return &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		environ:    os.Environ(),
		configFile: defaultFile,
		open:       openStore,
		php:        startPHP,
	}
}

// main runs a command line and answers the exit code.
func (a *app) main(args []string) int {
	a.print = newPrinter(a.out, colours(a.out, a.environ))
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.print.w) // cobra itself drops the errors of writes
	started := false
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		started = true
		return a.prepare()
	}
	err := root.Execute()
	if err != nil && !started {
		err = coded{err, exitUsage} // cobra could not make sense of the command line
	}
	if err = errors.Join(err, a.print.flush()); err != nil {
		fmt.Fprintf(a.err, "%s %s\n", paint(a.err, a.environ, red, "gantry:"), explain(err))
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "gantry",
		Short: "Take over the work queue of a Phorge",
		Long: `Gantry leases tasks from Phorge's own tables and runs them in handler binaries and
in PHP, beside or instead of the taskmaster daemons. Phorge needs no patch. It also
serves a queue to other programs: that of a Phorge, or one of its own.

` + exitHelp,
		Example: `  gantry demo
  gantry config check --phorge /opt/phorge
  gantry run --phorge /opt/phorge --plugins /etc/gantry/plugins.yaml
  gantry tasks list`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}, a.demoCommand(), a.runCommand(), a.serveCommand(), a.topCommand(), a.tasksCommand(), a.pluginsCommand(), a.contractCommand(), a.poolCommand(), a.keysCommand(), a.tokensCommand(), a.gatewayCommand(), a.storageCommand(), a.configCommand(), a.versionCommand())
	root.Version = readVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainFlag)
	root.SetIn(a.in)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.String("config", "", "configuration `file` (default GANTRY_CONFIG, or "+defaultFile+" where it exists)")
	flags.StringVar(&a.output, "output", "text", "`format` of results: text or json")
	addFlags(flags, slices.Concat(storeSettings, []string{"instance", "log_level", "log_format"})...)
	complete(root, "output", "text", "json")
	for _, name := range []string{"log_level", "log_format"} {
		s, _ := find(settings, name)
		complete(root, s.flag(), s.oneOf...)
	}
	return root
}

// group makes a command of commands refuse what it does not have.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		remedy := fmt.Sprintf("`%s --help` lists them all", cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			remedy = fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
		}
		return usagef("there is no command %q of `%s`; %s", args[0], cmd.CommandPath(), remedy)
	}
	return cmd
}

// noArgs refuses what is left of a command line beside the flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("`%s` takes no arguments, and %q is one; `%s --help` lists its flags", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// explainFlag says what a flag takes, where the library quotes Go.
func explainFlag(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	kind := map[string]string{
		"int": "a whole number", "int64Slice": "a whole number, or several with commas between them",
		"float64": "a number", "bool": "true or false", "duration": durationHelp,
	}[invalid.GetFlag().Value.Type()]
	if errors.Is(err, strconv.ErrRange) {
		kind = "a smaller number"
	}
	if kind == "" {
		return err
	}
	return usagef("--%s %q must be %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
}

// addRunFlags gives a command the flags of what run uses.
func addRunFlags(cmd *cobra.Command) {
	addFlags(cmd.Flags(), runSettings...)
	addFlags(cmd.Flags(), apiSettings...)
	php, _ := find(settings, "php")
	complete(cmd, php.flag(), php.oneOf...)
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the command has no such flag
	}
}

// prepare chooses the format of results before any command.
func (a *app) prepare() error {
	if a.output != "text" && a.output != "json" {
		return usagef("--output %q must be text or json", a.output)
	}
	a.print.json = a.output == "json"
	return nil
}

// load reads the configuration for a command.
func (a *app) load(cmd *cobra.Command) (*config, error) {
	c, err := loadConfig(cmd.Flags(), a.environ, a.configFile)
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	for _, warning := range c.warnings {
		a.warnf("%s", warning)
	}
	return c, nil
}

// loadOne reads the configuration for a command that works on one queue.
func (a *app) loadOne(cmd *cobra.Command) (*config, error) {
	c, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	return c.one()
}

// warnf tells a person about something that does not stop the command.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintf(a.err, "%s %s\n", paint(a.err, a.environ, yellow, "warning:"), plain(fmt.Sprintf(format, args...)))
}

// withStore opens the store for a command that ends by itself. A signal ends it
// between two calls to the store.
func (a *app) withStore(cmd *cobra.Command, use func(context.Context, *config, store) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	c, err := a.loadOne(cmd)
	if err != nil {
		return err
	}
	if c.missingFile() {
		return coded{fmt.Errorf("there is no queue at %s: gantry serve and gantry run make it", c.SQLite), exitUnavailable}
	}
	s, err := a.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	return use(ctx, c, s)
}

// terminal reports whether a stream is one.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
