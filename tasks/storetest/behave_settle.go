package storetest

import (
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const year = 365 * 24 * time.Hour

// settleBehaviours say what each outcome leaves.
var settleBehaviours = []behaviour{
	{name: "success archives what Phorge archives", check: func(s *scene) {
		n := tasks.NewTask{Class: "A", Data: []byte(`{"k":1.0}`), ObjectPHID: ptr("PHID-X-1"), ContainerPHID: ptr("PHID-X-2"), Priority: ptr(1234)}
		held := s.hold(n)
		s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: -10 * time.Second})
		held = s.take(held.ID)
		s.end(held, tasks.Outcome{Kind: tasks.Succeeded, Duration: 1500*time.Microsecond + 700})
		s.same("the row", s.row(held.ID), tasks.Record{
			Task: tasks.Task{
				ID: held.ID, Class: "A", Data: n.Data, Priority: 1234, ObjectPHID: n.ObjectPHID, ContainerPHID: n.ContainerPHID,
				FailureCount: 1, DateCreated: s.now(), DateModified: s.now(), Place: at(held.Lease.Owner, s.now()+60),
			},
			Archive: &tasks.Archive{Result: tasks.ResultSuccess, Duration: 1500, Epoch: s.now()},
		})
	}},
	{name: "a permanent failure archives without counting", check: func(s *scene) {
		held := s.hold(task("A"))
		s.end(held, tasks.Outcome{Kind: tasks.Failed, Duration: time.Second, Reason: "no such thing"})
		got := s.row(held.ID)
		s.same("archive", got.Archive, &tasks.Archive{Result: tasks.ResultFailure, Epoch: s.now()})
		s.same("failures", got.FailureCount, 0)
		s.same("place", got.Place, at(held.Lease.Owner, s.now()+60))
	}},
	{name: "a temporary failure counts and waits under (retry) with its fence", check: func(s *scene) {
		held := s.hold(task("A"))
		want := s.row(held.ID)
		s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: 90*time.Second + 999*time.Millisecond})
		want.Place = at(tasks.RetryOwner(held.Lease.Fence, 0), s.now()+90)
		want.FailureCount, want.FailureTime = 1, ptr(s.now())
		s.same("the row", s.row(held.ID), want)
	}},
	{name: "a crash counts as a failure and as a crash", check: func(s *scene) {
		held := s.hold(task("A"))
		for crashes := 1; crashes <= 3; crashes++ {
			s.end(held, tasks.Outcome{Kind: tasks.Crashed, Wait: 5 * time.Second})
			got := s.row(held.ID)
			s.same("place", got.Place, at(tasks.RetryOwner(held.Lease.Fence, crashes), s.now()+5))
			s.same("failures", got.FailureCount, crashes)
			s.same("failed at", got.FailureTime, ptr(s.now()))
			s.age(6)
			held = s.take(held.ID)
			s.same("crashes", held.Lease.Crashes, crashes)
		}
		s.end(held, tasks.Outcome{Kind: tasks.Retry})
		s.same("owner after a failure without a crash", s.owner(held.ID), tasks.RetryOwner(held.Lease.Fence, 3))
	}},
	{name: "B05 a yield waits at least five seconds as (yield) and counts nothing", check: func(s *scene) {
		for _, c := range []struct {
			wait time.Duration
			want int64
		}{{0, 5}, {-minute, 5}, {4 * time.Second, 5}, {6*time.Second + 900*time.Millisecond, 6}, {minute, 60}} {
			held := s.hold(task("A"))
			want := s.row(held.ID)
			s.end(held, tasks.Outcome{Kind: tasks.Yielded, Wait: c.wait})
			want.Place = at(tasks.YieldOwner, s.now()+c.want)
			s.same("the row", s.row(held.ID), want)
		}
	}},
	{name: "a wait leads as far as the column goes and no further", check: func(s *scene) {
		for _, c := range []struct {
			wait time.Duration
			want int64
		}{{-minute, s.now() - 60}, {-100 * year, 0}, {100 * year, latest}, {290 * year, latest}} {
			held := s.hold(task("A"))
			s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: c.wait})
			s.same("the end of the wait", s.expires(held.ID), c.want)
			s.hide(held.ID)
		}
	}},
	{name: "B09 each lease tells how often the task failed before", check: func(s *scene) {
		id := s.queue(task("A"))[0]
		for failures := range 4 {
			held := s.take(id)
			s.same("failures", held.FailureCount, failures)
			s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: -minute})
		}
		held := s.take(id)
		s.same("failures", held.FailureCount, 4)
		s.end(held, tasks.Outcome{Kind: tasks.Failed})
		s.same("result", s.row(id).Archive, &tasks.Archive{Result: tasks.ResultFailure, Epoch: s.now()})
		s.same("failures in the archive", s.row(id).FailureCount, 4)
	}},
	{name: "a task that is given back stands where it stood", check: func(s *scene) {
		for _, place := range []tasks.Place{
			{}, unowned(0), unowned(s.now() - 30), at(tasks.YieldOwner, s.now()-20),
			at(tasks.RetryOwner(5, 2), s.now()-10), at(tasks.BackOwner(5, 1), 0), at(tasks.DelayOwner, s.now()-1),
		} {
			id := s.put("A", place)
			want := s.row(id)
			s.end(s.take(id), tasks.Outcome{Kind: tasks.Released})
			s.same("the row", s.row(id), want)
			s.hide(id)
		}
	}},
	{name: "a task given back revives no lease that ended before", check: func(s *scene) {
		for _, c := range []struct {
			owner   string
			crashes int
		}{{"111:host", 0}, {"", 0}, {gantry(5, 2), 3}} {
			held := s.take(s.put("A", at(c.owner, s.now()-50)))
			s.end(held, tasks.Outcome{Kind: tasks.Released})
			s.same("place", s.row(held.ID).Place, at(tasks.BackOwner(held.Lease.Fence, c.crashes), s.now()-50))
			s.same("crashes", s.take(held.ID).Lease.Crashes, c.crashes)
		}
	}},
	{name: "a task given back for later waits and counts nothing", check: func(s *scene) {
		held := s.take(s.put("A", at(tasks.RetryOwner(5, 2), s.now()-50)))
		want := s.row(held.ID)
		s.end(held, tasks.Outcome{Kind: tasks.Released, Wait: minute})
		want.Place = at(tasks.BackOwner(held.Lease.Fence, 2), s.now()+60)
		s.same("the row", s.row(held.ID), want)
	}},
	{name: "follow-ups are queued in their order with the priority of their parent", check: func(s *scene) {
		held := s.hold(tasks.NewTask{Class: "A", Data: []byte("1"), Priority: ptr(1234), ObjectPHID: ptr("PHID-X-1"), ContainerPHID: ptr("PHID-X-2")})
		late := tasks.NewTask{Class: "D", Data: []byte("4.0"), DelayUntil: s.now() + 100}
		children := s.end(held, tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{
			{Class: "B", Data: []byte(`{}`)}, {Class: "C", Data: []byte(`3`), Priority: ptr(0), ObjectPHID: ptr("PHID-X-3")}, late,
		}})
		if len(children) != 3 {
			s.Fatalf("Settle answered the follow-ups %v, want three", children)
		}
		now := s.now()
		fresh := tasks.Task{DateCreated: now, DateModified: now}
		b, c, d := fresh, fresh, fresh
		b.ID, b.Class, b.Data, b.Priority = children[0], "B", []byte(`{}`), 1234
		c.ID, c.Class, c.Data, c.Priority, c.ObjectPHID = children[1], "C", []byte(`3`), 0, ptr("PHID-X-3")
		d.ID, d.Class, d.Data, d.Priority, d.Place = children[2], "D", []byte(`4.0`), 1234, at(tasks.DelayOwner, now+100)
		s.same("active rows", s.rows()[1:], []tasks.Record{{Task: b}, {Task: c}, {Task: d}})
		s.same("leased", idsOf(s.lease(Any(8))), []int64{children[1], children[0]})
	}},
	{name: "follow-ups are dropped unless the task succeeded", check: func(s *scene) {
		for _, outcome := range settleable[1:] {
			held := s.hold(task("A"))
			outcome.FollowUps = []tasks.NewTask{task("child")}
			s.same("follow-ups", len(s.end(held, outcome)), 0)
			s.hide(held.ID)
		}
		s.same("rows", len(s.rows()), len(settleable)-1)
	}},
	{name: "a priority changed while the task ran is kept", check: func(s *scene) {
		for _, outcome := range settleable {
			held := s.hold(task("A"))
			s.operate(s.prioritize(77), held.ID)
			if outcome.Kind == tasks.Succeeded {
				outcome.FollowUps = []tasks.NewTask{task("child")}
			}
			for _, child := range s.end(held, outcome) {
				s.same("priority of the follow-up", s.row(child).Priority, 77)
				s.hide(child)
			}
			s.same("priority after "+string(outcome.Kind), s.row(held.ID).Priority, 77)
			s.hide(held.ID)
		}
	}},
}
