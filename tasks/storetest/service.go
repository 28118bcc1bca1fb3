package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// RunService proves that a store does what tasks.Service says beyond
// tasks.Store and tasks.Operator. The Store and the Other of its subjects
// implement it.
func RunService(t *testing.T, open Open) {
	for _, row := range slices.Concat(serviceBehaviours, attemptBehaviours, traceBehaviours) {
		t.Run(row.name, func(t *testing.T) {
			subject := open(t, row.clock())
			defer subject.Close()
			row.check(&scene{t, subject, 30 * time.Second})
		})
	}
}

func (s *scene) service() tasks.Service {
	s.Helper()
	service, ok := s.Store.(tasks.Service)
	if !ok {
		s.Fatalf("%T is no tasks.Service", s.Store)
	}
	return service
}

// holdAs queues a task of class A and leases it under a name.
func (s *scene) holdAs(name string) tasks.Task {
	s.Helper()
	id := s.queue(task("A"))[0]
	return s.takeAs(name, id)
}

func (s *scene) takeAs(name string, id int64) tasks.Task {
	s.Helper()
	var leased []tasks.Task
	s.eventually("the task is leased", func() bool {
		var err error
		leased, err = s.service().LeaseFor(s.Context(), name, Any(1))
		s.must(err, "LeaseFor")
		return len(leased) > 0
	})
	if len(leased) != 1 || leased[0].ID != id || leased[0].Lease == nil {
		s.Fatalf("LeaseFor answered the tasks %v, want %d alone", idsOf(leased), id)
	}
	return leased[0]
}

func (s *scene) settleLive(task tasks.Task, outcome tasks.Outcome) tasks.Settled {
	s.Helper()
	settled, err := s.service().SettleLive(s.Context(), []tasks.Settlement{settlement(task, outcome)})
	s.must(err, "SettleLive")
	if len(settled) != 1 || settled[0].ID != task.ID {
		s.Fatalf("SettleLive answered %v about task %d", settled, task.ID)
	}
	return settled[0]
}

var serviceBehaviours = []behaviour{
	{name: "a lease for a caller carries its name and the fence of the call", check: func(s *scene) {
		held := s.holdAs("worker 1")
		s.same("the owner in the row", s.owner(held.ID), tasks.Caller{Name: "worker 1", Fence: held.Lease.Fence}.String())
		s.same("the owner of the lease", held.Lease.Owner, s.owner(held.ID))
		s.same("the end of the lease", s.expires(held.ID), s.now()+60)
		again := s.holdAs("worker 1")
		if again.Lease.Fence <= held.Lease.Fence {
			s.Errorf("the fence %d was followed by %d", held.Lease.Fence, again.Lease.Fence)
		}
	}},
	{name: "names that cannot stand in an owner are refused", check: func(s *scene) {
		s.queue(task("A"))
		for _, name := range []string{"", "(yield)", "gantry:1:0:n:h", "a\nb", "é", string(make([]byte, tasks.MaxCaller+1))} {
			leased, err := s.service().LeaseFor(s.Context(), name, Any(1))
			s.isError("LeaseFor", err, tasks.ErrInvalid)
			s.same("leased", len(leased), 0)
		}
	}},
	{name: "the lease of a caller can be taken as soon as it has expired, and counts no crash", check: func(s *scene) {
		held := s.holdAs("first")
		s.age(60)
		s.same("leased at its end", len(s.leaseBy(s.Other, Any(1))), 0)
		s.age(1)
		second := s.takeBy(s.Other, held.ID)
		s.same("crashes", second.Lease.Crashes, 0)
		s.isError("SettleLive", s.settleLive(held, tasks.Outcome{Kind: tasks.Succeeded}).Err, tasks.ErrLeaseLost)
		s.same("owner", s.owner(held.ID), second.Lease.Owner)
	}},
	{name: "B03 a live settlement of an expired lease changes nothing until it is renewed", check: func(s *scene) {
		for _, outcome := range settleable {
			held := s.holdAs("worker")
			s.age(61)
			before := s.rows()
			outcome.FollowUps = []tasks.NewTask{task("child")}
			s.isError("SettleLive as "+string(outcome.Kind), s.settleLive(held, outcome).Err, tasks.ErrLeaseLost)
			s.same("rows", s.rows(), before)
			s.must(s.renew(minute, held)[0].Err, "Renew")
			s.must(s.settleLive(held, outcome).Err, "SettleLive of the renewed lease")
			for _, record := range s.rows() {
				s.hide(record.ID)
			}
		}
	}},
	{name: "a live settlement at the last second of the lease takes effect", check: func(s *scene) {
		held := s.holdAs("worker")
		s.age(60)
		s.must(s.settleLive(held, tasks.Outcome{Kind: tasks.Failed}).Err, "SettleLive")
		s.same("result", s.result(held.ID), tasks.ResultFailure)
	}},
	{name: "a repeated live settlement is answered as done", check: func(s *scene) {
		held := s.holdAs("worker")
		s.must(s.settleLive(held, tasks.Outcome{Kind: tasks.Succeeded}).Err, "SettleLive")
		before := s.rows()
		s.must(s.settleLive(held, tasks.Outcome{Kind: tasks.Succeeded}).Err, "SettleLive again")
		s.isError("SettleLive otherwise", s.settleLive(held, tasks.Outcome{Kind: tasks.Failed}).Err, tasks.ErrLeaseLost)
		s.same("rows", s.rows(), before)
	}},
	{name: "the same tasks under one key are queued once", check: func(s *scene) {
		once := tasks.Once{Key: "order-17", Keep: time.Hour}
		news := []tasks.NewTask{task("A"), prioritized("B", 7)}
		ids, duplicate, err := s.service().EnqueueOnce(s.Context(), once, news)
		s.must(err, "EnqueueOnce")
		s.same("duplicate", duplicate, false)
		s.same("ids", ids, idsIn(s.rows()))
		again, duplicate, err := s.Other.(tasks.Service).EnqueueOnce(s.Context(), once, news)
		s.must(err, "EnqueueOnce again")
		s.same("duplicate", duplicate, true)
		s.same("ids of the repetition", again, ids)
		s.same("rows", len(s.rows()), 2)
	}},
	{name: "a key of other tasks is refused", check: func(s *scene) {
		once := tasks.Once{Key: "k", Keep: time.Hour}
		base := tasks.NewTask{Class: "A", Data: []byte("[]"), Priority: ptr(1), ObjectPHID: ptr("o"), ContainerPHID: ptr("c"), DelayUntil: 9}
		_, _, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{base})
		s.must(err, "EnqueueOnce")
		for _, change := range []func(*tasks.NewTask){
			func(n *tasks.NewTask) { n.Class = "B" },
			func(n *tasks.NewTask) { n.Data = []byte("[ ]") },
			func(n *tasks.NewTask) { n.Priority = nil },
			func(n *tasks.NewTask) { n.ObjectPHID = nil },
			func(n *tasks.NewTask) { n.ContainerPHID = ptr("o") },
			func(n *tasks.NewTask) { n.DelayUntil = 10 },
		} {
			other := base
			change(&other)
			_, _, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{other})
			s.isError("EnqueueOnce of another task", err, tasks.ErrKeyReused)
		}
		_, _, err = s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{base, base})
		s.isError("EnqueueOnce of two", err, tasks.ErrKeyReused)
		s.same("rows", len(s.rows()), 1)
	}},
	{name: "an invalid task under a key takes neither effect nor the key", check: func(s *scene) {
		once := tasks.Once{Key: "k", Keep: time.Hour}
		_, _, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{{Class: "A", Data: []byte("{")}})
		s.isError("EnqueueOnce", err, tasks.ErrInvalid)
		_, duplicate, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{task("A")})
		s.must(err, "EnqueueOnce")
		s.same("duplicate", duplicate, false)
		for _, key := range []string{"", "a\tb", "k ", "é", string(slices.Repeat([]byte("k"), tasks.MaxKey+1))} {
			_, _, err := s.service().EnqueueOnce(s.Context(), tasks.Once{Key: key, Keep: time.Hour}, []tasks.NewTask{task("A")})
			s.isError("EnqueueOnce", err, tasks.ErrInvalid)
		}
		s.same("rows", len(s.rows()), 1)
	}},
	{name: "keys tell case apart", check: func(s *scene) {
		for _, key := range []string{"key", "KEY"} {
			_, duplicate, err := s.service().EnqueueOnce(s.Context(), tasks.Once{Key: key, Keep: time.Hour}, []tasks.NewTask{task(key)})
			s.must(err, "EnqueueOnce under "+key)
			s.same("duplicate", duplicate, false)
		}
	}},
	{name: "a key is forgotten when its time is over", moving: true, check: func(s *scene) {
		once := tasks.Once{Key: "k", Keep: time.Second}
		s.eventually("the key expires", func() bool {
			_, duplicate, err := s.service().EnqueueOnce(s.Context(), once, []tasks.NewTask{task("A")})
			s.must(err, "EnqueueOnce")
			return !duplicate && len(s.rows()) == 2
		})
	}},
	{name: "of many calls with one key one takes effect", moving: true, check: func(s *scene) {
		const calls = 16
		type answer struct {
			ids       []int64
			duplicate bool
			err       error
		}
		answers := make(chan answer, calls)
		for i := range calls {
			service := s.service()
			if i%2 == 1 {
				service = s.Other.(tasks.Service)
			}
			go func() {
				ids, duplicate, err := service.EnqueueOnce(s.Context(), tasks.Once{Key: "k", Keep: time.Hour}, []tasks.NewTask{task("A")})
				answers <- answer{ids, duplicate, err}
			}()
		}
		first := 0
		for range calls {
			a := <-answers
			s.must(a.err, "EnqueueOnce")
			s.same("ids", a.ids, idsIn(s.rows()))
			if !a.duplicate {
				first++
			}
		}
		s.same("first ones", first, 1)
	}},
	{name: "archived tasks are counted by their result", check: func(s *scene) {
		s.end(s.hold(task("A")), tasks.Outcome{Kind: tasks.Succeeded})
		for range 2 {
			s.end(s.hold(task("A")), tasks.Outcome{Kind: tasks.Failed})
		}
		s.operate(s.Operator.Cancel, s.queue(task("A"), task("A"), task("A"))...)
		counted, err := s.service().CountArchived(s.Context())
		s.must(err, "CountArchived")
		s.same("counted", counted, tasks.ArchivedCount{Succeeded: 1, Failed: 2, Cancelled: 3})
	}},
	{name: "a store that works is ready, and asking changes nothing", check: func(s *scene) {
		s.hold(task("A"))
		s.end(s.hold(task("B")), tasks.Outcome{Kind: tasks.Succeeded})
		before := s.rows()
		s.must(s.service().Ready(s.Context()), "Ready")
		s.same("rows", s.rows(), before)
	}},
}

func idsIn(records []tasks.Record) []int64 {
	ids := make([]int64, len(records))
	for i, record := range records {
		ids[i] = record.ID
	}
	return ids
}
