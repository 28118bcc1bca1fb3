package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

func (a *app) floodCommand() *cobra.Command {
	var count int
	var duration float64
	cmd := &cobra.Command{
		Use:   "flood",
		Short: "Queue many test tasks",
		Long: `Queue tasks of the class PhabricatorTestWorker in batches. They do nothing, or
sleep. It is for trying things out and for measuring.`,
		Example: `  gantry tasks flood --count 10000
  gantry tasks flood --count 100 --duration 0.5`,
		Args: noArgs,
	}
	cmd.Flags().IntVar(&count, "count", 1000, "how many `tasks` to queue")
	cmd.Flags().Float64Var(&duration, "duration", 0, "how many `seconds` each task takes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if count < 1 {
			return usagef("--count %d must be at least 1", count)
		}
		if !(duration >= 0) {
			return usagef("--duration %v must not be negative", duration)
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			return a.flood(ctx, s, count, duration)
		})
	}
	return cmd
}

func (a *app) flood(ctx context.Context, s store, count int, duration float64) error {
	data, err := json.Marshal(map[string]float64{"duration": duration})
	if err != nil {
		return usagef("--duration %v: %w", duration, err)
	}
	batch := make([]tasks.NewTask, pageSize)
	for i := range batch {
		batch[i] = tasks.NewTask{Class: "PhabricatorTestWorker", Data: data}
	}
	report := struct {
		Queued int   `json:"queued"`
		First  int64 `json:"firstId"`
		Last   int64 `json:"lastId"`
	}{}
	progress := newProgress(a.err)
	for report.Queued < count && err == nil {
		var ids []int64
		ids, err = s.Enqueue(ctx, batch[:min(len(batch), count-report.Queued)])
		if err != nil {
			break
		}
		if report.Queued == 0 {
			report.First = ids[0]
		}
		report.Queued += len(ids)
		report.Last = ids[len(ids)-1]
		progress.tell(time.Now(), func() string { return fmt.Sprintf("%d of %d tasks queued", report.Queued, count) })
	}
	// What was queued is told even when the rest could not be.
	switch {
	case report.Queued == 0:
	case a.print.json:
		if printed := a.print.document(report); printed != nil {
			return printed
		}
	default:
		a.print.linef("%s queued, ids %d to %d.",
			plural(report.Queued, "task of class PhabricatorTestWorker was", "tasks of class PhabricatorTestWorker were"), report.First, report.Last)
	}
	return err
}
