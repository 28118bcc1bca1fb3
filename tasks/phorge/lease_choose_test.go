package phorge

import (
	"slices"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestChoose(t *testing.T) {
	fresh := func(id, priority int64, class string) entry { return entry{id: id, priority: priority, class: class} }
	expired := func(id, expires int64, class string) entry {
		return entry{id: id, priority: 1, class: class, Place: stands("111:host", expires)}
	}
	few := func(limit, a int) tasks.LeaseRequest {
		req := storetest.Any(limit)
		req.Classes = map[string]tasks.ClassRequest{"A": {Limit: a}}
		return req
	}
	for _, c := range []struct {
		name  string
		req   tasks.LeaseRequest
		found []entry
		want  []int64
	}{
		{"nothing", storetest.Any(8), nil, nil},
		{"new tasks by priority and id", storetest.Any(8),
			[]entry{fresh(1, 3000, "A"), fresh(3, 1000, "A"), fresh(2, 1000, "B")}, []int64{2, 3, 1}},
		{"freed ones are new tasks, whatever their expiry", storetest.Any(8),
			[]entry{fresh(1, 3000, "A"), {id: 2, priority: 2000, class: "A", Place: unowned(0)}}, []int64{2, 1}},
		{"B06 expired ones by expiry, whatever their priority", storetest.Any(1),
			[]entry{expired(1, 50, "A"), expired(2, 40, "B")}, []int64{2}},
		{"one of a small batch is kept for expired ones", storetest.Any(2),
			[]entry{fresh(1, 1, "A"), fresh(2, 1, "A"), expired(3, 40, "A"), expired(4, 30, "A")}, []int64{1, 4}},
		{"expired ones fill what new ones leave", storetest.Any(4),
			[]entry{fresh(9, 1, "A"), expired(3, 40, "A"), expired(4, 30, "A"), expired(5, 50, "A")}, []int64{9, 4, 3, 5}},
		{"a class that has its fill leaves room to others", few(3, 1),
			[]entry{fresh(1, 1, "A"), fresh(2, 1, "A"), fresh(3, 2, "B"), expired(4, 1, "B")}, []int64{1, 3, 4}},
		{"a class at its limit takes expired ones first", few(8, 1),
			[]entry{fresh(1, 1, "A"), expired(2, 1, "A")}, []int64{2}},
		{"what is not wanted is not chosen", few(8, 0), []entry{fresh(1, 1, "A"), expired(2, 1, "A")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := map[int64]entry{}
			for _, e := range c.found {
				found[e.id] = e
			}
			var ids []int64
			for _, e := range choose(c.req, found) {
				ids = append(ids, e.id)
			}
			if !slices.Equal(ids, c.want) {
				t.Errorf("chose %v, want %v", ids, c.want)
			}
		})
	}
}
