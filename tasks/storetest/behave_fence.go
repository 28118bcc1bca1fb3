package storetest

import (
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// fenceBehaviours say whose settlement takes effect.
var fenceBehaviours = []behaviour{
	{name: "B03 after another owner took the task nothing its first owner says takes effect", check: func(s *scene) {
		for _, outcome := range settleable {
			first := s.hold(task("A"))
			s.age(60 + 6)
			second := s.takeBy(s.Other, first.ID)
			before := s.row(first.ID)
			outcome.FollowUps = []tasks.NewTask{task("child")}
			s.isError("settling as "+string(outcome.Kind), s.settle(settlement(first, outcome))[0].Err, tasks.ErrLeaseLost)
			s.same("the row", s.row(first.ID), before)
			s.end(second, tasks.Outcome{Kind: tasks.Succeeded})
		}
		s.same("rows", len(s.rows()), len(settleable))
	}},
	{name: "a batch with lost leases settles all the others", check: func(s *scene) {
		held := s.holdAll(5)
		s.must(s.Rows.Place(held[1].ID, at("222:host", s.now()+60)), "Place")
		s.end(held[3], tasks.Outcome{Kind: tasks.Failed})
		answers := s.settle(
			settlement(held[4], tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{task("child")}}),
			settlement(held[3], tasks.Outcome{Kind: tasks.Succeeded}),
			settlement(held[2], tasks.Outcome{Kind: tasks.Retry, Wait: minute}),
			settlement(held[1], tasks.Outcome{Kind: tasks.Succeeded}),
			settlement(held[0], tasks.Outcome{Kind: tasks.Yielded, Wait: minute}),
		)
		var lost []int64
		for _, answer := range answers {
			if answer.Err != nil {
				s.isError("Settle", answer.Err, tasks.ErrLeaseLost)
				lost = append(lost, answer.ID)
			}
		}
		s.same("lost", lost, []int64{held[3].ID, held[1].ID})
		s.same("follow-ups", len(answers[0].FollowUps), 1)
		s.same("owners", []string{s.owner(held[0].ID), s.owner(held[2].ID)}, []string{tasks.YieldOwner, tasks.RetryOwner(held[2].Lease.Fence, 0)})
		s.same("results", []int{s.result(held[3].ID), s.result(held[4].ID)}, []int{tasks.ResultFailure, tasks.ResultSuccess})
	}},
	{name: "a settlement after the lease expired takes effect when nobody took the task", check: func(s *scene) {
		for _, outcome := range settleable {
			held := s.hold(task("A"))
			s.age(100_000)
			s.end(held, outcome)
			if owner := s.row(held.ID).Owner; resultOf(outcome.Kind) < 0 && owner != nil && *owner == held.Lease.Owner {
				s.Errorf("the row still carries %s after %s", *owner, outcome.Kind)
			}
			s.hide(held.ID)
		}
	}},
	{name: "a repeated settlement is answered as done and does nothing", check: func(s *scene) {
		for _, outcome := range settleable {
			if outcome.Kind == tasks.Yielded || outcome.Kind == tasks.Released && outcome.Wait == 0 {
				continue // these leave no trace of the lease in the row
			}
			held := s.hold(task("A"))
			outcome.FollowUps = []tasks.NewTask{task("child")}
			for _, child := range s.end(held, outcome) {
				s.hide(child)
			}
			before := s.rows()
			s.end(held, outcome)
			s.same("the rows", s.rows(), before)
			s.hide(held.ID)
		}
	}},
	{name: "another outcome for a settled task is refused", check: func(s *scene) {
		for _, first := range settleable {
			held := s.hold(task("A"))
			s.end(held, first)
			before := s.rows()
			for _, second := range settleable {
				if second.Kind != first.Kind {
					s.isError(string(second.Kind)+" after "+string(first.Kind), s.settle(settlement(held, second))[0].Err, tasks.ErrLeaseLost)
				}
			}
			s.same("the rows", s.rows(), before)
			s.hide(held.ID)
		}
	}},
	{name: "of two outcomes for a task in one batch the first counts", check: func(s *scene) {
		held := s.hold(task("A"))
		answers := s.settle(settlement(held, tasks.Outcome{Kind: tasks.Failed}), settlement(held, tasks.Outcome{Kind: tasks.Failed}), settlement(held, tasks.Outcome{Kind: tasks.Succeeded}))
		s.isError("the first", answers[0].Err, nil)
		s.isError("the first, repeated", answers[1].Err, nil)
		s.isError("the second", answers[2].Err, tasks.ErrLeaseLost)
		s.same("result", s.result(held.ID), tasks.ResultFailure)
	}},
	{name: "B16 a late finish does not overwrite a cancellation", check: func(s *scene) {
		held := s.hold(task("A"))
		s.operate(s.Operator.Cancel, held.ID)
		before := s.rows()
		for _, outcome := range settleable {
			outcome.FollowUps = []tasks.NewTask{task("child")}
			s.isError("settling as "+string(outcome.Kind), s.settle(settlement(held, outcome))[0].Err, tasks.ErrLeaseLost)
		}
		s.isError("renewing", s.renew(minute, held)[0].Err, tasks.ErrLeaseLost)
		s.same("the rows", s.rows(), before)
		s.same("result", s.result(held.ID), tasks.ResultCancelled)
	}},
	{name: "B16 a finished task cannot be cancelled", check: func(s *scene) {
		held := s.hold(task("A"))
		s.end(held, tasks.Outcome{Kind: tasks.Succeeded})
		before := s.rows()
		changed := s.operate(s.Operator.Cancel, held.ID)
		s.isError("Cancel", changed[0].Err, tasks.ErrArchived)
		s.same("the rows", s.rows(), before)
	}},
	{name: "a task that was freed while it ran is lost to whoever ran it", check: func(s *scene) {
		held := s.hold(task("A"))
		s.operate(s.Operator.Free, held.ID)
		before := s.rows()
		s.isError("Settle", s.settle(settlement(held, tasks.Outcome{Kind: tasks.Succeeded}))[0].Err, tasks.ErrLeaseLost)
		s.same("the rows", s.rows(), before)
	}},
	{name: "an outcome that cannot be stored leaves the lease as it is", check: func(s *scene) {
		held := s.holdAll(2)
		before := s.row(held[0].ID)
		for _, bad := range []tasks.Outcome{
			{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{task("child"), {Class: "child", Data: []byte("{")}}},
			{Kind: tasks.Declined}, {Kind: tasks.Lost}, {}, {Kind: "something"},
		} {
			answer := s.settle(settlement(held[0], bad))[0]
			s.isError("settling as "+string(bad.Kind), answer.Err, tasks.ErrInvalid)
			s.same("follow-ups", len(answer.FollowUps), 0)
			s.same("the row", s.row(held[0].ID), before)
		}
		answers := s.settle(
			settlement(held[0], tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Data: []byte("1")}}}),
			settlement(held[1], tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{task("child")}}),
		)
		s.isError("the bad one", answers[0].Err, tasks.ErrInvalid)
		s.isError("the good one", answers[1].Err, nil)
		s.same("follow-ups of the good one", len(answers[1].FollowUps), 1)
		s.end(held[0], tasks.Outcome{Kind: tasks.Failed})
		s.same("rows", len(s.rows()), 3)
	}},
	{name: "a settlement under another owner of the same fence is lost", check: func(s *scene) {
		held := s.hold(task("A"))
		before := s.row(held.ID)
		for _, owner := range []string{"", "111:host", tasks.YieldOwner, held.Lease.Owner + " ", held.Lease.Owner[:len(held.Lease.Owner)-1], gantry(held.Lease.Fence, 0)} {
			other := held
			lease := *held.Lease
			lease.Owner = owner
			other.Lease = &lease
			s.isError("settling under "+owner, s.settle(settlement(other, tasks.Outcome{Kind: tasks.Succeeded}))[0].Err, tasks.ErrLeaseLost)
			s.isError("renewing under "+owner, s.renew(minute, other)[0].Err, tasks.ErrLeaseLost)
		}
		s.same("the row", s.row(held.ID), before)
	}},
	{name: "a large batch in any order is answered in its order", check: func(s *scene) {
		held := s.holdAll(700)
		var batch []tasks.Settlement
		for i, task := range held {
			kind := []tasks.Kind{tasks.Succeeded, tasks.Retry, tasks.Failed}[i%3]
			batch = append(batch, settlement(task, tasks.Outcome{Kind: kind, Wait: minute}))
		}
		slices.Reverse(batch)
		for _, answer := range s.settle(batch...) {
			s.must(answer.Err, "Settle")
		}
		results := map[int]int{}
		for _, record := range s.rows() {
			if record.Archive != nil {
				results[record.Result]++
			}
		}
		s.same("archived by result", results, map[int]int{tasks.ResultSuccess: 234, tasks.ResultFailure: 233})
	}},
}
