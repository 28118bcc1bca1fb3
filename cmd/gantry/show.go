package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

// taskDetail is a task as show writes it: data is the stored bytes as text,
// null when there is no data row; bytes that are no text are in dataBase64.
type taskDetail struct {
	taskReport
	Attempts   []tasks.Attempt `json:"attempts"` // failed ones, newest first; null where nobody records them
	Data       *string         `json:"data"`
	DataBase64 []byte          `json:"dataBase64,omitempty"`
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show everything about tasks, with their data",
		Long: `Show all columns of the selected tasks, what their owner means, and their data
as it is stored, byte for byte; and why their last attempts failed. On Phorge's
tables that needs Gantry's own (see gantry storage). JSON is one document a line; data that is not
UTF-8 is in dataBase64.

` + selectionHelp,
		Example: `  gantry tasks show --id 4711
  gantry tasks show --id 4711 --output json | jq -r .data`,
		Args: selectOnly,
	}
	selected := addSelectors(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := selected.check(cmd.Flags()); err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			return a.showTasks(ctx, s, selected)
		})
	}
	return cmd
}

func (a *app) showTasks(ctx context.Context, s store, selected *selection) error {
	if err := untold(s); err != nil {
		a.warnf("why attempts failed is not known: %v", err)
	}
	count, err := selected.each(ctx, s, tasks.Active, func(page []tasks.Record) error {
		for _, r := range page {
			full, err := s.Get(ctx, r.ID)
			if errors.Is(err, tasks.ErrNotFound) {
				a.warnf("task %d was removed meanwhile", r.ID)
				continue
			}
			if err != nil {
				return err
			}
			now, err := s.Now(ctx)
			if err != nil {
				return err
			}
			var attempts []tasks.Attempt
			if untold(s) == nil {
				if attempts, err = s.Attempts(ctx, r.ID, tasks.AttemptsKept); err != nil {
					return err
				}
				attempts = append([]tasks.Attempt{}, attempts...) // there are none, and that is known
			}
			if err := a.showTask(full, attempts, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && count == 0 {
		return noneMatches()
	}
	return err
}

func (a *app) showTask(r tasks.Record, attempts []tasks.Attempt, now int64) error {
	word, sentence := standing(r, now)
	if a.print.json {
		return a.print.document(detail(r, word, attempts))
	}
	a.print.linef("Task %d (%s)", r.ID, plain(r.Class))
	// What has several lines is set in, so that none of them looks like a field.
	inset := strings.NewReplacer("\n", "\n"+strings.Repeat(" ", 17))
	field := func(name, value string) { a.print.linef("  %-14s %s", name, inset.Replace(plain(value))) }
	field("state", sentence)
	field("priority", fmt.Sprint(r.Priority))
	field("failureCount", fmt.Sprint(r.FailureCount))
	field("failureTime", orNone(r.FailureTime, func(t int64) string { return clock(t, now) }))
	field("objectPHID", orNone(r.ObjectPHID, func(s string) string { return s }))
	field("containerPHID", orNone(r.ContainerPHID, func(s string) string { return s }))
	field("dateCreated", clock(r.DateCreated, now))
	field("dateModified", clock(r.DateModified, now))
	field("leaseOwner", orNone(r.Owner, func(s string) string { return s }))
	field("leaseExpires", orNone(r.Expires, func(t int64) string { return fmt.Sprintf("%d, %s", t, clock(t, now)) }))
	if r.Archive != nil {
		field("result", fmt.Sprintf("%d (%s)", r.Result, word))
		field("duration", fmt.Sprintf("%d µs", r.Duration))
		field("archivedEpoch", clock(r.Epoch, now))
	}
	for _, t := range attempts {
		field(fmt.Sprintf("attempt %d", t.Number), fmt.Sprintf("%s after %d µs, %s on %s: %s: %s",
			clock(t.Epoch, now), t.Duration, cmp.Or(t.Route, "nothing ran it"), t.Host, cmp.Or(t.Category, "failed"), t.Reason))
	}
	text := plain(string(r.Data))
	switch {
	case r.Data == nil:
		field("data", "none; PHP reads null")
	case text != string(r.Data):
		field("data", fmt.Sprintf("%d bytes that are not text, quoted:", len(r.Data)))
	default:
		field("data", fmt.Sprintf("%d bytes:", len(r.Data)))
	}
	if r.Data != nil {
		a.print.linef("%s", text)
	}
	return nil
}

func detail(r tasks.Record, state string, attempts []tasks.Attempt) taskDetail {
	d := taskDetail{taskReport: taskReport{r, state}, Attempts: attempts}
	switch {
	case !utf8.Valid(r.Data):
		d.DataBase64 = r.Data
	case r.Data != nil:
		d.Data = new(string(r.Data))
	}
	return d
}

// orNone shows a column that can be NULL.
func orNone[T any](column *T, show func(T) string) string {
	if column == nil {
		return "NULL"
	}
	return show(*column)
}
