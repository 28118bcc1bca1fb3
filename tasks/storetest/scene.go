package storetest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/phorge-gantry/gantry/tasks"
)

// scene is what the proof of one behaviour works with: a queue, and steps that
// fail the test when they do not work at all.
type scene struct {
	reporter
	Subject
	patience time.Duration // for what takes time
}

// reporter is what a scene needs of a *testing.T. The suite's own tests watch
// broken stores fail through another one.
type reporter interface {
	Context() context.Context
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

const minute = time.Minute

func ptr[V any](v V) *V { return &v }

// unowned is a place without leaseOwner; at is one with both columns.
func unowned(expires int64) tasks.Place { return tasks.Place{Expires: &expires} }
func at(owner string, expires int64) tasks.Place {
	return tasks.Place{Owner: &owner, Expires: &expires}
}
func forever(owner string) tasks.Place { return tasks.Place{Owner: &owner} }
func gantry(fence int64, crashes int) string {
	return tasks.Owner{Fence: fence, Crashes: crashes, Nonce: "elsewhere", Host: "h"}.String()
}
func task(class string) tasks.NewTask { return tasks.NewTask{Class: class, Data: []byte("[]")} }
func prioritized(class string, p int) tasks.NewTask {
	return tasks.NewTask{Class: class, Data: []byte("[]"), Priority: &p}
}

func (s *scene) now() int64 {
	s.Helper()
	now, err := s.Operator.Now(s.Context())
	s.must(err, "Now")
	return now
}

func (s *scene) must(err error, what string) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *scene) same(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors(), emptyLists); diff != "" {
		s.Fatalf("%s differs from what is right (-want +got):\n%s", what, diff)
	}
}

// emptyLists makes no difference between an empty list and none, except for
// data: no data is not the empty string.
var emptyLists = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[[]byte]() }, cmpopts.EquateEmpty())

func (s *scene) isError(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%s answered the error %v, want %v", what, err, want)
	}
}

// queue enqueues tasks and answers their ids.
func (s *scene) queue(news ...tasks.NewTask) []int64 {
	s.Helper()
	ids, err := s.Store.Enqueue(s.Context(), news)
	s.must(err, "Enqueue")
	if len(ids) != len(news) {
		s.Fatalf("Enqueue answered %d ids for %d tasks", len(ids), len(news))
	}
	return ids
}

// put writes a row as another program would, under an id of its own.
func (s *scene) put(class string, place tasks.Place) int64 {
	s.Helper()
	id := s.queue(task(class))[0]
	s.must(s.Rows.Place(id, place), "Place")
	return id
}

func (s *scene) lease(req tasks.LeaseRequest) []tasks.Task {
	s.Helper()
	return s.leaseBy(s.Store, req)
}

func (s *scene) leaseBy(store tasks.Store, req tasks.LeaseRequest) []tasks.Task {
	s.Helper()
	leased, err := leaseFully(s.Context(), store, req)
	s.must(err, "Lease")
	for _, task := range leased {
		if task.Lease == nil {
			s.Fatalf("Lease answered task %d without a lease", task.ID)
		}
	}
	return leased
}

// leaseFully asks again while the store is not through with looking.
func leaseFully(ctx context.Context, store tasks.Store, req tasks.LeaseRequest) ([]tasks.Task, error) {
	for {
		leased, err := store.Lease(ctx, req)
		if !errors.Is(err, tasks.ErrSearching) || len(leased) > 0 {
			return leased, err
		}
	}
}

// hold queues a task and leases it.
func (s *scene) hold(n tasks.NewTask) tasks.Task {
	s.Helper()
	id := s.queue(n)[0]
	for _, task := range s.lease(Any(1)) {
		if task.ID == id {
			return task
		}
	}
	s.Fatalf("the queued task %d was not leased", id)
	return tasks.Task{}
}

// hide makes a row that may be due wait for good.
func (s *scene) hide(id int64) {
	s.Helper()
	if s.row(id).Archive == nil {
		s.must(s.Rows.Place(id, unowned(latest)), "Place")
	}
}

// holdAll queues tasks of class A and leases them.
func (s *scene) holdAll(n int) []tasks.Task {
	s.Helper()
	ids := s.queue(slices.Repeat([]tasks.NewTask{task("A")}, n)...)
	var held []tasks.Task
	for len(held) < n { // a store may bound what one call answers
		leased := s.lease(Any(n - len(held)))
		if len(leased) == 0 {
			break
		}
		held = append(held, leased...)
	}
	s.same("leased", idsOf(held), ids)
	return held
}

// take leases the one row that is due and fails when it is another.
func (s *scene) take(id int64) tasks.Task {
	s.Helper()
	return s.takeBy(s.Store, id)
}

func (s *scene) takeBy(store tasks.Store, id int64) tasks.Task {
	s.Helper()
	leased := s.leaseBy(store, Any(1))
	// A store may overlook for a while what changed behind its back.
	for end := time.Now().Add(s.patience); len(leased) == 0 && time.Now().Before(end); {
		leased = s.leaseBy(store, Any(1))
	}
	if len(leased) != 1 || leased[0].ID != id {
		s.Fatalf("Lease answered the tasks %v, want %d alone", idsOf(leased), id)
	}
	return leased[0]
}

func settlement(task tasks.Task, outcome tasks.Outcome) tasks.Settlement {
	return tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: outcome}
}

func (s *scene) settle(settlements ...tasks.Settlement) []tasks.Settled {
	s.Helper()
	settled, err := s.Store.Settle(s.Context(), settlements)
	s.must(err, "Settle")
	if len(settled) != len(settlements) {
		s.Fatalf("Settle answered %d results for %d settlements", len(settled), len(settlements))
	}
	for i, answer := range settled {
		if answer.ID != settlements[i].ID {
			s.Fatalf("answer %d of Settle is about task %d, want %d", i, answer.ID, settlements[i].ID)
		}
	}
	return settled
}

// end settles one task and answers the follow-ups.
func (s *scene) end(task tasks.Task, outcome tasks.Outcome) []int64 {
	s.Helper()
	answer := s.settle(settlement(task, outcome))[0]
	s.must(answer.Err, "settle as "+string(outcome.Kind))
	return answer.FollowUps
}

func (s *scene) renew(leaseTime time.Duration, held ...tasks.Task) []tasks.Renewed {
	s.Helper()
	renewals := make([]tasks.Renewal, len(held))
	for i, task := range held {
		renewals[i] = tasks.Renewal{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: leaseTime}
	}
	renewed, err := s.Store.Renew(s.Context(), renewals)
	s.must(err, "Renew")
	if len(renewed) != len(held) {
		s.Fatalf("Renew answered %d results for %d leases", len(renewed), len(held))
	}
	return renewed
}

func (s *scene) age(seconds int64) {
	s.Helper()
	s.must(s.Rows.Age(seconds), "Age")
}

func (s *scene) row(id int64) tasks.Record {
	s.Helper()
	records, err := s.Rows.All()
	s.must(err, "All")
	for _, record := range records {
		if record.ID == id {
			return record
		}
	}
	s.Fatalf("task %d is in neither table", id)
	return tasks.Record{}
}

// owner, expires and result are columns that must not be NULL.
func (s *scene) owner(id int64) string {
	s.Helper()
	return column(s, id, "leaseOwner", s.row(id).Owner)
}

func (s *scene) expires(id int64) int64 {
	s.Helper()
	return column(s, id, "leaseExpires", s.row(id).Expires)
}

func (s *scene) result(id int64) int {
	s.Helper()
	return column(s, id, "archive", s.row(id).Archive).Result
}

func column[V any](s *scene, id int64, name string, value *V) V {
	s.Helper()
	if value == nil {
		s.Fatalf("task %d has no %s", id, name)
	}
	return *value
}

func (s *scene) rows() []tasks.Record {
	s.Helper()
	records, err := s.Rows.All()
	s.must(err, "All")
	return records
}

// operation is a method of an operator.
type operation func(context.Context, []int64) ([]tasks.Changed, error)

func (s *scene) prioritize(priority int) operation {
	return func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
		return s.Operator.Priority(ctx, ids, priority)
	}
}

func (s *scene) retry(repeat bool) operation {
	return func(ctx context.Context, ids []int64) ([]tasks.Changed, error) {
		return s.Operator.Retry(ctx, ids, repeat)
	}
}

// operate does something to tasks. There must be one answer an id.
func (s *scene) operate(do operation, ids ...int64) []tasks.Changed {
	s.Helper()
	changed, err := do(s.Context(), ids)
	s.must(err, "operate")
	if len(changed) != len(ids) {
		s.Fatalf("the operator was asked about %v and answered %v", ids, changed)
	}
	for i, id := range ids {
		s.same("the task an operator answers about", changed[i].ID, id)
	}
	return changed
}

const latest = math.MaxUint32

// eventually asks until a condition holds, and fails when patience is at its
// end.
func (s *scene) eventually(what string, holds func() bool) {
	s.Helper()
	deadline := time.NewTimer(s.patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			s.Fatalf("not within %s: %s", s.patience, what)
		case <-tick.C:
		}
	}
}
