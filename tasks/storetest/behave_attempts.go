package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func (s *scene) attempts(id int64, limit int) []tasks.Attempt {
	s.Helper()
	attempts, err := s.service().Attempts(s.Context(), id, limit)
	s.must(err, "Attempts")
	return attempts
}

// numbered shows attempts in short.
func numbered(attempts []tasks.Attempt) (shown []string) {
	for _, a := range attempts {
		shown = append(shown, fmt.Sprintf("%d %s", a.Number, a.Reason))
	}
	return shown
}

// attemptBehaviours say what is kept of failed attempts.
var attemptBehaviours = []behaviour{
	{name: "each outcome that fails leaves an attempt, and no other does", check: func(s *scene) {
		for _, outcome := range settleable {
			for name, settle := range map[string]func(context.Context, []tasks.Settlement) ([]tasks.Settled, error){
				"Settle": s.Store.Settle, "SettleLive": s.service().SettleLive,
			} {
				held := s.hold(task("A"))
				outcome.Wait, outcome.Duration = time.Hour, 1500*time.Microsecond
				outcome.Category, outcome.Reason = "exception", "as always"
				each := settlement(held, outcome)
				each.Route = "pool"
				settled, err := settle(s.Context(), []tasks.Settlement{each})
				s.must(errors.Join(err, settled[0].Err), name)
				got := s.attempts(held.ID, 10)
				if outcome.Kind != tasks.Retry && outcome.Kind != tasks.Failed && outcome.Kind != tasks.Crashed {
					s.same("attempts after "+string(outcome.Kind), len(got), 0)
				} else {
					s.same("attempts after "+string(outcome.Kind), len(got), 1)
					if got[0].Host == "" {
						s.Errorf("the attempt does not say where it was")
					}
					s.same("the attempt", got[0], tasks.Attempt{
						TaskID: held.ID, Class: "A", Number: 1, Route: "pool", Category: "exception", Reason: "as always",
						Host: got[0].Host, Owner: held.Lease.Owner, Duration: 1500, Epoch: s.now(),
					})
				}
				s.hide(held.ID)
			}
		}
	}},
	{name: "attempts are answered newest first, and as many as are asked for", check: func(s *scene) {
		held := s.hold(task("A"))
		for i := range tasks.AttemptsKept + 5 {
			s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: -minute, Reason: fmt.Sprint("reason ", i)})
			held = s.take(held.ID)
		}
		all := numbered(s.attempts(held.ID, tasks.AttemptsKept))
		s.same("how many", len(all), tasks.AttemptsKept)
		s.same("the last ones", all[:2], []string{"25 reason 24", "24 reason 23"})
		s.same("the first of those kept", all[tasks.AttemptsKept-1], "6 reason 5")
		s.same("one", numbered(s.attempts(held.ID, 1)), all[:1])
		s.same("none", len(s.attempts(held.ID, 0)), 0)
		s.same("less than none", len(s.attempts(held.ID, -1)), 0)
		s.same("of another task", len(s.attempts(held.ID+1, 10)), 0)
	}},
	{name: "attempts stay when their task is archived and when it comes back", check: func(s *scene) {
		held := s.hold(task("A"))
		s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: -minute, Reason: "first"})
		s.end(s.take(held.ID), tasks.Outcome{Kind: tasks.Failed, Reason: "second"})
		want := []string{"2 second", "1 first"}
		s.same("of the archived task", numbered(s.attempts(held.ID, 10)), want)
		s.must(s.operate(s.retry(false), held.ID)[0].Err, "Retry")
		s.same("of the task that is tried again", numbered(s.attempts(held.ID, 10)), want)
		s.end(s.take(held.ID), tasks.Outcome{Kind: tasks.Succeeded})
		s.same("of the task that succeeded", numbered(s.attempts(held.ID, 10)), want)
	}},
	{name: "what a dead Gantry held leaves an attempt that was lost", check: func(s *scene) {
		for _, name := range []string{"", "caller"} {
			id := s.put("A", at(gantry(1, 0), 1000))
			if name == "" {
				s.take(id)
			} else {
				s.takeAs(name, id)
			}
			got := s.attempts(id, 10)
			s.same("attempts", len(got), 1)
			got[0].Reason = ""
			s.same("the attempt", got[0], tasks.Attempt{
				TaskID: id, Class: "A", Number: 1, Category: tasks.CategoryLost, Host: "h", Owner: gantry(1, 0), Epoch: s.now(),
			})
			s.hide(id)
		}
	}},
	{name: "what a caller held, or nobody, leaves no attempt when it is taken over", check: func(s *scene) {
		for _, owner := range []string{tasks.YieldOwner, tasks.RetryOwner(1, 1), tasks.BackOwner(1, 0), "caller#1", "1:2:host:3"} {
			id := s.put("A", at(owner, 1000))
			s.take(id)
			s.same("attempts after "+owner, len(s.attempts(id, 10)), 0)
			s.hide(id)
		}
	}},
	{name: "a lost lease leaves no attempt, and a repeated settlement no second one", check: func(s *scene) {
		held := s.holdAll(2)
		s.must(s.Rows.Place(held[0].ID, at("somebody", s.now()+60)), "Place")
		failed := tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour}
		for range 2 {
			settled := s.settle(settlement(held[0], failed), settlement(held[1], failed))
			s.isError("Settle", settled[0].Err, tasks.ErrLeaseLost)
			s.must(settled[1].Err, "Settle")
		}
		s.same("of the lost one", len(s.attempts(held[0].ID, 10)), 0)
		s.same("of the other", len(s.attempts(held[1].ID, 10)), 1)
	}},
	{name: "attempts hold no secrets, and no more than is of use", check: func(s *scene) {
		held := s.hold(task("A"))
		each := settlement(held, tasks.Outcome{
			Kind: tasks.Failed, Category: strings.Repeat("ü", 90),
			Reason: "\x1b[31mGET https://bot:hunter2@example.org/?token=abc failed\x00\xff " + strings.Repeat("€", 100_000),
		})
		each.Route = strings.Repeat("r", 40)
		s.must(s.settle(each)[0].Err, "Settle")
		got := s.attempts(held.ID, 1)[0]
		s.same("the reason begins", got.Reason[:60], " [31mGET https://***@example.org/?token=*** failed � €€€"[:60])
		if n := len(got.Reason); n > tasks.ReasonBytes || n < tasks.ReasonBytes-3 {
			s.Errorf("the reason has %d bytes", n)
		}
		s.same("category", got.Category, strings.Repeat("ü", tasks.CategoryWidth))
		s.same("route", got.Route, strings.Repeat("r", tasks.RouteWidth))
	}},
}
