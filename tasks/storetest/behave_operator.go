package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// states puts one task into each state and answers their ids.
func (s *scene) states() map[string]int64 {
	s.Helper()
	return map[string]int64{
		"succeeded": s.archived(tasks.Succeeded),
		"failed":    s.archived(tasks.Failed),
		"held":      s.hold(task("A")).ID,
		"expired":   s.put("A", at("111:host", s.now()-100)),
		"yielded":   s.put("A", at(tasks.YieldOwner, s.now()+100)),
		"failing":   s.put("A", at(tasks.RetryOwner(3, 2), s.now()+100)),
		"fresh":     s.queue(task("A"))[0],
		"absent":    1 << 30,
	}
}

func (s *scene) archived(kind tasks.Kind) int64 {
	s.Helper()
	held := s.hold(task("A"))
	s.end(held, tasks.Outcome{Kind: kind})
	return held.ID
}

// each does something to one task in each state, all at once. It must refuse
// some of them and leave those alone, and change the others as apply says.
func (s *scene) each(name string, do operation, refused map[string]error, apply func(tasks.Record) tasks.Record) {
	s.Helper()
	states := s.states()
	order := slices.Sorted(maps.Keys(states))
	var asked []int64
	before := map[int64]tasks.Record{}
	for _, state := range order {
		asked = append(asked, states[state])
	}
	for _, record := range s.rows() {
		before[record.ID] = record
	}
	for i, changed := range s.operate(do, asked...) {
		state, id := order[i], asked[i]
		if state == "absent" {
			s.isError(name+" of no task", changed.Err, tasks.ErrNotFound)
			s.same("class of no task", changed.Class, "")
			continue
		}
		want := before[id]
		if refused[state] == nil {
			want = apply(want)
		}
		s.isError(name+" of the task that is "+state, changed.Err, refused[state])
		s.same("class", changed.Class, "A")
		s.same("the row of the task that is "+state, s.row(id), want)
	}
}

var operatorBehaviours = []behaviour{
	{name: "get answers active and archived tasks and says when there is none", check: func(s *scene) {
		for state, id := range s.states() {
			got, err := s.Operator.Get(s.Context(), id)
			if state == "absent" {
				s.isError("Get", err, tasks.ErrNotFound)
				continue
			}
			s.must(err, "Get")
			s.same("the record of the task that is "+state, got, s.row(id))
		}
	}},
	{name: "cancel archives active tasks, leased or not", check: func(s *scene) {
		s.each("Cancel", s.Operator.Cancel, map[string]error{
			"succeeded": tasks.ErrArchived, "failed": tasks.ErrArchived,
		}, func(before tasks.Record) tasks.Record {
			before.Place = unowned(s.now())
			before.FailureTime = nil
			before.Archive = &tasks.Archive{Result: tasks.ResultCancelled, Epoch: s.now()}
			return before
		})
	}},
	{name: "free breaks every lease and every wait", check: func(s *scene) {
		s.each("Free", s.Operator.Free, map[string]error{
			"succeeded": tasks.ErrArchived, "failed": tasks.ErrArchived, "fresh": tasks.ErrNotLeased,
		}, func(before tasks.Record) tasks.Record {
			before.Place = unowned(s.now())
			return before
		})
		s.age(1)
		leased := s.lease(Any(8))
		s.same("leased", len(leased), 5)
		for _, task := range leased {
			s.same("crashes", task.Lease.Crashes, 0)
		}
	}},
	{name: "delay makes a waiting task wait and leaves the leased ones", check: func(s *scene) {
		delay := func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
			return s.Operator.Delay(ctx, ids, s.now()+500)
		}
		s.each("Delay", delay, map[string]error{
			"succeeded": tasks.ErrArchived, "failed": tasks.ErrArchived, "held": tasks.ErrLeased, "expired": tasks.ErrLeased,
		}, func(before tasks.Record) tasks.Record {
			owner := tasks.DelayOwner
			if before.Owner != nil {
				owner = *before.Owner
			}
			before.Place = at(owner, s.now()+500)
			return before
		})
		s.age(501)
		s.same("leased after the delay", len(s.lease(Any(8))), 5)
	}},
	{name: "priority changes active tasks", check: func(s *scene) {
		s.each("Priority", s.prioritize(7), map[string]error{"succeeded": tasks.ErrArchived, "failed": tasks.ErrArchived}, func(before tasks.Record) tasks.Record {
			before.Priority = 7
			return before
		})
		id := s.queue(prioritized("A", 7))[0]
		s.isError("Priority", s.operate(s.prioritize(7), id)[0].Err, tasks.ErrUnchanged)
	}},
	{name: "an urgent priority puts a task first", check: func(s *scene) {
		ids := s.queue(task("A"), task("A"), task("A"))
		s.operate(s.prioritize(1), ids[2])
		s.same("leased", idsOf(s.lease(Any(8))), []int64{ids[2], ids[0], ids[1]})
	}},
	{name: "retry queues a failed or cancelled task again with its id and its data", check: func(s *scene) {
		active := tasks.ErrActive
		s.each("Retry", s.retry(false), map[string]error{
			"succeeded": tasks.ErrSucceeded, "held": active, "expired": active, "yielded": active, "failing": active, "fresh": active,
		}, queuedAgain)
	}},
	{name: "retry repeats a success only when asked to", check: func(s *scene) {
		held := s.hold(tasks.NewTask{Class: "A", Data: []byte("1.0"), Priority: ptr(77), ObjectPHID: ptr("PHID-X-1")})
		s.end(held, tasks.Outcome{Kind: tasks.Retry, Wait: -minute})
		s.end(s.take(held.ID), tasks.Outcome{Kind: tasks.Succeeded})
		want := queuedAgain(s.row(held.ID))
		s.isError("Retry", s.operate(s.retry(true), held.ID)[0].Err, nil)
		s.same("the row", s.row(held.ID), want)
		again := s.take(held.ID)
		s.same("data", string(again.Data), "1.0")
		s.end(again, tasks.Outcome{Kind: tasks.Succeeded})
		s.same("result", s.result(held.ID), tasks.ResultSuccess)
	}},
	{name: "awaken makes yielded tasks that never failed due", check: func(s *scene) {
		succeeded, failed := s.archived(tasks.Succeeded), s.hold(task("A"))
		s.end(failed, tasks.Outcome{Kind: tasks.Retry, Wait: minute})
		yielded := s.put("A", at(tasks.YieldOwner, s.now()+1000))
		due := s.put("A", at(tasks.YieldOwner, s.now()-100))
		old := s.put("A", at(tasks.YieldOwner, s.now()-3600))
		retried := s.put("A", at(tasks.RetryOwner(1, 0), s.now()+1000))
		s.must(s.Rows.Place(failed.ID, at(tasks.YieldOwner, s.now()+1000)), "Place")
		asked := []int64{failed.ID, retried, old, due, yielded, 1 << 30, succeeded}
		want := s.rows()
		for i := range want {
			if want[i].ID == yielded || want[i].ID == due {
				want[i].Place = at(tasks.YieldOwner, s.now()-3600)
			}
		}
		for _, awake := range []int{2, 0} {
			n, err := s.Operator.Awaken(s.Context(), asked)
			s.must(err, "Awaken")
			s.same("awakened", n, awake)
			s.same("the rows", s.rows(), want)
		}
	}},
	{name: "B26 awakening twice succeeds twice", moving: true, check: func(s *scene) {
		id := s.put("A", at(tasks.YieldOwner, s.now()+1000))
		for range 2 {
			_, err := s.Operator.Awaken(s.Context(), []int64{id})
			s.must(err, "Awaken")
		}
		s.take(id)
	}},
	{name: "nothing to operate on is nothing done", check: func(s *scene) {
		s.operate(s.Operator.Cancel)
		s.operate(s.retry(true))
		n, err := s.Operator.Awaken(s.Context(), nil)
		s.must(err, "Awaken")
		s.same("awakened", n, 0)
	}},
}

func queuedAgain(before tasks.Record) tasks.Record {
	before.Place = unowned(0)
	before.FailureCount, before.FailureTime, before.Archive = 0, nil, nil
	return before
}
