package storetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// story is a short history, told step by step.
type story struct {
	t *testing.T
	*Memory
	*Recorder
	log        bytes.Buffer
	now        int64
	lost, done bool
}

func newStory(t *testing.T) *story {
	s := &story{t: t, now: 1_234_567_890}
	s.Memory = NewMemory(func() int64 { return s.now })
	s.Recorder = NewRecorder(unsure{s.Memory, func() bool { return s.lost }, func() bool { return s.done }}, &s.log)
	return s
}

// losing makes the answers of some calls get lost.
func (s *story) losing(done bool, calls func()) {
	s.lost, s.done = true, done
	calls()
	s.lost = false
}

func (s *story) queue(n ...tasks.NewTask) { _, _ = s.Recorder.Enqueue(s.t.Context(), n) }

func (s *story) lease() tasks.Task {
	leased, _ := s.Recorder.Lease(s.t.Context(), Any(1))
	return append(leased, tasks.Task{})[0]
}

func (s *story) settle(task tasks.Task, kind tasks.Kind, followUps ...tasks.NewTask) {
	_, _ = s.Recorder.Settle(s.t.Context(), []tasks.Settlement{settlement(task, tasks.Outcome{Kind: kind, Wait: -minute, FollowUps: followUps})})
}

// settleCalledLost settles, and answers after meanwhile that the lease is lost.
func (s *story) settleCalledLost(task tasks.Task, kind tasks.Kind, meanwhile func()) {
	outcome := tasks.Outcome{Kind: kind, Wait: -minute}
	item := Item{ID: task.ID, Owner: task.Lease.Owner, Lease: task.Lease, Kind: kind, Wait: outcome.Wait}
	answer, err := s.begin(OpSettle, []Item{item})
	s.must(err)
	_, err = s.Memory.Settle(s.t.Context(), []tasks.Settlement{settlement(task, outcome)})
	s.must(err)
	meanwhile()
	s.must(answer([]Item{{ID: task.ID, Lost: true}}, nil))
}

// calledLost makes a call that the store does not see: it is answered that the lease is
// lost, after meanwhile.
func (s *story) calledLost(op Op, task tasks.Task, meanwhile func()) {
	item := Item{ID: task.ID, Owner: task.Lease.Owner, Lease: task.Lease, Kind: tasks.Succeeded, Caller: s.caller}
	answer, err := s.begin(op, []Item{item})
	s.must(err)
	meanwhile()
	s.must(answer([]Item{{ID: task.ID, Lost: true}}, nil))
}

// leaseToldLate leases, and answers after meanwhile, with the end of the lease as
// it then stands.
func (s *story) leaseToldLate(meanwhile func()) tasks.Task {
	answer, err := s.begin(OpLease, nil)
	s.must(err)
	leased, err := s.Memory.Lease(s.t.Context(), Any(1))
	s.must(err)
	meanwhile()
	held := leased[0]
	held.Lease.Expires = *s.active[held.ID].Expires
	s.must(answer([]Item{{ID: held.ID, Class: held.Class, Lease: held.Lease, LeaseTime: minute}}, nil))
	return held
}

func (s *story) renew(task tasks.Task) {
	_, _ = s.Recorder.Renew(s.t.Context(), []tasks.Renewal{{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: time.Hour}})
}

func (s *story) run(task tasks.Task, kind tasks.Kind) {
	ended, err := s.Execution(task)
	if err == nil {
		err = ended(kind)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) report() Report {
	s.t.Helper()
	history, err := ReadHistory(&s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	final, err := s.All()
	if err != nil {
		s.t.Fatal(err)
	}
	return Check(history, final)
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// stories are what the checker must and must not complain about.
var stories = []struct {
	name string
	tell func(*story)
	want []Rule
}{
	{"a task runs", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
	}, nil},
	{"a task that is still queued is not lost", func(s *story) { s.queue(task("A")) }, nil},
	{"an enqueue without an answer queued all", func(s *story) {
		s.losing(true, func() { s.queue(task("A"), task("B")) })
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"an enqueue without an answer queued nothing", func(s *story) {
		s.losing(false, func() { s.queue(task("A"), task("B")) })
	}, nil},
	{"an enqueue without an answer queued a half", func(s *story) {
		s.losing(true, func() { s.queue(task("A"), task("B")) })
		delete(s.active, 2)
	}, []Rule{TaskFromNowhere}},
	{"an enqueue without an answer queued all twice", func(s *story) {
		s.losing(true, func() { s.queue(task("A")) })
		_, _ = s.insert([]tasks.NewTask{task("A")}, 2000)
	}, []Rule{TaskFromNowhere}},
	{"a task of an enqueue without an answer was leased and is gone", func(s *story) {
		s.losing(true, func() { s.queue(task("A")) })
		s.lease()
		delete(s.active, 1)
	}, []Rule{TaskFromNowhere}},
	{"a lease without an answer took the task", func(s *story) {
		s.queue(task("A"))
		s.losing(true, func() { s.lease() })
		s.now += 66
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a lease without an answer took the task in the end", func(s *story) {
		s.queue(task("A"))
		s.losing(true, func() { s.lease() })
	}, nil},
	{"a lease without an answer took an expired lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.must(s.Disturb(nil, func() error { return s.Age(66) }))
		s.losing(true, func() { s.lease() })
		s.renew(held)
		s.settle(held, tasks.Succeeded)
	}, nil},
	{"a lease without an answer cannot have taken a live lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(false, func() { s.lease() })
		s.must(s.Place(held.ID, at(gantry(99, 0), s.now+60)))
		s.renew(held)
	}, []Rule{HeldRefused}},
	{"a lease is answered with the end to which a sweep moved it", func(s *story) {
		s.queue(task("A"))
		s.lease()
		s.must(s.Disturb(nil, func() error { return s.Age(66) }))
		held := s.leaseToldLate(func() { s.must(s.Disturb(nil, func() error { return s.Age(70) })) })
		s.settle(held, tasks.Succeeded)
	}, nil},
	{"a lease is answered with an end that nothing moved there", func(s *story) {
		s.queue(task("A"))
		s.lease()
		s.must(s.Disturb(nil, func() error { return s.Age(66) }))
		held := s.leaseToldLate(func() { s.must(s.Age(70)) })
		s.settle(held, tasks.Succeeded)
	}, []Rule{LeasedLive}},
	{"sweeps without an answer, in any number, explain no double settlement", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.settle(held, tasks.Succeeded)
		for range 500 {
			_ = s.Disturb(nil, func() error { return tasks.ErrUnavailable })
		}
		_, _ = s.Retry(s.t.Context(), []int64{1}, true)
		again := s.lease()
		s.settle(again, tasks.Failed)
	}, []Rule{LeasedEnded}},
	{"a lease that nobody asked for holds the task", func(s *story) {
		s.queue(task("A"))
		s.must(s.Place(1, at(gantry(99, 0), s.now+60)))
	}, []Rule{PlaceUnexplained}},
	{"a renewal without an answer extended the lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.renew(held) })
		s.now += 3606
		s.lease()
	}, nil},
	{"a renewal without an answer did not extend the lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(false, func() { s.renew(held) })
		s.now += 66
		s.lease()
	}, nil},
	{"a settlement without an answer took effect and is repeated", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
		s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
		s.settle(held, tasks.Succeeded, task("child"))
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a settlement without an answer took no effect", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
	}, nil},
	{"a settlement without an answer took effect without its follow-up", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
		delete(s.active, 2)
	}, []Rule{FollowUpLost}},
	{"a settlement without an answer took no effect and queued its follow-up", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(false, func() { s.settle(held, tasks.Succeeded, task("child")) })
		_, _ = s.insert([]tasks.NewTask{task("child")}, 2000)
	}, []Rule{TaskFromNowhere}},
	{"a settlement without an answer queued its follow-up twice", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.settle(held, tasks.Succeeded, task("child")) })
		_, _ = s.insert([]tasks.NewTask{task("child")}, 2000)
	}, []Rule{TaskFromNowhere}},
	{"a retry without an answer made the task due", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.settle(held, tasks.Retry) })
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a retry took effect and is called lost after the next lease", func(s *story) {
		s.queue(task("A"))
		var next tasks.Task
		s.settleCalledLost(s.lease(), tasks.Retry, func() { next = s.lease() })
		s.settle(next, tasks.Succeeded)
	}, nil},
	{"a retry without an answer is repeated after a lease without an answer took the task", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(true, func() { s.settle(held, tasks.Retry) })
		s.losing(true, func() { s.lease() })
		s.settle(held, tasks.Retry)
		s.now += 66
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a retry took effect and is called lost after a lease without an answer", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Retry, func() { s.losing(true, func() { s.lease() }) })
		s.now += 66
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a retry took effect and is called lost before a lease without an answer", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Retry, func() {})
		s.losing(true, func() { s.lease() })
	}, []Rule{HeldRefused}},
	{"a retry took effect and is called lost after a lease without an answer that took nothing", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Retry, func() { s.losing(false, func() { s.lease() }) })
		s.settle(s.lease(), tasks.Succeeded)
	}, []Rule{LeasedLive}},
	{"a success took effect and is called lost after a lease without an answer", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Succeeded, func() { s.losing(true, func() { s.lease() }) })
	}, []Rule{HeldRefused}},
	{"a retry took effect and is called lost while it shows", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Retry, func() {})
		s.settle(s.lease(), tasks.Succeeded)
	}, []Rule{HeldRefused}},
	{"a yield took effect and is called lost while it shows", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Yielded, func() {})
	}, []Rule{HeldRefused}},
	{"a success took effect and is called lost", func(s *story) {
		s.queue(task("A"))
		s.settleCalledLost(s.lease(), tasks.Succeeded, func() {})
	}, []Rule{HeldRefused}},
	{"a retry without an answer ended in the archive", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.losing(false, func() { s.settle(held, tasks.Retry) })
		_, _ = s.Cancel(s.t.Context(), []int64{1})
	}, []Rule{PlaceUnexplained}},
	{"an operator cancelled the task while it ran", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.must(s.Disturb([]int64{1}, func() error { _, err := s.Cancel(s.t.Context(), []int64{1}); return err }))
		s.settle(held, tasks.Succeeded)
	}, nil},
	{"a lease was called lost while it was settled, and the server died before the disk had that", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		answer, err := s.begin(OpSettle, []Item{{ID: held.ID, Owner: held.Lease.Owner, Lease: held.Lease, Kind: tasks.Succeeded}})
		s.must(err)
		s.calledLost(OpRenew, held, func() {})
		s.renew(held)
		_, err = s.Memory.Settle(s.t.Context(), []tasks.Settlement{settlement(held, tasks.Outcome{Kind: tasks.Succeeded})})
		s.must(err)
		s.must(answer([]Item{{ID: held.ID}}, nil))
	}, nil},
	{"a lease was called lost after the server refused to settle it", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.calledLost(OpRenew, held, func() {})
		s.settle(held, tasks.Succeeded)
	}, []Rule{HeldRefused}},
	{"a caller took what an answer that was lost had taken and given back", func(s *story) {
		s.caller = true
		s.queue(task("A"))
		s.losing(true, func() { s.lease() })
		s.must(s.Place(1, at("(back):1:0", s.now-1)))
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a caller took a task whose lease was not over", func(s *story) {
		s.caller = true
		s.queue(task("A"))
		held := s.lease()
		s.must(s.Place(held.ID, at(held.Lease.Owner, s.now-66)))
		s.settle(s.lease(), tasks.Succeeded)
	}, []Rule{LeasedLive}},
	{"a caller was refused because its lease was over", func(s *story) {
		s.caller = true
		s.queue(task("A"))
		held := s.lease()
		s.must(s.Disturb(nil, func() error { return s.Age(66) }))
		s.calledLost(OpSettle, held, func() {})
		s.settle(s.lease(), tasks.Succeeded)
	}, nil},
	{"a caller was refused while its lease lived", func(s *story) {
		s.caller = true
		s.queue(task("A"))
		held := s.lease()
		s.calledLost(OpSettle, held, func() {})
		s.settle(held, tasks.Succeeded)
	}, []Rule{HeldRefused}},
	{"a task was leased after it was archived", func(s *story) {
		s.queue(task("A"))
		s.settle(s.lease(), tasks.Succeeded)
		_, _ = s.Retry(s.t.Context(), []int64{1}, true)
		s.settle(s.lease(), tasks.Succeeded)
	}, []Rule{LeasedEnded}},
	{"a task ran without a lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
		held.Lease = &tasks.Lease{Owner: gantry(99, 0)}
		s.run(held, tasks.Succeeded)
	}, []Rule{RanUnleased}},
	{"a task ran after its lease was settled", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.settle(held, tasks.Retry)
		s.run(held, tasks.Succeeded)
	}, []Rule{RanUnleased}},
	{"a task began to run after its lease was lost", func(s *story) {
		s.queue(task("A"))
		lost := s.lease()
		s.now += 66
		held := s.lease()
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
		s.run(lost, tasks.Succeeded)
		s.settle(lost, tasks.Succeeded)
	}, nil},
	{"a task ran again after it succeeded", func(s *story) {
		s.queue(task("A"))
		for range 2 {
			held := s.lease()
			s.run(held, tasks.Succeeded)
			s.settle(held, tasks.Succeeded)
			_, _ = s.Retry(s.t.Context(), []int64{1}, true)
		}
	}, []Rule{LeasedEnded, RanTwice}},
	{"a task ran twice under one lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.run(held, tasks.Succeeded)
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
	}, []Rule{RanTwice}},
	{"a task was declined and ran elsewhere under the same lease", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		s.run(held, tasks.Declined)
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
	}, nil},
	{"a task succeeded without running", func(s *story) {
		s.queue(task("A"), task("A"))
		held := s.lease()
		s.run(held, tasks.Succeeded)
		s.settle(held, tasks.Succeeded)
		s.settle(s.lease(), tasks.Succeeded)
	}, []Rule{NeverRan}},
	{"a task succeeded while it still ran", func(s *story) {
		s.queue(task("A"))
		held := s.lease()
		if _, err := s.Execution(held); err != nil {
			s.t.Fatal(err)
		}
		s.settle(held, tasks.Succeeded)
	}, []Rule{NeverRan}},
}
