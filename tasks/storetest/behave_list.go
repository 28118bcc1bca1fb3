package storetest

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

// list reads all the pages of a listing.
func (s *scene) list(filter tasks.Filter) []tasks.Record {
	s.Helper()
	records, err := listAll(s.Context(), s.Operator, filter)
	s.must(err, "List")
	return records
}

func (s *scene) stats() tasks.Stats {
	s.Helper()
	stats, err := s.Operator.Stats(s.Context())
	s.must(err, "Stats")
	return stats
}

// lookBehaviours say what a person sees of a queue.
var lookBehaviours = []behaviour{
	{name: "list answers what a filter selects by ascending id", check: func(s *scene) {
		for i := range 6 {
			s.queue(tasks.NewTask{
				Class: []string{"A", "B"}[i%2], Data: fmt.Appendf(nil, "%d", i), Priority: ptr(1000 * (1 + i%3)),
				ObjectPHID: ptr(fmt.Sprintf("PHID-O-%d", i%3)), ContainerPHID: ptr(fmt.Sprintf("PHID-C-%d", i/3)),
			})
		}
		for i, task := range s.lease(Any(8)) {
			if i < 4 {
				s.end(task, []tasks.Outcome{{Kind: tasks.Succeeded}, {Kind: tasks.Retry, Wait: minute}}[i%2])
			}
		}
		rows := s.rows()
		for _, filter := range []tasks.Filter{
			{}, {Class: "A"}, {Class: "a"}, {MinFailures: 1}, {MaxFailures: ptr(0)}, {MinPriority: 2000}, {MaxPriority: ptr(2000)},
			{Objects: []string{"PHID-O-1", "PHID-O-2"}}, {Containers: []string{"PHID-C-1"}}, {Containers: []string{"PHID-C-"}},
			{Class: "B", MinPriority: 2000, Objects: []string{"PHID-O-0", "PHID-O-1"}}, {After: rows[2].ID},
		} {
			for _, filter.State = range []tasks.State{tasks.Active, tasks.Archived} {
				for _, filter.Limit = range []int{1, 2, 100} {
					var want []tasks.Record
					for _, row := range rows {
						if row.ID > filter.After && matches(filter, row) {
							want = append(want, row)
						}
					}
					s.same(fmt.Sprintf("the listing of %+v", filter), s.list(filter), want)
				}
			}
		}
	}},
	{name: "stats count active tasks by class", check: func(s *scene) {
		failing := s.hold(task("C"))
		s.end(failing, tasks.Outcome{Kind: tasks.Retry, Wait: minute})
		s.states()
		s.put("B", at("111:host", s.now()))
		s.put("B", unowned(s.now()+10))
		s.put("B", forever("111:host"))
		s.same("stats", s.stats(), tasks.Stats{Now: s.now(), Classes: []tasks.ClassStats{
			{Class: "A", Active: 5, Leased: 1, Waiting: 2},
			{Class: "B", Active: 3, Leased: 1, Waiting: 1},
			{Class: "C", Active: 1, Waiting: 1, Failing: 1},
		}})
	}},
	{name: "an empty queue has no stats", check: func(s *scene) {
		s.same("stats", s.stats(), tasks.Stats{Now: s.now()})
	}},
}

// listAll goes on after each page until there is no next one.
func listAll(ctx context.Context, o tasks.Operator, filter tasks.Filter) ([]tasks.Record, error) {
	var records []tasks.Record
	for {
		page, err := o.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		if len(page.Tasks) > filter.Limit {
			return nil, fmt.Errorf("a page with limit %d holds %d tasks", filter.Limit, len(page.Tasks))
		}
		records = append(records, page.Tasks...)
		if page.Next == 0 {
			return records, nil
		}
		if page.Next <= filter.After {
			return nil, fmt.Errorf("the page after %d goes on after %d", filter.After, page.Next)
		}
		filter.After = page.Next
	}
}
