package storetest

import (
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

var renewBehaviours = []behaviour{
	{name: "B26 renewing twice within a second succeeds twice", check: func(s *scene) {
		held := s.hold(task("A"))
		s.age(50)
		want := []tasks.Renewed{{ID: held.ID, Expires: s.now() + 60}}
		s.same("first renewal", s.renew(minute, held), want)
		s.same("second renewal", s.renew(minute, held), want)
		s.must(s.Rows.Place(held.ID, at("222:host", s.now()+60)), "Place")
		s.isError("renewing a stolen lease", s.renew(minute, held)[0].Err, tasks.ErrLeaseLost)
	}},
	{name: "B26 a renewal that changes nothing is no lost lease", moving: true, check: func(s *scene) {
		held := s.hold(task("A"))
		s.age(50)
		for range 20 {
			answer := s.renew(minute, held)[0]
			s.must(answer.Err, "Renew")
			s.same("end in the row", s.expires(held.ID), answer.Expires)
			s.must(s.Rows.Place(held.ID, at(held.Lease.Owner, s.now()+30)), "Place")
		}
	}},
	{name: "a lease is extended once less than two thirds of it are left", check: func(s *scene) {
		held := s.hold(task("A"))
		for _, c := range []struct{ left, want int64 }{{60, 60}, {41, 41}, {40, 40}, {39, 60}, {1, 60}} {
			s.must(s.Rows.Place(held.ID, at(held.Lease.Owner, s.now()+c.left)), "Place")
			s.same("renewed", s.renew(minute, held), []tasks.Renewed{{ID: held.ID, Expires: s.now() + c.want}})
			s.same("place", s.row(held.ID).Place, at(held.Lease.Owner, s.now()+c.want))
		}
		s.same("shortened", s.renew(10*time.Second, held), []tasks.Renewed{{ID: held.ID, Expires: s.now() + 60}})
		s.same("lengthened", s.renew(2*time.Hour, held), []tasks.Renewed{{ID: held.ID, Expires: s.now() + 7200}})
	}},
	{name: "a lease that expired or was swept and that nobody took is revived", check: func(s *scene) {
		held := s.hold(task("A"))
		owner := held.Lease.Owner
		for _, place := range []tasks.Place{at(owner, s.now()), at(owner, s.now()-1), at(owner, s.now()-100_000), at(owner, 0), forever(owner)} {
			s.must(s.Rows.Place(held.ID, place), "Place")
			s.same("renewed", s.renew(minute, held), []tasks.Renewed{{ID: held.ID, Expires: s.now() + 60, Revived: true}})
			s.same("place", s.row(held.ID).Place, at(owner, s.now()+60))
		}
		s.same("leased by another process", len(s.leaseBy(s.Other, Any(8))), 0)
	}},
	{name: "a renewal touches nothing but the end of the lease", check: func(s *scene) {
		held := s.hold(prioritized("A", 1234))
		s.age(50)
		before := s.row(held.ID)
		s.renew(minute, held)
		before.Place = at(held.Lease.Owner, s.now()+60)
		s.same("the row", s.row(held.ID), before)
	}},
	{name: "lost leases are named and the others renewed", check: func(s *scene) {
		held := s.holdAll(6)
		s.end(held[0], tasks.Outcome{Kind: tasks.Succeeded})
		s.operate(s.Operator.Cancel, held[1].ID)
		s.must(s.Rows.Place(held[3].ID, at("222:host", s.now()+10)), "Place")
		s.must(s.Rows.Place(held[4].ID, unowned(0)), "Place")
		gone := tasks.Task{ID: held[5].ID + 1000, Lease: held[5].Lease}
		s.age(50)
		asked := []tasks.Task{held[5], held[4], gone, held[3], held[2], held[1], held[0]}
		lost := []bool{false, true, true, true, false, true, true}
		for i, answer := range s.renew(minute, asked...) {
			if !lost[i] {
				s.same("renewed", answer, tasks.Renewed{ID: asked[i].ID, Expires: s.now() + 60})
				continue
			}
			s.same("the lost task", answer.ID, asked[i].ID)
			s.isError("Renew", answer.Err, tasks.ErrLeaseLost)
		}
		s.same("place of the stolen one", s.row(held[3].ID).Place, at("222:host", max(0, s.now()-40)))
	}},
	{name: "each renewal has its own lease time", check: func(s *scene) {
		held := s.holdAll(2)
		renewed, err := s.Store.Renew(s.Context(), []tasks.Renewal{
			{ID: held[1].ID, Owner: held[1].Lease.Owner, LeaseTime: time.Hour},
			{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: 2 * time.Hour},
		})
		s.must(err, "Renew")
		s.same("renewed", renewed, []tasks.Renewed{{ID: held[1].ID, Expires: s.now() + 3600}, {ID: held[0].ID, Expires: s.now() + 7200}})
	}},
	{name: "a late heartbeat cannot touch a task after its settlement", check: func(s *scene) {
		for _, outcome := range settleable {
			held := s.hold(task("A"))
			s.end(held, outcome)
			before := s.row(held.ID)
			s.isError("Renew after "+string(outcome.Kind), s.renew(minute, held)[0].Err, tasks.ErrLeaseLost)
			s.same("the row", s.row(held.ID), before)
			s.hide(held.ID)
		}
	}},
}

// settleable is one outcome of each kind that a store settles.
var settleable = []tasks.Outcome{
	{Kind: tasks.Succeeded, Duration: 1500 * time.Microsecond},
	{Kind: tasks.Failed, Wait: minute},
	{Kind: tasks.Yielded, Wait: minute},
	{Kind: tasks.Retry, Wait: minute},
	{Kind: tasks.Crashed, Wait: minute},
	{Kind: tasks.Released},
	{Kind: tasks.Released, Wait: minute},
}
