package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// Shadower is a side that can run a task without leaving a trace.
type Shadower interface {
	Side

	// Shadow answers what the task would have come to, and what it would have
	// done. See plugins.Handler.Shadow.
	Shadow(ctx context.Context, task tasks.Task) (tasks.Outcome, plugins.Effects, error)
}

// Shadowed is what a shadow run left and noted.
type Shadowed struct {
	outcome  contract.Outcome     // which is not settled
	trace    contract.Observation // which should be empty
	requests []contract.Request
}

// Shadow runs a case as a shadow run.
func (s *Stage) Shadow(ctx context.Context, c contract.Case, side Shadower) (Shadowed, error) {
	var run Shadowed
	err := s.with(ctx, c, side, func(ctx context.Context, sc *scene) error {
		task, err := sc.lease(ctx)
		if err != nil {
			return err
		}
		if err := sc.look(ctx); err != nil {
			return err
		}
		var outcome tasks.Outcome
		var effects plugins.Effects
		late := s.bounded(ctx, side, task.Class, func(ctx context.Context) { outcome, effects, err = side.Shadow(ctx, task) })
		if err := cmp.Or(late, err); err != nil {
			return fmt.Errorf("shadow run: %w", err)
		}
		run.outcome = outcomeOf(outcome)
		var trace contract.Observation
		if trace.Requests, err = s.receivers.finish(sc.audience); err != nil {
			return err
		}
		if trace.Changes, err = sc.changes(ctx); err != nil {
			return err
		}
		if sc.frame.Settling, err = s.now(ctx); err != nil {
			return err
		}
		sc.frame.End = sc.frame.Settling
		run.trace = contract.Normalise(trace, sc.frame)
		run.requests = contract.Normalise(contract.Observation{Requests: sc.requestsOf(effects)}, sc.frame).Requests
		return nil
	})
	return run, err
}

// Against answers what is wrong with the shadow run of a case: what it left
// behind or sent, and where the requests that it noted are not those of the real
// run. A shadow run is answered by 200 and an empty body; where the case has
// other answers, they may decide what comes next, and only the first request is
// compared.
func (run Shadowed) Against(c contract.Case, real contract.Observation) []contract.Difference {
	return append(traceOf(run.trace), unlike(c, real.Requests, run.requests)...)
}

// traceOf answers what a shadow run should not have left.
func traceOf(o contract.Observation) []contract.Difference {
	var wrong []contract.Difference
	for _, r := range o.Requests {
		wrong = append(wrong, contract.Difference{Field: "the shadow run really sent " + lineOf(r) + ": something goes past task.Transport"})
	}
	for _, c := range o.Changes {
		wrong = append(wrong, contract.Difference{Field: fmt.Sprintf("the shadow run left a row of %s %s, with the key %s: something goes past task.DB and task.Transact", c.Table, c.Kind, c.Key)})
	}
	return wrong
}

// lineOf names a request.
func lineOf(r contract.Request) string { return r.Method + " " + r.Target + " to " + r.Receiver }

// difference is one of texts; an empty one is none.
func difference(field, want, got string) contract.Difference {
	d := contract.Difference{Field: field}
	if want != "" {
		d.Want = &want
	}
	if got != "" {
		d.Got = &got
	}
	return d
}

// requestsOf answers the requests of a shadow run that would have reached a
// receiver, as the receiver would have got them.
func (sc *scene) requestsOf(effects plugins.Effects) []contract.Request {
	var requests []contract.Request
	for _, sent := range effects.Requests {
		secure, host, target := split(sent.URL)
		for name, address := range sc.frame.Receivers {
			if host != address || secure != sc.c.World.Receivers[name].TLS {
				continue
			}
			r := contract.Request{Receiver: name, Method: sent.Method, Target: target, Body: string(sent.Body), Headers: map[string]string{}}
			for header, values := range sent.Header {
				r.Headers[header] = strings.Join(values, ", ")
			}
			requests = append(requests, r)
		}
	}
	return requests
}

// split answers the parts of a URL that the receiver of a request sees. net/url
// would refuse what others send, and change it.
func split(url string) (secure bool, host, target string) {
	scheme, rest, _ := strings.Cut(url, "://")
	host, target = rest, "/"
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, target = rest[:end], rest[end:]
	}
	target, _, _ = strings.Cut(target, "#")
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return scheme == "https", host[strings.LastIndexByte(host, '@')+1:], target
}

// unlike answers how recorded requests differ from those that were sent. What a
// handler leaves to the transport is not recorded, so only those headers are
// compared that were.
func unlike(c contract.Case, sent, recorded []contract.Request) []contract.Difference {
	if answersDecide(c) {
		sent, recorded = sent[:min(1, len(sent))], recorded[:min(len(sent), len(recorded), 1)]
	}
	var wrong []contract.Difference
	for i := range max(len(sent), len(recorded)) {
		field := func(part string) string { return fmt.Sprintf("%srequests[%d].%s", contract.InShadow, i+1, part) }
		switch {
		case i >= len(recorded):
			wrong = append(wrong, contract.Difference{Field: "the shadow run did not note " + lineOf(sent[i]) + ", which the real run sent: it came to something else, or something goes past task.Transport"})
			continue
		case i >= len(sent):
			wrong = append(wrong, contract.Difference{Field: "the shadow run noted " + lineOf(recorded[i]) + ", which the real run did not send"})
			continue
		}
		want, got := sent[i], recorded[i]
		compare := func(part, want, got string) {
			if want != got {
				wrong = append(wrong, difference(field(part), want, got))
			}
		}
		compare("receiver", want.Receiver, got.Receiver)
		compare("method", want.Method, got.Method)
		compare("target", want.Target, got.Target)
		compare("body", want.Body, got.Body)
		for name, value := range got.Headers {
			compare("headers["+name+"]", want.Headers[name], value)
		}
	}
	return wrong
}

// answersDecide reports whether a receiver answers in another way than a shadow
// run is answered.
func answersDecide(c contract.Case) bool {
	for _, r := range c.World.Receivers {
		other := func(a contract.Answer) bool {
			return a.Status != 0 && a.Status != 200 || len(a.Headers) > 0 || a.Body != "" || a.Delay > 0 || a.Reset || a.Close
		}
		if r.TLS || slices.ContainsFunc(r.Answers, other) {
			return true
		}
	}
	return false
}
