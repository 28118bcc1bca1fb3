package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

func (a *app) cancelCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "cancel",
		Short: "Cancel tasks: their work is never done",
		Long: `Move tasks of the queue to the archive as cancelled. Whoever works on one of
them is told at the next renewal of its lease and stops.`,
		Example: `  gantry tasks cancel --id 4711 --id 4712
  gantry tasks cancel --class PhabricatorRepositoryGitCommitMessageParserWorker --min-failure-count 20`,
	}, func(_ context.Context, s store) (change, error) {
		return change{tasks.Active, "was cancelled", s.Cancel}, nil
	})
}

func (a *app) freeCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "free",
		Short: "Break the leases of tasks, so that they can be leased at once",
		Long: `Break the leases of tasks, so that they can be leased at once. If somebody still
works on one of them, it may run twice.`,
		Example: `  gantry tasks free --id 4711`,
	}, func(_ context.Context, s store) (change, error) {
		return change{tasks.Active, "was freed from its lease", s.Free}, nil
	})
}

func (a *app) delayCommand() *cobra.Command {
	var until string
	cmd := a.changeCommand(&cobra.Command{
		Use:   "delay",
		Short: "Let tasks wait until a time",
		Long:  "Let waiting tasks wait until a time by the store's clock.\n\n" + whenHelp,
		Example: `  gantry tasks delay --class PhabricatorSearchWorker --until "6 hours"
  gantry tasks delay --id 4711 --until "2026-12-24 18:00"
  gantry tasks delay --id 4711 --until now`,
	}, func(ctx context.Context, s store) (change, error) {
		now, err := s.Now(ctx)
		if err != nil {
			return change{}, err
		}
		epoch, err := parseWhen(until, now, time.Local)
		if err != nil {
			return change{}, err
		}
		done := "waits until " + clock(epoch, now)
		if epoch <= now {
			epoch, done = min(epoch, now-1), "may run now" // a task is due once its time has passed
		}
		return change{tasks.Active, done, func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
			return s.Delay(ctx, ids, epoch)
		}}, nil
	})
	cmd.Flags().StringVar(&until, "until", "", "when the tasks may run: a `time`, such as \"6 hours\"")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if until == "" {
			return usagef("say with --until when the tasks may run, as in --until \"6 hours\"")
		}
		if _, err := parseWhen(until, 0, time.Local); err != nil {
			return usagef("--until: %w", err)
		}
		return nil
	}
	return cmd
}

func (a *app) priorityCommand() *cobra.Command {
	var priority int
	cmd := a.changeCommand(&cobra.Command{
		Use:   "priority",
		Short: "Change the priority of tasks",
		Long: `Change the priority of tasks. Smaller numbers run first; Phorge uses 1000 for
alerts, 2000 by default, 2500 for commits, 3000 for bulk work, 3500 for indexing
and 4000 for imports.`,
		Example: `  gantry tasks priority --class PhabricatorMetaMTAWorker --priority 1000`,
	}, func(_ context.Context, s store) (change, error) {
		return change{tasks.Active, fmt.Sprintf("has priority %d now", priority), func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
			return s.Priority(ctx, ids, priority)
		}}, nil
	})
	cmd.Flags().IntVar(&priority, "priority", 0, "the new `priority`")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if priority < 1 || priority > math.MaxUint32 {
			return usagef("name the new priority with --priority; %d is not in the range from 1 to %d", priority, math.MaxUint32)
		}
		return nil
	}
	return cmd
}

func (a *app) retryCommand() *cobra.Command {
	var repeat bool
	cmd := a.changeCommand(&cobra.Command{
		Use:   "retry",
		Short: "Queue archived tasks again",
		Long: `Move failed and cancelled tasks from the archive back to the queue, with their
ids and with no failures counted.`,
		Example: `  gantry tasks retry --id 4711
  gantry tasks retry --class PhabricatorMetaMTAWorker --limit 100
  gantry tasks retry --id 4711 --repeat`,
	}, func(_ context.Context, s store) (change, error) {
		return change{tasks.Archived, "was queued again", func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
			return s.Retry(ctx, ids, repeat)
		}}, nil
	})
	cmd.Flags().BoolVar(&repeat, "repeat", false, "also tasks that succeeded")
	return cmd
}

func (a *app) awakenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "awaken",
		Short: "Let yielded tasks run now",
		Long: `Let tasks that yielded and never failed run now. Other tasks stay as they are.
JSON is one document: how many tasks were selected and how many awakened.

` + selectionHelp,
		Example: `  gantry tasks awaken --class DrydockLeaseUpdateWorker`,
		Args:    selectOnly,
	}
	selected := addSelectors(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := selected.check(cmd.Flags()); err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			return a.awakenTasks(ctx, s, selected)
		})
	}
	return cmd
}

func (a *app) awakenTasks(ctx context.Context, s store, selected *selection) error {
	awakened := 0
	count, err := selected.each(ctx, s, tasks.Active, func(page []tasks.Record) error {
		n, err := s.Awaken(ctx, idsOf(page))
		awakened += n
		return err
	})
	switch {
	case exitCode(err) == exitNothing: // an id is missing
		return fmt.Errorf("nothing was done: %w", err)
	case err != nil:
		return err
	case count == 0:
		return noneMatches()
	case a.print.json:
		err = a.print.document(struct {
			Selected int `json:"selected"`
			Awakened int `json:"awakened"`
		}{count, awakened})
	default:
		a.print.linef("%d of %d selected tasks were awakened.", awakened, count)
	}
	if awakened == 0 && err == nil {
		err = coded{fmt.Errorf("nothing was changed: only tasks that yielded and never failed can be awakened"), exitNothing}
	}
	return err
}
