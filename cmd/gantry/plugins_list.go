package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/spf13/cobra"
)

// pluginReport is a binary of the manifest as list writes it.
type pluginReport struct {
	host.Checked
	Problem string        `json:"problem,omitempty"` // why it would not be started
	Phorge  bool          `json:"phorge"`            // it may reach Phorge's databases
	Classes []classLimits `json:"classes"`
}

// classLimits is what the manifest says about a class.
type classLimits struct {
	Class    string `json:"taskClass"`
	Slots    int    `json:"slots,omitempty"`
	Lease    string `json:"lease,omitempty"`
	Deadline string `json:"deadline,omitempty"`
	Fallback string `json:"fallback"`
}

func (a *app) pluginsListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the handler binaries and the classes they take",
		Long: `List the classes of the manifest, which binary takes them and within which
limits, whether that binary could be started (its bytes are those that were
pinned, and it is a program for this machine), and whether it may reach Phorge's
databases. Nothing is started.`,
		Example: "  gantry plugins list --plugins /etc/gantry/plugins.yaml",
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
			reports := reportPlugins(manifest)
			if a.print.json {
				return a.print.document(struct {
					Plugins []pluginReport `json:"plugins"`
				}{reports})
			}
			a.listPlugins(reports)
			return nil
		},
	}
}

func reportPlugins(manifest *host.Manifest) []pluginReport {
	reports := []pluginReport{}
	for i, checked := range manifest.Verify() {
		report := pluginReport{Checked: checked, Phorge: manifest.Plugins[i].Phorge}
		if checked.Err != nil {
			report.Problem = checked.Err.Error()
		}
		of := manifest.Plugins[i].Classes
		for _, name := range slices.Sorted(maps.Keys(of)) {
			class := of[name]
			report.Classes = append(report.Classes, classLimits{
				Class: name, Slots: class.Slots,
				Lease: orEmpty(class.Lease), Deadline: orEmpty(class.Deadline),
				Fallback: string(cmp.Or(class.Fallback, host.Hold)),
			})
		}
		reports = append(reports, report)
	}
	return reports
}

func orEmpty(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (a *app) listPlugins(reports []pluginReport) {
	var rows [][]string
	for _, report := range reports {
		binary := "ok"
		if report.Err != nil {
			binary = "problem"
			a.warnf("%s", report.Problem)
		}
		for _, class := range report.Classes {
			slots, phorge := "-", "-"
			if report.Phorge {
				phorge = "yes"
			}
			if class.Slots > 0 {
				slots = strconv.Itoa(class.Slots)
			}
			rows = append(rows, []string{plain(class.Class), plain(report.Name), binary,
				slots, orDash(class.Lease), orDash(class.Deadline), class.Fallback, phorge})
		}
	}
	a.print.table([]string{"CLASS", "PLUGIN", "BINARY", "SLOTS", "LEASE", "DEADLINE", "FALLBACK", "PHORGE"}, rows)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
