package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pageSize is how many tasks are looked at, changed and reported together.
const pageSize = 500

const selectionHelp = `Select tasks with --id, --class, --object, --container, --active, --archived and
the bounds on priority and failureCount, as with bin/worker; a task must match
all of them. They are taken by ascending id, with --id in the order given. With
--id active and archived tasks are looked at, otherwise only those the command
can do something with; --active and --archived say which.`

// selection is the selectors of bin/worker.
type selection struct {
	filter      tasks.Filter
	ids         []int64
	maxFailures int
	maxPriority int
	active      bool
	archived    bool
	limit       int
}

// addSelectors gives a command the flags that fill a selection.
func addSelectors(cmd *cobra.Command) *selection {
	s := &selection{}
	flags := cmd.Flags()
	flags.Int64SliceVar(&s.ids, "id", nil, "select the task with this `id`; can be repeated")
	flags.Lookup("id").DefValue = "" // rather than [] in the help
	flags.StringVar(&s.filter.Class, "class", "", "select tasks of this `class`, by its exact spelling")
	flags.IntVar(&s.filter.MinFailures, "min-failure-count", 0, "select tasks that failed at least `n` times")
	flags.IntVar(&s.maxFailures, "max-failure-count", 0, "select tasks that failed at most `n` times")
	flags.IntVar(&s.filter.MinPriority, "min-priority", 0, "select tasks whose priority is `n` or more")
	flags.IntVar(&s.maxPriority, "max-priority", 0, "select tasks whose priority is `n` or less")
	flags.StringArrayVar(&s.filter.Objects, "object", nil, "select tasks about the object with this `PHID`; can be repeated")
	flags.StringArrayVar(&s.filter.Containers, "container", nil, "select tasks in the container with this `PHID`; can be repeated")
	flags.BoolVar(&s.active, "active", false, "select tasks in the queue")
	flags.BoolVar(&s.archived, "archived", false, "select tasks in the archive")
	flags.IntVar(&s.limit, "limit", 0, "select at most `n` tasks")
	return s
}

var selectors = []string{"id", "class", "min-failure-count", "max-failure-count",
	"min-priority", "max-priority", "object", "container", "active", "archived"}

// given reports whether a selector was used.
func (s *selection) given(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(selectors, flags.Changed)
}

// check refuses what selects nothing in particular, or nothing at all.
func (s *selection) check(flags *pflag.FlagSet) error {
	if flags.Changed("max-failure-count") {
		s.filter.MaxFailures = &s.maxFailures
	}
	if flags.Changed("max-priority") {
		s.filter.MaxPriority = &s.maxPriority
	}
	switch {
	case flags.Changed("limit") && s.limit < 1:
		return usagef("--limit %d must be at least 1", s.limit)
	case !s.given(flags):
		return usagef("say which tasks with a selector, such as --id or --class; --help lists them")
	case s.active && s.archived:
		return usagef("no task is both --active and --archived; leave one of them out")
	case s.filter.MaxFailures != nil && s.maxFailures < s.filter.MinFailures:
		return usagef("--min-failure-count %d is above --max-failure-count %d", s.filter.MinFailures, s.maxFailures)
	case s.filter.MaxPriority != nil && s.maxPriority < s.filter.MinPriority:
		return usagef("--min-priority %d is above --max-priority %d", s.filter.MinPriority, s.maxPriority)
	case flags.Changed("class") && s.filter.Class == "":
		return usagef("--class is empty; name a class, such as PhabricatorSearchWorker")
	}
	for _, phid := range slices.Concat(s.filter.Objects, s.filter.Containers) {
		if !strings.HasPrefix(phid, "PHID-") {
			return usagef("%q is not a PHID; the Conduit method phid.lookup finds the one of a name such as T123", phid)
		}
	}
	return nil
}

// states answers where to look, given where the command can act.
func (s *selection) states(acts tasks.State) []tasks.State {
	switch {
	case s.active:
		return []tasks.State{tasks.Active}
	case s.archived:
		return []tasks.State{tasks.Archived}
	case s.ids != nil:
		return []tasks.State{tasks.Active, tasks.Archived}
	}
	return []tasks.State{acts}
}

// each hands the selected tasks to use, page by page, and answers how many
// there were. With ids it does so only when every one of them was found.
func (s *selection) each(ctx context.Context, op tasks.Operator, acts tasks.State, use func([]tasks.Record) error) (int, error) {
	if s.ids != nil {
		found, err := s.byID(ctx, op, s.states(acts))
		if err != nil {
			return 0, err
		}
		for page := range slices.Chunk(found, pageSize) {
			if err := use(page); err != nil {
				return 0, err
			}
		}
		return len(found), nil
	}
	count := 0
	filter := s.filter
	filter.State = s.states(acts)[0]
	for {
		filter.Limit = pageSize
		if s.limit > 0 {
			filter.Limit = min(pageSize, s.limit-count)
		}
		page, err := op.List(ctx, filter)
		if err != nil {
			return count, err
		}
		count += len(page.Tasks)
		if len(page.Tasks) > 0 {
			if err := use(page.Tasks); err != nil {
				return count, err
			}
		}
		if page.Next == 0 || s.limit > 0 && count == s.limit {
			return count, nil
		}
		filter.After = page.Next
	}
}

func (s *selection) byID(ctx context.Context, op tasks.Operator, states []tasks.State) ([]tasks.Record, error) {
	var found []tasks.Record
	var missing []string
	var seen []int64
	for _, id := range s.ids {
		if slices.Contains(seen, id) {
			continue
		}
		seen = append(seen, id)
		record, err := s.one(ctx, op, states, id)
		if err != nil {
			return nil, err
		}
		if record == nil {
			missing = append(missing, fmt.Sprint(id))
			continue
		}
		found = append(found, *record)
	}
	if missing != nil {
		return nil, coded{fmt.Errorf("no task matches with id %s", strings.Join(missing, ", ")), exitNothing}
	}
	if s.limit > 0 {
		found = found[:min(len(found), s.limit)]
	}
	return found, nil
}

// one finds the task with an id if it matches the other selectors: it is then
// the first of a listing that begins with its id.
func (s *selection) one(ctx context.Context, op tasks.Operator, states []tasks.State, id int64) (*tasks.Record, error) {
	for _, state := range states {
		filter := s.filter
		filter.State, filter.After, filter.Limit = state, id-1, 1
		page, err := op.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		if len(page.Tasks) > 0 && page.Tasks[0].ID == id {
			return &page.Tasks[0], nil
		}
	}
	return nil, nil
}
