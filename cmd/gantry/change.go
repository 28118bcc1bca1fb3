package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

// change is something that is done to selected tasks.
type change struct {
	acts  tasks.State // where it can be done
	done  string      // what became of a task: "was cancelled"
	apply func(ctx context.Context, ids []int64) ([]tasks.Changed, error)
}

// changeReport is what became of one task.
type changeReport struct {
	ID      int64  `json:"id"`
	Class   string `json:"taskClass"`
	Changed bool   `json:"changed"`
	Reason  string `json:"reason,omitempty"` // why not
}

// refusals is why a task was left as it is: for programs and for people.
var refusals = []struct {
	err        error
	word, text string
}{
	{tasks.ErrArchived, "archived", "it is in the archive"},
	{tasks.ErrActive, "active", "it is in the queue"},
	{tasks.ErrLeased, "leased", "somebody works on it; free its lease first, or wait"},
	{tasks.ErrNotLeased, "not_leased", "it has no lease"},
	{tasks.ErrUnchanged, "unchanged", "it is so already"},
	{tasks.ErrSucceeded, "succeeded", "it succeeded; --repeat runs it again"},
	{tasks.ErrNotFound, "not_found", "it is gone"},
}

// changeCommand makes a command that changes selected tasks. with answers the
// change for one run; long follows the short text in the help.
func (a *app) changeCommand(cmd *cobra.Command, with func(context.Context, store) (change, error)) *cobra.Command {
	cmd.Args = selectOnly
	cmd.Long += "\n\nJSON is one document a line: id, taskClass, changed, and the reason if not.\n\n" + selectionHelp
	selected := addSelectors(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := selected.check(cmd.Flags()); err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			c, err := with(ctx, s)
			if err != nil {
				return err
			}
			return a.changeTasks(ctx, s, selected, c)
		})
	}
	return cmd
}

func (a *app) changeTasks(ctx context.Context, s store, selected *selection, c change) error {
	changed := 0
	count, err := selected.each(ctx, s, c.acts, func(page []tasks.Record) error {
		results, err := c.apply(ctx, idsOf(page))
		if err != nil {
			return err
		}
		for i, result := range results {
			if result.Err == nil {
				changed++
			}
			if err := a.reportChange(result, page[i].Class, c.done); err != nil {
				return err
			}
		}
		return a.print.flush()
	})
	switch {
	case exitCode(err) == exitNothing: // an id is missing
		return fmt.Errorf("nothing was done: %w", err)
	case err != nil:
		return err
	case count == 0:
		return noneMatches()
	case changed == 0:
		return coded{errors.New("nothing was changed"), exitNothing}
	case !a.print.json:
		a.print.linef("Changed %d of %d selected tasks.", changed, count)
	}
	return nil
}

func (a *app) reportChange(result tasks.Changed, class, done string) error {
	report := changeReport{ID: result.ID, Class: class, Changed: result.Err == nil}
	text := "the store says: " + fmt.Sprint(result.Err)
	for _, refusal := range refusals {
		if errors.Is(result.Err, refusal.err) {
			report.Reason, text = refusal.word, refusal.text
		}
	}
	switch {
	case a.print.json:
		return a.print.document(report)
	case report.Changed:
		a.print.linef("Task %d (%s) %s.", report.ID, plain(class), done)
	default:
		a.warnf("task %d (%s) was left as it is: %s", report.ID, class, text)
	}
	return nil
}

func idsOf(page []tasks.Record) []int64 {
	ids := make([]int64, len(page))
	for i, r := range page {
		ids[i] = r.ID
	}
	return ids
}

func noneMatches() error {
	return coded{errors.New("no task matches"), exitNothing}
}
