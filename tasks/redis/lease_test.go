package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// A call looks at 250 classes, and the next one goes on behind them.
func TestTasksOfVeryManyClassesAreAllFound(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	const classes = 700
	news := make([]tasks.NewTask, classes)
	for i := range news {
		news[i] = tasks.NewTask{Class: fmt.Sprintf("C%03d", i), Data: []byte("1")}
	}
	must(s.Enqueue(t.Context(), news))
	leased, calls := map[string]bool{}, 0
	for ; len(leased) < classes && calls < 100; calls++ {
		some, err := s.Lease(t.Context(), storetest.Any(50))
		if err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		for _, task := range some {
			leased[task.Class] = true
		}
	}
	t.Logf("%d classes after %d calls", len(leased), calls)
	if len(leased) < classes {
		t.Errorf("%d of %d classes were leased after %d calls", len(leased), classes, calls)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || len(stats.Classes) != classes {
		t.Errorf("%d classes are counted (%v)", len(stats.Classes), err)
	}
	sound(t, s)
}

// A class of which there is nothing left costs nothing any more.
func TestClassesWithoutTasksAreForgotten(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	archiveSome(t, s, 3)
	classes := func() int64 {
		n, err := s.client.ZCard(t.Context(), s.key("classes")).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := classes(); n != 1 {
		t.Errorf("there are %d classes, want 1", n)
	}
	if _, err := s.Lease(t.Context(), storetest.Any(1)); err != nil {
		t.Fatal(err)
	}
	if n := classes(); n != 0 {
		t.Errorf("there are %d classes, want none", n)
	}
	must(s.Enqueue(t.Context(), some(1)))
	if leased, err := s.Lease(t.Context(), storetest.Any(1)); err != nil || len(leased) != 1 {
		t.Errorf("leased %d tasks (%v) of a class that came again", len(leased), err)
	}
}

// Behind a young task of a priority stand only younger ones, but those of the next
// priority may be old.
func TestYoungTasksArePassedOverByPriority(t *testing.T) {
	now := int64(epoch)
	s := open(t, Config{URL: serve(t), clock: func() int64 { return now }})
	s.upkeepDue.Store(1 << 62)
	urgent := 1
	must(s.Enqueue(t.Context(), some(1000)))
	now += 100
	news := some(5000)
	for i := range news {
		news[i].Priority = &urgent
	}
	must(s.Enqueue(t.Context(), news))
	req := storetest.Any(10)
	req.Others.PickupDelay = 50 * time.Second
	total, each := during(t, s, func() {
		leased, err := s.Lease(t.Context(), req)
		if err != nil || len(leased) != 10 || leased[0].ID != 1 {
			t.Errorf("leased %d tasks (%v), want the 10 old ones", len(leased), err)
		}
	})
	if total > 60 {
		t.Errorf("that took %d commands: %v", total, each)
	}
}

func TestAPickupDelayIsNeverShortened(t *testing.T) {
	now := int64(epoch)
	s := open(t, Config{URL: serve(t), clock: func() int64 { return now }})
	must(s.Enqueue(t.Context(), some(1)))
	req := storetest.Any(1)
	req.Others.PickupDelay = 1500 * time.Millisecond
	for _, n := range []int{0, 0, 0, 1} { // 0 to 3 seconds of two epochs apart
		if leased, err := s.Lease(t.Context(), req); err != nil || len(leased) != n {
			t.Errorf("after %d seconds %d tasks are leased (%v), want %d", now-epoch, len(leased), err, n)
		}
		now++
	}
}

// However large the data of many tasks are, an answer has its bound.
func TestALeaseTakesNoMoreDataThanFits(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	large := []byte(`"` + strings.Repeat("x", 30_000) + `"`)
	for range 4 {
		must(s.Enqueue(t.Context(), []tasks.NewTask{{Class: "A", Data: large}}))
	}
	for _, n := range []int{3, 1, 0} {
		args := s.leaseArgs("", storetest.Any(10), "")
		args[slices.Index(args, any(leaseBytes))] = 64_000
		answer, err := s.runOnce(t.Context(), leaseScript, args...)
		if err != nil {
			t.Fatal(err)
		}
		leased := leasedOf(1, replied(replied(answer).values[4]))
		if len(leased) != n {
			t.Fatalf("leased %d tasks, want %d", len(leased), n)
		}
		for _, task := range leased {
			if len(task.Data) != len(large) {
				t.Errorf("the data has %d bytes, want %d", len(task.Data), len(large))
			}
		}
	}
}
