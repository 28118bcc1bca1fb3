package storetest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// broken is a store with one thing wrong. What is nil works as in the model.
type broken struct {
	*Memory
	enqueue func([]tasks.NewTask) ([]int64, error)
	lease   func(tasks.LeaseRequest) ([]tasks.Task, error)
	renew   func([]tasks.Renewal) []tasks.Renewed
	settle  func([]tasks.Settlement) []tasks.Settled
}

func (b *broken) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if b.enqueue != nil {
		return b.enqueue(news)
	}
	return b.Memory.Enqueue(ctx, news)
}

func (b *broken) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if b.lease != nil {
		return b.lease(req)
	}
	return b.Memory.Lease(ctx, req)
}

func (b *broken) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	if b.renew != nil {
		return b.renew(renewals), nil
	}
	return b.Memory.Renew(ctx, renewals)
}

func (b *broken) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if b.settle != nil {
		return b.settle(settlements), nil
	}
	return b.Memory.Settle(ctx, settlements)
}

// fault is one way to be wrong, and who must notice.
type fault struct {
	name     string
	store    func(*broken)
	operator func(*Memory) tasks.Operator
	row      string // of the table
	rule     Rule   // of the checker, empty where recorded calls cannot show it

	// unseen: the random histories do not get there; the reason.
	unseen string
}

// open answers queues with the fault.
func (f fault) open(t *testing.T, clock Clock) Subject {
	s := openMemory(t, clock)
	m := s.Store.(*Memory)
	if f.store != nil {
		one, other := &broken{Memory: m}, &broken{Memory: s.Other.(*Memory)}
		f.store(one)
		f.store(other)
		s.Store, s.Other = one, other
	}
	if f.operator != nil {
		s.Operator = f.operator(m)
	}
	return s
}

func faults() []fault {
	return slices.Concat(enqueueFaults, leaseFaults, renewFaults, settleFaults, operatorFaults)
}

func TestEveryFaultIsNoticedByTheTable(t *testing.T) {
	failed := map[string]bool{}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			noticed := f.failingRows(t)
			if !noticed[f.row] {
				t.Errorf("the row %q passed; these failed: %v", f.row, slices.Sorted(maps.Keys(noticed)))
			}
			maps.Copy(failed, noticed)
		})
	}
	if testing.Short() {
		return // only the rows were run that the faults name
	}
	for _, group := range table {
		for _, row := range group.rows {
			if !failed[row.name] {
				t.Errorf("no fault makes the row %q fail", row.name)
			}
		}
	}
}

// failingRows runs the table, without the rows that watch a clock go by unless
// the fault is about one of those. A short run is about those rows alone that
// the faults name.
func (f fault) failingRows(t *testing.T) map[string]bool {
	failing := map[string]bool{}
	for _, group := range table {
		for _, row := range group.rows {
			if (row.moving || testing.Short()) && row.name != f.row {
				continue
			}
			patience := time.Duration(0)
			if row.moving {
				patience = 2 * time.Second
			}
			subject := f.open(t, row.clock())
			if watch(t, func(w *watched) { row.check(&scene{w, subject, patience}) }) {
				failing[row.name] = true
			}
		}
	}
	return failing
}

func TestEveryFaultIsNoticedByRandomHistories(t *testing.T) {
	setFlag(t, "test.short", "false") // rapid would try a fifth of the histories, of half the length
	setFlag(t, "rapid.shrinktime", "1ns")
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.checks", "1000")
	setFlag(t, "rapid.seed", "1")
	for _, f := range faults() {
		if f.unseen != "" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			if !watch(t, func(w *watched) {
				compareHistories(w, 0, func() Subject { return f.open(t, Standing) })
			}) {
				t.Error("the store passed")
			}
		})
	}
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}

func TestTheCheckerNamesWhatAFaultViolates(t *testing.T) {
	for _, f := range append(faults(), fault{name: "no fault"}) {
		if f.operator != nil {
			continue // what an operator does is not recorded
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			report := f.history(t)
			if f.rule == "" && len(report.Violations) > 0 {
				t.Errorf("the checker complains: %v", report.Violations[0])
			}
			if f.rule != "" && report.Count(f.rule) == 0 {
				t.Errorf("the checker does not say %q, but: %v", f.rule, report.Violations[:min(3, len(report.Violations))])
			}
		})
	}
}

// history is the same every time: the workers take turns. Some faults keep the
// queue from ever being empty, so that it cannot be drained.
func (f fault) history(t *testing.T) Report {
	t.Helper()
	crew := newCrew(f.open(t, Standing), 1)
	ages := []int64{1, 5, 30, 25, 40, 66} // also to the very second at which a lease ends
	for i := range 100 {
		for _, w := range crew.workers {
			if err := w.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := crew.age(t.Context(), ages[i%len(ages)]); err != nil {
			t.Fatal(err)
		}
	}
	if err := crew.drain(t.Context(), 50); err != nil {
		t.Log(err)
	}
	report, err := crew.check()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// watched stands in for a *testing.T that is expected to fail.
type watched struct {
	*testing.T
	failed bool
}

// watch reports whether a test fails.
func watch(t *testing.T, test func(*watched)) bool {
	w := &watched{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(w)
	}()
	<-done
	return w.failed
}

func (w *watched) Helper()               {}
func (w *watched) Name() string          { return "watched" }
func (w *watched) Log(...any)            {}
func (w *watched) Logf(string, ...any)   {}
func (w *watched) Error(...any)          { w.Fail() }
func (w *watched) Errorf(string, ...any) { w.Fail() }
func (w *watched) Fatal(...any)          { w.FailNow() }
func (w *watched) Fatalf(string, ...any) { w.FailNow() }
func (w *watched) Fail()                 { w.failed = true }
func (w *watched) Failed() bool          { return w.failed }
func (w *watched) FailNow()              { w.failed = true; runtime.Goexit() }

var _ rapid.TB = (*watched)(nil)

// pretend leases from rows that look different from what they are.
func (b *broken) pretend(req tasks.LeaseRequest, change func(*tasks.Task)) ([]tasks.Task, error) {
	truth := maps.Clone(b.active)
	for id, task := range truth {
		change(&task)
		b.active[id] = task
	}
	leased, err := b.Memory.Lease(context.Background(), req)
	for id, task := range truth {
		b.active[id] = task
	}
	for i := range leased {
		task := truth[leased[i].ID]
		leased[i].Lease.Prior, leased[i].Class, leased[i].Priority = task.Place, task.Class, task.Priority
		task.Place = leased[i].Place
		b.active[task.ID] = task
	}
	return leased, err
}

// row changes an active row.
func (b *broken) row(id int64, change func(*tasks.Task)) {
	if task, ok := b.active[id]; ok {
		change(&task)
		b.active[id] = task
	}
}

// afterSettling settles as the model does and then does something more for
// each settlement that took effect.
func (b *broken) afterSettling(more func(tasks.Settlement, *tasks.Settled)) {
	b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
		answers := b.settled(settlements)
		for i := range answers {
			if answers[i].Err == nil {
				more(settlements[i], &answers[i])
			}
		}
		return answers
	}
}

// settled is what the model answers.
func (b *broken) settled(settlements []tasks.Settlement) []tasks.Settled {
	answers, err := b.Memory.Settle(context.Background(), settlements)
	if err != nil {
		panic(fmt.Sprint("the model fails: ", err))
	}
	return answers
}

func (b *broken) renewed(renewals []tasks.Renewal) []tasks.Renewed {
	answers, err := b.Memory.Renew(context.Background(), renewals)
	if err != nil {
		panic(fmt.Sprint("the model fails: ", err))
	}
	return answers
}
