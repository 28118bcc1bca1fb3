package storetest

import (
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// want is what is wanted of a class, for a minute.
func want(limit int) tasks.ClassRequest { return tasks.ClassRequest{Limit: limit, LeaseTime: minute} }

// filterBehaviours say what a caller gets of the classes that it asks for.
var filterBehaviours = []behaviour{
	{name: "only classes that are asked for are leased", check: func(s *scene) {
		ids := s.queue(task("A"), task("B"), task("C"))
		s.same("leased", idsOf(s.lease(tasks.LeaseRequest{Limit: 8, Classes: map[string]tasks.ClassRequest{"B": want(8)}})), ids[1:2])
		for _, id := range []int64{ids[0], ids[2]} {
			s.same("place of another class", s.row(id).Place, tasks.Place{})
		}
		s.same("leased", len(s.lease(tasks.LeaseRequest{Limit: 8, Classes: map[string]tasks.ClassRequest{"absent": want(8)}})), 0)
		s.same("leased", len(s.lease(tasks.LeaseRequest{Limit: 8})), 0)
	}},
	{name: "a class with limit 0 is passed over", check: func(s *scene) {
		var last []int64
		for range 50 {
			s.queue(prioritized("full", 1))
			last = s.queue(task("A"))
		}
		leased := s.lease(tasks.LeaseRequest{Limit: 60, Others: want(60), Classes: map[string]tasks.ClassRequest{"full": want(0)}})
		s.same("leased", []int{countClass(leased, "full"), countClass(leased, "A")}, []int{0, 50})
		s.same("last", leased[49].ID, last[0])
	}},
	{name: "a class gets no more than its limit and all together no more than the limit", check: func(s *scene) {
		for range 5 {
			s.queue(task("A"), task("B"), task("C"), task("D"))
		}
		req := tasks.LeaseRequest{Limit: 9, Others: want(3), Classes: map[string]tasks.ClassRequest{"A": want(1), "B": want(4)}}
		leased := s.lease(req)
		s.same("leased of A, B, C, D", classCounts(leased), []int{1, 3, 3, 2})
		s.same("leased", len(leased), 9)
	}},
	{name: "limits count expired tasks as well", check: func(s *scene) {
		s.queue(task("A"), task("A"), task("B"))
		s.put("A", at("111:host", s.now()-1))
		s.put("B", at("111:host", s.now()-2))
		s.put("B", at("111:host", s.now()-3))
		leased := s.lease(tasks.LeaseRequest{Limit: 8, Others: want(2)})
		s.same("leased of A, B, C, D", classCounts(leased), []int{2, 2, 0, 0})
	}},
	{name: "new work that keeps a class at its limit does not starve its expired tasks", check: func(s *scene) {
		s.queue(task("A"), task("A"))
		expired := s.put("A", at("111:host", s.now()-1))
		s.same("leased", idsOf(s.lease(tasks.LeaseRequest{Limit: 8, Others: want(1)})), []int64{expired})
	}},
	{name: "B17 each class has its own lease time", check: func(s *scene) {
		ids := s.queue(task("short"), task("long"))
		req := tasks.LeaseRequest{Limit: 8, Others: want(8), Classes: map[string]tasks.ClassRequest{"long": {Limit: 8, LeaseTime: 2 * time.Hour}}}
		leased := s.lease(req)
		s.same("leased", idsOf(leased), ids)
		s.same("ends", []int64{leased[0].Lease.Expires, leased[1].Lease.Expires}, []int64{s.now() + 60, s.now() + 7200})
		s.same("end in the row", s.expires(ids[1]), s.now()+7200)
		s.age(60 + 6)
		s.same("leased by another process", idsOf(s.leaseBy(s.Other, Any(8))), ids[:1])
	}},
	{name: "classes are told apart by their exact spelling", check: func(s *scene) {
		ids := s.queue(task("Mail"), task("mail"), task("Mail "), task("máil"), task("Mail'\"\\%_`"))
		for _, i := range []int{4, 3, 2, 1, 0} {
			class := s.row(ids[i]).Class
			req := tasks.LeaseRequest{Limit: 8, Classes: map[string]tasks.ClassRequest{class: want(8)}}
			s.same("leased of "+class, idsOf(s.lease(req)), ids[i:i+1])
		}
	}},
	{name: "what is put back is leased again whatever was asked for in between", check: func(s *scene) {
		only := func(class string) tasks.LeaseRequest {
			return tasks.LeaseRequest{Limit: 4, Classes: map[string]tasks.ClassRequest{class: want(4)}}
		}
		for range 20 {
			s.queue(task("A"), task("B"))
		}
		for range 3 {
			first := s.lease(only("A"))
			s.same("leased of the other class", countClass(s.lease(only("B")), "B"), 4)
			for _, task := range first {
				s.end(task, tasks.Outcome{Kind: tasks.Released})
			}
			s.same("leased", len(first), 4)
			s.same("leased again", idsOf(s.lease(only("A"))), idsOf(first))
		}
	}},
	{name: "a long queue is leased in its order", check: func(s *scene) {
		var news []tasks.NewTask
		for i := range 1500 {
			news = append(news, prioritized("A", 1000*(1+i*7%5)))
		}
		s.queue(news...)
		var got, want []tasks.Task
		for _, record := range s.rows() {
			want = append(want, record.Task)
		}
		slices.SortFunc(want, byPriority)
		for len(got) < len(want) {
			leased := s.lease(Any(100))
			s.same("leased", len(leased) > 0, true)
			got = append(got, leased...)
		}
		s.same("order", idsOf(got), idsOf(want))
	}},
	{name: "work behind many rows that must be passed over is found", check: func(s *scene) {
		unwanted := slices.Repeat([]tasks.NewTask{prioritized("unwanted", 1)}, 1500)
		delayed := slices.Repeat([]tasks.NewTask{{Class: "A", Data: []byte("1"), DelayUntil: latest}}, 1500)
		s.queue(append(unwanted, delayed...)...)
		fresh := s.queue(prioritized("A", 4000))[0]
		expired := s.put("A", at(tasks.YieldOwner, s.now()-1))
		found := map[int64]bool{}
		s.eventually("both are leased", func() bool {
			for _, task := range s.lease(tasks.LeaseRequest{Limit: 8, Classes: map[string]tasks.ClassRequest{"A": want(8)}}) {
				found[task.ID] = true
			}
			return found[fresh] && found[expired]
		})
		s.same("found", len(found), 2)
	}},
}

func classCounts(list []tasks.Task) []int {
	var counts []int
	for _, class := range []string{"A", "B", "C", "D"} {
		counts = append(counts, countClass(list, class))
	}
	return counts
}
