package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

// classReport is one line of the table of classes.
type classReport struct {
	tasks.ClassStats
	Runnable *bool  `json:"runnable"` // something here runs the class; nil when that is not known
	Route    string `json:"route,omitempty"`
}

// taskReport is a task as list writes it.
type taskReport struct {
	tasks.Record
	State string `json:"state"`
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the classes in the queue, or the tasks that selectors match",
		Long: `Without a selector: one line for each class in the queue, with how many of its
tasks are queued, leased, waiting and failing (counting stops at a bound, shown
as 10000+), and what would run the class here: a plugin, the pool, which may turn
out not to know it, or Conduit, if gantry.task-classes of the Phorge allows it.
Whether it runs is null in JSON for Conduit, and where it is unknown: without a
manifest and without PHP.

With selectors: the tasks that match, by ascending id. JSON is one document for
classes, and one document a line for tasks.

` + selectionHelp,
		Example: `  gantry tasks list
  gantry tasks list --active
  gantry tasks list --class PhabricatorMetaMTAWorker --min-failure-count 1
  gantry tasks list --archived --limit 20 --output json`,
		Args: selectOnly,
	}
	selected := addSelectors(cmd)
	addFlags(cmd.Flags(), "plugins", "php")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !selected.given(cmd.Flags()) && !cmd.Flags().Changed("limit") {
			return a.withStore(cmd, a.listClasses)
		}
		if err := selected.check(cmd.Flags()); err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			return a.listTasks(ctx, s, selected)
		})
	}
	return cmd
}

func (a *app) listClasses(ctx context.Context, c *config, s store) error {
	route, err := routes(c)
	if err != nil {
		a.warnf("it is not known which classes run here: %v", err)
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	report := struct {
		Now     int64         `json:"now"`
		Classes []classReport `json:"classes"`
	}{stats.Now, []classReport{}}
	for _, class := range stats.Classes {
		line := classReport{ClassStats: class}
		if route != nil {
			line.Route = route(class.Class)
			if line.Route != "conduit" { // only the Phorge knows which classes it allows
				line.Runnable = new(line.Route != "")
			}
		}
		report.Classes = append(report.Classes, line)
	}
	if a.print.json {
		return a.print.document(report)
	}
	if len(report.Classes) == 0 {
		a.print.linef("The queue is empty.")
		return nil
	}
	var rows [][]string
	for _, class := range report.Classes {
		rows = append(rows, class.cells())
	}
	a.print.table([]string{"CLASS", "QUEUED", "LEASED", "WAITING", "FAILING", "RUNS HERE"}, rows)
	return nil
}

// routes answers a function that says what would run a class, or "" when
// nothing would; nil without a manifest and without PHP.
func routes(c *config) (func(class string) string, error) {
	php, _, err := c.chooseRoute()
	if err != nil || c.Plugins == "" && php == "" {
		return nil, err
	}
	plugins := map[string]bool{}
	if c.Plugins != "" {
		manifest, err := loadManifest(c)
		if err != nil {
			return nil, err
		}
		plugins = served(manifest)
	}
	return func(class string) string {
		if plugins[class] {
			return "plugin"
		}
		return php
	}, nil
}

func (c classReport) cells() []string {
	runs := cmp.Or(c.Route, "no")
	switch {
	case c.Runnable != nil:
	case c.Route == "conduit":
		runs = "conduit, if allowed"
	default:
		runs = "unknown"
	}
	count := func(n int) string {
		if c.More {
			return strconv.Itoa(n) + "+"
		}
		return strconv.Itoa(n)
	}
	return []string{plain(c.Class), count(c.Active), count(c.Leased), count(c.Waiting), count(c.Failing), runs}
}

func (a *app) listTasks(ctx context.Context, s store, selected *selection) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	count, err := selected.each(ctx, s, tasks.Active, func(page []tasks.Record) error {
		if a.print.json {
			for _, r := range page {
				word, _ := standing(r, now)
				if err := a.print.document(taskReport{r, word}); err != nil {
					return err
				}
			}
			return nil
		}
		var rows [][]string
		for _, r := range page {
			_, sentence := standing(r, now)
			rows = append(rows, []string{
				fmt.Sprint(r.ID), plain(r.Class), fmt.Sprint(r.Priority), fmt.Sprint(r.FailureCount), plain(sentence)})
		}
		a.print.table([]string{"ID", "CLASS", "PRIORITY", "FAILURES", "STATE"}, rows)
		return nil
	})
	if err == nil && count == 0 {
		return noneMatches()
	}
	return err
}
