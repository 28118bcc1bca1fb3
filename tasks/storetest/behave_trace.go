package storetest

import (
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// traceparent is a trace context, one for each number.
func traceparent(n int) string {
	return fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01", n)
}

func traced(class string, n int) tasks.NewTask {
	t := task(class)
	t.Traceparent = traceparent(n)
	return t
}

// traceBehaviours say that a trace context travels with its task.
var traceBehaviours = []behaviour{
	{name: "a trace context is leased with its task, and only with it", check: func(s *scene) {
		ids := s.queue(traced("A", 1), task("A"), traced("A", 3))
		for i, leased := range s.lease(Any(3)) {
			s.same("the task", leased.ID, ids[i])
			want := []string{traceparent(1), "", traceparent(3)}[i]
			s.same("the trace context", leased.Traceparent, want)
		}
	}},
	{name: "a caller is leased the trace context as well, of a task that was queued once", check: func(s *scene) {
		ids, _, err := s.service().EnqueueOnce(s.Context(), tasks.Once{Key: "k", Keep: time.Hour}, []tasks.NewTask{traced("A", 1)})
		s.must(err, "EnqueueOnce")
		s.same("the trace context", s.takeAs("worker", ids[0]).Traceparent, traceparent(1))
	}},
	{name: "the same tasks of another trace are no other content", check: func(s *scene) {
		once := tasks.Once{Key: "k", Keep: time.Hour}
		first, _, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{traced("A", 1)})
		s.must(err, "EnqueueOnce")
		again, duplicate, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{traced("A", 2)})
		s.must(err, "EnqueueOnce again")
		if !duplicate || again[0] != first[0] {
			s.Errorf("it was queued as %v and again as %v", first, again)
		}
		s.same("the trace context", s.take(first[0]).Traceparent, traceparent(1))
	}},
	{name: "a task that stays in the queue keeps its trace context", check: func(s *scene) {
		for i, kind := range []tasks.Kind{tasks.Retry, tasks.Yielded, tasks.Crashed, tasks.Released} {
			held := s.hold(traced("A", i+1))
			s.end(held, tasks.Outcome{Kind: kind, Wait: 10 * time.Second})
			s.age(11)
			again := s.take(held.ID)
			s.same("the trace context after "+string(kind), again.Traceparent, traceparent(i+1))
			s.end(again, tasks.Outcome{Kind: tasks.Succeeded})
		}
	}},
	{name: "another process that takes over from a dead one has the trace context", check: func(s *scene) {
		held := s.hold(traced("A", 1))
		s.age(70)
		s.same("the trace context", s.takeBy(s.Other, held.ID).Traceparent, traceparent(1))
	}},
	{name: "follow-ups have the trace context that they name", check: func(s *scene) {
		held := s.hold(traced("A", 1))
		s.end(held, tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{traced("B", 2), task("C")}})
		leased := s.lease(Any(2))
		s.same("follow-ups", len(leased), 2)
		s.same("the trace context of the first", leased[0].Traceparent, traceparent(2))
		s.same("the trace context of the second", leased[1].Traceparent, "")
	}},
	{name: "what is no trace context is refused", check: func(s *scene) {
		bad := task("A")
		bad.Traceparent = "00-x"
		_, err := s.Store.Enqueue(s.Context(), []tasks.NewTask{bad})
		s.isError("Enqueue", err, tasks.ErrInvalid)
		s.same("rows", len(s.rows()), 0)
	}},
}
