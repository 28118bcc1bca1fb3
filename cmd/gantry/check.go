package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// checkReport is all that config check tells.
type checkReport struct {
	Findings []finding       `json:"findings"`
	Config   []settingReport `json:"config"`
}

// settingReport is a setting with its value, secrets hidden.
type settingReport struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "How Gantry is configured, and a check of it",
		Long:  configHelp(),
		Example: `  gantry config check
  GANTRY_DSN='gantry:secret@tcp(db:3306)/phabricator_worker' gantry config check
  gantry config check --phorge /opt/phorge --output json`,
	}, a.checkCommand())
}

// configHelp explains the configuration, setting by setting.
func configHelp() string {
	var b strings.Builder
	b.WriteString(`A setting has one name in three spellings: drain_timeout in the file,
GANTRY_DRAIN_TIMEOUT in the environment, --drain-timeout on the command line. The
command line wins over the environment, that over the file, that over the
default; empty values count as absent. The file is the one that --config or
GANTRY_CONFIG names, or ` + defaultFile + ` where it exists. Relative paths in
it start at the file. Names that mean nothing are refused.

Where the store is, dsn, dsn_file and phorge say; the first source that names one
of them decides.

`)
	for _, s := range settings {
		value := fmt.Sprint(s.value)
		if value == "" {
			value = "none"
		}
		fmt.Fprintf(&b, "  %-22s %s (default %s)\n", s.name, strings.ReplaceAll(s.usage, "`", ""), value)
	}
	b.WriteString(`
The file can also hold settings of single classes, which go over those of the
manifest (slots can only be lowered):

  classes:
    PhabricatorTestWorker:
      slots: 4
      lease: 2m
      deadline: 1h
      pickup_delay: 1s
      max_crashes: 5`)
	return b.String()
}

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, the store and the handler binaries",
		Long: `Read the configuration, open the store, verify the handler binaries, and print
one line for each finding, then the settings with where they come from. The
password and the parameters of a dsn are hidden. The exit code is 1 when there is
a problem. JSON is one document.`,
		Example: `  gantry config check
  gantry config check --phorge /opt/phorge --plugins plugins.yaml`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), runSettings...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		report := checkReport{Config: c.report()}
		runnable, findings, err := checkPlugins(ctx, c)
		if err != nil {
			return err
		}
		report.Findings = append(a.checkStore(ctx, c, runnable), findings...)
		if err := a.printCheck(report); err != nil {
			return err
		}
		return verdict(report.Findings)
	}
	return cmd
}

func (c *config) report() []settingReport {
	var reports []settingReport
	for _, s := range settings {
		reports = append(reports, settingReport{s.name, c.shown(s.name), c.origin[s.name]})
	}
	for _, name := range slices.Sorted(maps.Keys(c.values)) {
		if strings.HasPrefix(name, "classes.") {
			reports = append(reports, settingReport{name, c.shown(name), c.origin["classes"]})
		}
	}
	return reports
}

// checkPlugins verifies the handler binaries and answers the classes they
// take.
func checkPlugins(ctx context.Context, c *config) (runnable map[string]bool, findings []finding, err error) {
	if c.Plugins == "" {
		return nil, []finding{{warning, "plugins", "there is no manifest, so `gantry run` has nothing to run: set plugins"}}, nil
	}
	manifest, err := loadManifest(c)
	if err != nil {
		return nil, []finding{{problem, "plugins", err.Error()}}, nil
	}
	runnable = served(manifest)
	findings, err = verifyPlugins(ctx, manifest)
	for _, class := range slices.Sorted(maps.Keys(c.Classes)) {
		if !runnable[class] {
			findings = append(findings, finding{warning, "classes." + class, "no handler of the manifest takes the class, so its settings do nothing"})
		}
	}
	return runnable, findings, err
}

// checkStore opens the store and looks at what is queued.
func (a *app) checkStore(ctx context.Context, c *config, runnable map[string]bool) []finding {
	s, err := a.open(ctx, c)
	if err != nil {
		return []finding{{problem, "store", err.Error()}}
	}
	defer s.Close()
	stats, err := s.Stats(ctx)
	if err != nil {
		return []finding{{problem, "store", err.Error()}}
	}
	findings := []finding{{ok, "store", "it opens; tasks of " + plural(len(stats.Classes), "class", "classes") + " are queued"}}
	for _, class := range stats.Classes {
		if !runnable[class.Class] {
			findings = append(findings, finding{warning, "class " + class.Class,
				"tasks are queued and no handler here takes them; they stay as they are for whoever can run them"})
		}
	}
	return findings
}

func (a *app) printCheck(report checkReport) error {
	if a.print.json {
		return a.print.document(report)
	}
	for _, f := range report.Findings {
		if err := a.printFinding(f); err != nil {
			return err
		}
	}
	a.print.linef("")
	var rows [][]string
	for _, s := range report.Config {
		rows = append(rows, []string{s.Name, plain(orDash(s.Value)), s.Origin})
	}
	a.print.table([]string{"SETTING", "VALUE", "FROM"}, rows)
	return nil
}
