package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks/phorge"
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
command line wins over the environment, that over the file, that over variables
of Gorge (cmd/gantry/GORGE.md has a table of them), those over the default; empty
values count as absent. The file is the one that --config or GANTRY_CONFIG names, or
` + defaultFile + ` where it exists. Relative paths in it start at the file.
Names that mean nothing are refused.

Where the store is, one of dsn, dsn_file, phorge, sqlite, redis and redis_file says;
the first source that names one of them decides.

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
      max_crashes: 5

and several instances, each with a store of its own. An instance can have classes and
any of these settings, and has those at the top of the file for what it leaves out:
` + wrap(instanceSettings, 78) + `.
The slots at the top are those of all together: gantry run gives them to whoever has
tasks, keeps one for each instance that runs nothing, and gives what becomes free to
the instance that waits and runs the fewest. The slots of an instance bound it alone.

  instances:
    acme:
      phorge: /srv/acme/phorge
    jobs:
      sqlite: /var/lib/gantry/jobs.db
      slots: 8`)
	return b.String()
}

// wrap joins words in lines no longer than width.
func wrap(words []string, width int) string {
	var text, line string
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		if line != "" && len(line)+1+len(word) > width {
			text, line = text+line+"\n", ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return text + line
}

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, the store, PHP, the handler binaries and the API",
		Long: `Read the configuration, open the store, start a PHP process as the pool does or ask
worker.execute what it offers, verify the handler binaries, read the tokens, and
print one line for each finding, then the settings with where they come from; with
several instances, for each of them. The password and the parameters of a dsn are
hidden. The exit code is 1 when there is
a problem. JSON is one document.`,
		Example: `  gantry config check
  gantry config check --phorge /opt/phorge --plugins plugins.yaml`,
		Args: noArgs,
	}
	addRunFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		report := checkReport{Config: c.report(), Findings: []finding{}}
		for _, one := range c.queues() {
			found, err := a.checkQueue(ctx, one)
			if err != nil {
				return err
			}
			for _, f := range found {
				if len(c.instances) > 0 {
					f.About = one.Instance + ": " + f.About
				}
				report.Findings = append(report.Findings, f)
			}
		}
		if err := c.checkTurns(); err != nil {
			report.Findings = append(report.Findings, finding{problem, "slots", err.Error()})
		}
		report.Findings = slices.Concat(report.Findings, checkAPI(c), checkGateway(ctx, c), checkSocket(c.Socket), checkTraces())
		if err := a.printCheck(report); err != nil {
			return err
		}
		return verdict(report.Findings)
	}
	return cmd
}

// checkQueue looks at one queue, and at what is to run its tasks.
func (a *app) checkQueue(ctx context.Context, c *config) ([]finding, error) {
	php := checkPHP(ctx, c)
	taken, plugins, err := checkPlugins(ctx, c, php)
	if err != nil {
		return nil, err
	}
	return slices.Concat(a.checkStore(ctx, c, php, taken), php.findings, plugins, checkPublishers(php, taken), checkClasses(c, php, taken)), nil
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
	for _, one := range c.instances {
		for _, r := range one.report() {
			if r.Value != c.shown(r.Name) {
				reports = append(reports, settingReport{"instances." + one.Instance + "." + r.Name, r.Value, r.Origin})
			}
		}
	}
	return reports
}

// checkPlugins verifies the handler binaries and answers the classes they
// take.
func checkPlugins(ctx context.Context, c *config, php phpFound) (taken map[string]bool, findings []finding, err error) {
	if c.Plugins == "" {
		switch {
		case php.route != "":
		case c.API != "" || !c.ofPhorge():
			findings = []finding{{warning, "plugins", "there is no manifest and nothing runs PHP: `gantry serve` works, and `gantry run` has nothing to run"}}
		default:
			findings = []finding{{problem, "plugins", "there is no manifest and nothing runs PHP, so `gantry run` has nothing to run: mend what is said of php, or set plugins"}}
		}
		return nil, findings, nil
	}
	manifest, err := loadManifest(c)
	if err != nil {
		return nil, []finding{{problem, "plugins", err.Error()}}, nil
	}
	taken = served(manifest)
	findings, err = verifyPlugins(ctx, c, manifest, php.route)
	return taken, findings, err
}

// checkClasses looks for settings that do nothing.
func checkClasses(c *config, php phpFound, taken map[string]bool) (findings []finding) {
	for _, class := range slices.Sorted(maps.Keys(c.Classes)) {
		why := ""
		switch {
		case taken[class]:
		case php.route == "":
			why = "nothing here runs the class"
		case php.works && !slices.Contains(php.classes, class) && php.route == "conduit":
			why = "no plugin takes the class and gantry.task-classes of the Phorge does not name it"
		case php.works && !slices.Contains(php.classes, class):
			why = "no plugin takes the class and PHP knows no such class"
		}
		if why != "" {
			findings = append(findings, finding{warning, "classes." + class, why + ", so its settings do nothing"})
		}
	}
	return findings
}

// checkStore opens the store and looks at what is queued.
func (a *app) checkStore(ctx context.Context, c *config, php phpFound, taken map[string]bool) []finding {
	if c.missingFile() {
		return []finding{{warning, "store", c.SQLite + " is not there; gantry serve and gantry run make it, if its directory is there"}}
	}
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
	findings = slices.Concat(findings, checkStorage(ctx, s), checkSite(c))
	for _, class := range stats.Classes {
		if f, found := php.judgeClass(class.Class); found && !taken[class.Class] {
			findings = append(findings, f)
		}
	}
	return findings
}

// checkStorage looks at Gantry's own tables.
func checkStorage(ctx context.Context, s store) []finding {
	own, has := s.(ownTables)
	if !has {
		return nil
	}
	if err := own.Gantry(); err != nil {
		return []finding{{warning, "storage", err.Error()}}
	}
	missing, err := own.MissingStorage(ctx, php.Library)
	switch {
	case err != nil:
		return []finding{{warning, "storage", err.Error()}}
	case missing != nil:
		return []finding{{warning, "storage", "not all of Gantry's own tables are there, or this user has no right to them: " +
			strings.Join(missing, ", ") + "; create what is missing with `gantry storage upgrade`"}}
	}
	return []finding{{ok, "storage", "Gantry's own tables are there"}}
}

// checkSite looks at what the configuration of the Phorge makes impossible.
func checkSite(c *config) (findings []finding) {
	if c.Phorge == "" {
		return nil
	}
	site, err := phorge.ReadPhorge(c.Phorge)
	if err != nil {
		return []finding{{problem, "phorge", err.Error()}}
	}
	if site.GantryApart {
		findings = append(findings, finding{problem, "storage",
			"cluster.databases puts the applications worker and gantry on different masters, and one transaction has to reach both: list gantry in the partition that lists worker"})
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
