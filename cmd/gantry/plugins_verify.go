package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func (a *app) pluginsVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Start every binary once and check that it takes its classes",
		Long: `Check every handler binary as "gantry run" does: its bytes are those that were
pinned, it is a program for this machine, it starts, it speaks this version of
the handler protocol, it takes the classes that the manifest lists, and what it
uses of Phorge, the manifest allows (phorge: true) and the configuration knows. The
binaries get no task. One line for each finding; JSON is one document a line.`,
		Example: "  gantry plugins verify --plugins /etc/gantry/plugins.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			manifest, err := loadPlugins(c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			php, _, err := c.chooseRoute()
			if err != nil {
				return err
			}
			findings, err := verifyPlugins(ctx, c, manifest, php)
			if err != nil {
				return err
			}
			for _, f := range findings {
				if err := a.printFinding(f); err != nil {
					return err
				}
			}
			return verdict(findings)
		},
	}
}

// verifyPlugins starts every binary of a manifest once. php is the route of PHP,
// or "".
func verifyPlugins(ctx context.Context, c *config, manifest *host.Manifest, php string) ([]finding, error) {
	h, err := startHost(ctx, c, manifest, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var findings []finding
	for i, status := range h.List() {
		findings = append(findings, judge(status, php)...)
		if status.State == host.Ready && manifest.Plugins[i].Phorge && len(status.Databases) == 0 {
			findings = append(findings, finding{warning, "plugin " + status.Name, "the manifest lets it have Phorge's databases (`phorge: true`), and it uses none: remove the line"})
		}
	}
	return findings, nil
}

// reaches says what a binary uses of Phorge.
func reaches(status host.Status) string {
	text := ""
	if len(status.Databases) > 0 {
		text = "; it reaches the databases of " + strings.Join(status.Databases, ", ") + " of Phorge"
	}
	if len(status.Options) > 0 {
		text += " and reads " + strings.Join(status.Options, ", ")
	}
	return text
}

// judge answers what there is to say about a binary that was started.
func judge(status host.Status, php string) []finding {
	about := "plugin " + status.Name
	if status.State != host.Ready {
		return []finding{{problem, about, status.Problem}}
	}
	var findings []finding
	worst := ok
	for _, class := range status.Classes {
		switch {
		case class.Problem != "":
			worst = problem
			findings = append(findings, finding{problem, about, class.Problem})
		case class.Fallback == host.PHP && php == "":
			findings = append(findings, finding{warning, about, fmt.Sprintf(
				"class %s falls back to php, which nothing here runs: its tasks wait while the handler cannot take them", class.Class)})
		}
	}
	if worst == ok {
		findings = append(findings, finding{ok, about, status.Path + " starts and takes its classes" + reaches(status)})
	}
	return findings
}
