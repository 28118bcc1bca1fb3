package embedded

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// calls leases until there is an answer that says that all was looked at, and
// answers how many calls that took.
func calls(t *testing.T, s *Store, req tasks.LeaseRequest) (leased []tasks.Task, n int) {
	t.Helper()
	for n = 1; n < 100; n++ {
		leased, err := s.Lease(t.Context(), req)
		if !errors.Is(err, tasks.ErrSearching) {
			if err != nil {
				t.Fatal(err)
			}
			return leased, n
		}
	}
	t.Fatalf("still searching after %d calls", n)
	return nil, n
}

func TestVeryManyClassesAreLookedThroughInParts(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db")}
	s := open(t, c)
	file := openFile(t, c.Path)
	const classes = 5 * classRows / 2
	fill(t, file, classes, "format('C%05d', n)", "'(delay)'", "4000000000", "1")
	fill(t, file, classes, "format('C%05d', n)", "'gantry:1:0:n:h'", "4000000000", "1")
	for range 2 {
		if leased, n := calls(t, s, storetest.Any(10)); len(leased) != 0 || n != 3 {
			t.Errorf("%d tasks were found in %d calls, want none in 3", len(leased), n)
		}
	}
	for _, n := range []int{classes, 1, classes / 2} {
		run(t, file, "UPDATE task SET leaseExpires = 1 WHERE id = ?", n)
		leased, took := calls(t, s, storetest.Any(10))
		if len(leased) == 0 { // the round began behind it
			leased, took = calls(t, s, storetest.Any(10))
		}
		if len(leased) != 1 || leased[0].ID != int64(n) || took > 3 {
			t.Errorf("in %d calls %d tasks were found, want task %d", took, len(leased), n)
		}
	}
	most := 0
	for range 3 {
		most = max(most, during(t, s, func() { s.Lease(t.Context(), storetest.Any(10)) }).steps)
	}
	if most > 150_000 {
		t.Errorf("a call took %d steps", most)
	}
}

func TestManyTasksWhoseWaitIsOverAreFoundInTheirOrder(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db")}
	s := open(t, c)
	fill(t, openFile(t, c.Path), 5*ripeRows/2, "iif(n = 3, 'wanted', 'A')", "NULL", "1000 - n % 1000", "n")
	if leased, n := calls(t, s, storetest.Only(64, "wanted")); len(leased) != 1 || n > 3 {
		t.Errorf("%d tasks were found in %d calls", len(leased), n)
	}
	leased, err := s.Lease(t.Context(), storetest.Any(100))
	if err != nil || len(leased) != 100 {
		t.Fatal(len(leased), err)
	}
	for i, task := range leased {
		if want := []int64{1, 2, 4}[min(i, 2)] + int64(max(0, i-2)); task.ID != want {
			t.Fatalf("task %d came as number %d, want task %d", task.ID, i, want)
		}
	}
}

func TestYoungTasksDoNotHideOlderOnesOfLessPriority(t *testing.T) {
	c, set := clocked(t)
	s := open(t, c)
	queue := func(n, priority int) {
		news := some(n)
		for i := range news {
			news[i].Priority = &priority
		}
		if _, err := s.Enqueue(t.Context(), news); err != nil {
			t.Fatal(err)
		}
	}
	queue(1, 3)
	set(epoch + 10)
	for priority := range 3 {
		queue(2000, priority)
	}
	queue(2000, 3)
	req := storetest.Any(10)
	req.Others.PickupDelay = 5 * time.Second
	var leased []tasks.Task
	w := during(t, s, func() {
		var err error
		if leased, err = s.Lease(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	})
	if len(leased) != 1 || leased[0].ID != 1 {
		t.Errorf("%d tasks were leased, want task 1", len(leased))
	}
	if w.steps > 8000 {
		t.Errorf("that took %d steps", w.steps)
	}
	set(epoch + 15)
	if leased, err := s.Lease(t.Context(), req); err != nil || len(leased) != 0 {
		t.Errorf("after at least four and at most five seconds %d were leased (%v)", len(leased), err)
	}
	set(epoch + 16)
	if leased, err := s.Lease(t.Context(), req); err != nil || len(leased) != 10 || leased[0].ID != 2 {
		t.Errorf("after six seconds %d were leased (%v)", len(leased), err)
	}
}

func TestAListingWithoutDataLeavesItOut(t *testing.T) {
	c, _ := clocked(t)
	s := open(t, c)
	enqueue(t, s)
	for _, without := range []bool{false, true} {
		page, err := s.List(t.Context(), tasks.Filter{State: tasks.Active, Limit: 1, WithoutData: without})
		if err != nil || len(page.Tasks) != 1 || (page.Tasks[0].Data == nil) != without {
			t.Errorf("without data %t: %+v (%v)", without, page, err)
		}
	}
}

func TestFencesOfARestoredCopyAreNotRepeated(t *testing.T) {
	c, set := clocked(t)
	s := open(t, c)
	for range 3 {
		enqueue(t, s)
	}
	first, err := s.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	run(t, openFile(t, c.Path), "UPDATE queue SET fence = 0")
	set(epoch + 1)
	second, err := s.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(second) != 1 || second[0].Lease.Fence <= first[0].Lease.Fence {
		t.Errorf("after fence %d came %+v (%v)", first[0].Lease.Fence, second, err)
	}
}
