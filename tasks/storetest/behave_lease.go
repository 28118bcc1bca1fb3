package storetest

import (
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// leaseBehaviours say which rows are leased, in which order, and what the
// lease is.
var leaseBehaviours = []behaviour{
	{name: "an empty queue answers nothing", check: func(s *scene) {
		s.same("leased", len(s.lease(Any(8))), 0)
	}},
	{name: "never leased tasks come by priority and id", check: func(s *scene) {
		ids := s.queue(prioritized("A", 3000), prioritized("B", 1000), prioritized("A", 1000), prioritized("A", 2000))
		s.same("order", idsOf(s.lease(Any(8))), []int64{ids[1], ids[2], ids[3], ids[0]})
	}},
	{name: "B06 expired tasks come by expiry, whatever their priority", check: func(s *scene) {
		urgent, other := s.queue(prioritized("A", 1000))[0], s.queue(prioritized("B", 4000))[0]
		s.must(s.Rows.Place(urgent, at(tasks.YieldOwner, s.now()-10)), "Place")
		s.must(s.Rows.Place(other, at(tasks.RetryOwner(1, 0), s.now()-60)), "Place")
		s.take(other)
		s.end(s.take(urgent), tasks.Outcome{Kind: tasks.Yielded})
		s.same("leased while both wait", len(s.lease(Any(1))), 0)
	}},
	{name: "an eighth of a batch is kept for expired tasks", check: func(s *scene) {
		for _, c := range []struct{ limit, expired int }{{2, 1}, {8, 1}, {15, 1}, {16, 2}, {24, 3}} {
			for range 30 {
				s.queue(task("fresh"))
				s.put("expired", at("111:host", s.now()-1000))
			}
			leased := s.lease(Any(c.limit))
			s.same("leased", len(leased), c.limit)
			s.same("expired ones come last", slices.IsSortedFunc(leased, func(a, b tasks.Task) int {
				return len(a.Class) - len(b.Class)
			}), true)
			s.same("expired ones", countClass(leased, "expired"), c.expired)
		}
	}},
	{name: "what one kind leaves of a batch the other one takes", check: func(s *scene) {
		fresh := s.queue(task("A"), task("A"))
		old := []int64{s.put("A", at("111:host", s.now()-3)), s.put("A", at("111:host", s.now()-2)), s.put("A", at("111:host", s.now()-1))}
		s.same("leased", idsOf(s.lease(Any(4))), []int64{fresh[0], fresh[1], old[0], old[1]})
		s.same("leased", idsOf(s.lease(Any(4))), []int64{old[2]})
	}},
	{name: "B07 fresh mail passes many hopeless retries", check: func(s *scene) {
		for range 500 {
			s.put("hopeless", at(tasks.RetryOwner(1, 0), s.now()-300))
		}
		mail := s.queue(task("mail"), task("mail"), task("mail"), task("mail"), task("mail"))
		leased := s.lease(Any(8))
		s.same("leased", len(leased), 8)
		s.same("first", idsOf(leased[:5]), mail)
		for _, task := range leased[5:] {
			s.end(task, tasks.Outcome{Kind: tasks.Retry, Wait: 7 * minute})
			s.same("the wait", s.row(task.ID).Place, at(tasks.RetryOwner(task.Lease.Fence, 0), s.now()+420))
		}
	}},
	{name: "B04 rows written by bin/worker mean what they mean in Phorge", check: func(s *scene) {
		fresh := s.queue(prioritized("A", 4000))[0]
		retried, freed, delayed := s.put("A", unowned(0)), s.put("A", unowned(s.now()-1)), s.put("A", unowned(s.now()+1000))
		expired := s.put("A", at("111:host", s.now()-5000))
		leased := s.lease(Any(8))
		s.same("leased", idsOf(leased), []int64{retried, freed, fresh, expired})
		for _, task := range leased {
			s.end(task, tasks.Outcome{Kind: tasks.Succeeded})
		}
		s.same("the delayed one", s.row(delayed).Place, unowned(s.now()+1000))
		s.age(1001)
		s.take(delayed)
	}},
	{name: "rows that are not due stay as they are", check: func(s *scene) {
		for _, place := range []tasks.Place{
			forever(""), forever("111:host"), forever(tasks.YieldOwner), forever(gantry(1, 0)),
			at("111:host", s.now()), at("111:host", s.now()+60), at(tasks.YieldOwner, s.now()), at("", s.now()),
			unowned(s.now()), unowned(s.now() + 1), unowned(latest),
			at(gantry(1, 0), s.now()), at(gantry(1, 0), s.now()-5),
		} {
			id := s.put("A", place)
			s.same("leased", len(s.lease(Any(8))), 0)
			s.same("place", s.row(id).Place, place)
		}
	}},
	{name: "rows that have just become due are leased", check: func(s *scene) {
		for _, place := range []tasks.Place{
			{}, unowned(0), unowned(s.now() - 1), at("111:host", s.now()-1), at("", 0),
			at(tasks.YieldOwner, s.now()-1), at(tasks.DelayOwner, s.now()-1), at(gantry(1, 0), s.now()-6),
		} {
			id := s.put("A", place)
			s.same("where it stood before", s.take(id).Lease.Prior, place)
		}
	}},
	{name: "a lease is a place of its own and changes nothing else", check: func(s *scene) {
		id := s.queue(prioritized("A", 1234))[0]
		before := s.row(id)
		got := s.take(id)
		want := before.Task
		want.Place = at(got.Lease.Owner, s.now()+60)
		want.Lease = &tasks.Lease{Owner: got.Lease.Owner, Fence: got.Lease.Fence, Expires: s.now() + 60}
		s.same("the leased task", got, want)
		want.Lease = nil
		s.same("the row", s.row(id), tasks.Record{Task: want})
	}},
	{name: "an owner is unique to its lease and tells fence and crashes", check: func(s *scene) {
		seen := map[string]bool{}
		last := int64(0)
		for i := range 6 {
			id := s.queue(task("A"))[0]
			task := s.takeBy([]tasks.Store{s.Store, s.Other}[i%2], id)
			owner, ok := tasks.ParseOwner(task.Lease.Owner)
			if !ok || owner.Fence != task.Lease.Fence || owner.Crashes != 0 || owner.Nonce == "" || len(task.Lease.Owner) > 64 {
				s.Errorf("the owner is %q for the lease %+v", task.Lease.Owner, task.Lease)
			}
			if seen[task.Lease.Owner] || task.Lease.Fence <= last {
				s.Errorf("task %d got the lease %+v after fence %d", task.ID, task.Lease, last)
			}
			seen[task.Lease.Owner], last = true, task.Lease.Fence
		}
	}},
	{name: "a live lease is not taken, an expired one of stock Phorge is", check: func(s *scene) {
		held := s.hold(task("A"))
		s.same("leased by another process", len(s.leaseBy(s.Other, Any(8))), 0)
		s.must(s.Rows.Place(held.ID, at("111:host", s.now()+1)), "Place")
		s.same("leased from stock Phorge", len(s.lease(Any(8))), 0)
		s.age(2)
		s.same("crashes of a stock taskmaster", s.take(held.ID).Lease.Crashes, 0)
	}},
	{name: "the expired lease of another Gantry is left alone for five seconds and then counts as a crash", check: func(s *scene) {
		held := s.hold(task("A"))
		s.age(60 + 5)
		s.same("leased five seconds after", len(s.leaseBy(s.Other, Any(8))), 0)
		s.age(1)
		taken := s.takeBy(s.Other, held.ID)
		s.same("crashes", taken.Lease.Crashes, 1)
		s.same("crashes in the owner", tasks.Crashes(taken.Lease.Owner), 1)
		s.age(60 + 6)
		s.same("crashes after another one", s.take(held.ID).Lease.Crashes, 2)
	}},
	{name: "a process that takes its own expired lease again has not crashed", check: func(s *scene) {
		held := s.hold(task("A"))
		s.age(60 + 6)
		s.same("crashes", s.take(held.ID).Lease.Crashes, 0)
	}},
	{name: "crashes are carried through waiting owners", check: func(s *scene) {
		for _, c := range []struct {
			owner string
			want  int
		}{
			{tasks.RetryOwner(7, 3), 3}, {tasks.BackOwner(7, 2), 2}, {gantry(7, 4), 5},
			{tasks.YieldOwner, 0}, {tasks.DelayOwner, 0}, {"12:7:3", 0}, {"(retry)", 0},
		} {
			leased := s.take(s.put("A", at(c.owner, s.now()-6)))
			s.same("crashes after "+c.owner, leased.Lease.Crashes, c.want)
		}
	}},
	{name: "a batch with different crash counts is one lease of one fence", check: func(s *scene) {
		s.put("A", at(tasks.RetryOwner(7, 3), s.now()-6))
		s.put("A", at(tasks.RetryOwner(7, 1), s.now()-7))
		s.queue(task("A"))
		fences := map[int64]bool{}
		var crashes []int
		for _, task := range s.lease(Any(8)) {
			fences[task.Lease.Fence] = true
			crashes = append(crashes, task.Lease.Crashes, tasks.Crashes(s.owner(task.ID)))
		}
		s.same("crashes", crashes, []int{0, 0, 1, 1, 3, 3})
		s.same("fences", len(fences), 1)
	}},
	{name: "a task without data has none, which is not the empty string", check: func(s *scene) {
		for _, data := range [][]byte{nil, {}, []byte(`{"a":`), []byte(`"\ud800"`)} {
			id, err := s.Rows.Insert(tasks.Task{Class: "A", Data: data, Priority: 2000})
			s.must(err, "Insert")
			task := s.take(id)
			s.same("data", string(task.Data), string(data))
			s.same("data is NULL", task.Data == nil, data == nil)
		}
	}},
	{name: "B05 a failed task keeps an owner and nobody leases it before its wait is over", check: func(s *scene) {
		held := s.hold(task("A"))
		s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: 10 * minute})
		s.same("owner is set", s.row(held.ID).Owner != nil, true)
		s.age(600)
		s.same("leased before", len(s.lease(Any(8)))+len(s.leaseBy(s.Other, Any(8))), 0)
		s.age(1)
		s.take(held.ID)
	}},
	{name: "a task is left alone for its pickup delay", check: func(s *scene) {
		id := s.queue(task("A"))[0]
		req := Any(1)
		req.Others.PickupDelay = time.Hour
		s.same("leased", len(s.lease(req)), 0)
		s.take(id)
	}},
	{name: "a task is leased after its pickup delay", moving: true, check: func(s *scene) {
		id := s.queue(task("A"))[0]
		req := Any(1)
		req.Others.PickupDelay = time.Second
		s.eventually("the task is leased", func() bool {
			leased := s.lease(req)
			return len(leased) == 1 && leased[0].ID == id
		})
	}},
}

func idsOf(list []tasks.Task) []int64 {
	ids := make([]int64, len(list))
	for i, task := range list {
		ids[i] = task.ID
	}
	return ids
}

func countClass(list []tasks.Task, class string) int {
	n := 0
	for _, task := range list {
		if task.Class == class {
			n++
		}
	}
	return n
}
