package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// archiveSome queues, leases and settles n tasks, each of which failed once before.
func archiveSome(t *testing.T, s *Store, n int) {
	t.Helper()
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, some(n)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []tasks.Outcome{{Kind: tasks.Retry, Wait: -time.Hour, Reason: "because"}, {Kind: tasks.Succeeded}} {
		leased, err := s.Lease(ctx, storetest.Any(n))
		if err != nil || len(leased) != n {
			t.Fatalf("leased %d tasks (%v), want %d", len(leased), err, n)
		}
		settlements := succeeded(leased)
		for i := range settlements {
			settlements[i].Outcome = o
		}
		if _, err := s.Settle(ctx, settlements); err != nil {
			t.Fatal(err)
		}
	}
}

// kinds counts the keys of a queue by what they are.
func kinds(t *testing.T, s *Store) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for _, key := range keysOf(t, s) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, s.root), ":")
		counted[kind]++
	}
	return counted
}

func TestB48AnArchiveOfTenKeepsTheKeysOfTen(t *testing.T) {
	s := open(t, Config{URL: serve(t), ArchiveRows: 10})
	for range 10 {
		archiveSome(t, s, 5)
	}
	counted, err := s.CountArchived(t.Context())
	if err != nil || counted.Succeeded != 10 {
		t.Errorf("%+v are archived (%v), want 10", counted, err)
	}
	kept := kinds(t, s)
	if kept["task"] != 10 || kept["attempts"] != 10 {
		t.Errorf("these keys are left: %v", kept)
	}
	records, err := rowsOf(s).All()
	if err != nil || len(records) != 10 || records[0].ID != 41 || string(records[0].Data) != `{"n":0}` {
		t.Errorf("these are left, not the latest: %v (%v)", records, err)
	}
	sound(t, s)
}

func TestB48OldArchivedTasksAreForgotten(t *testing.T) {
	now := int64(epoch)
	s := open(t, Config{URL: serve(t), ArchiveAge: time.Hour, clock: func() int64 { return now }})
	archiveSome(t, s, 20)
	if _, err := s.Cancel(t.Context(), must(s.Enqueue(t.Context(), some(1)))); err != nil {
		t.Fatal(err)
	}
	now += 3600
	archiveSome(t, s, 1)
	if n := kinds(t, s)["task"]; n != 22 {
		t.Errorf("%d tasks are left after an hour, want all 22", n)
	}
	now++
	archiveSome(t, s, 2) // which forgets twice as many
	if n := kinds(t, s)["task"]; n != 22+2-4 {
		t.Errorf("%d tasks are left, want 20", n)
	}
	// The rest goes when the queue is looked after, without anything being settled.
	s.upkeepDue.Store(0)
	if err := s.client.Unlink(t.Context(), s.key("upkeep")).Err(); err != nil {
		t.Fatal(err)
	}
	if leased, err := s.Lease(t.Context(), storetest.Any(1)); err != nil || len(leased) != 0 {
		t.Fatal(leased, err)
	}
	if kept := kinds(t, s); kept["task"] != 3 || kept["attempts"] != 3 {
		t.Errorf("these keys are left: %v", kept)
	}
	sound(t, s)
}

func must(ids []int64, err error) []int64 {
	if err != nil {
		panic(err)
	}
	return ids
}

func TestTheLatestAttemptsOfATaskAreKept(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	id := must(s.Enqueue(t.Context(), some(1)))[0]
	for n := range tasks.AttemptsKept + 5 {
		leased, err := s.Lease(t.Context(), storetest.Any(1))
		if err != nil || len(leased) != 1 {
			t.Fatal(len(leased), err)
		}
		_, err = s.Settle(t.Context(), []tasks.Settlement{{
			ID: id, Lease: *leased[0].Lease, Route: "plugin",
			Outcome: tasks.Outcome{Kind: tasks.Retry, Wait: -time.Hour, Category: tasks.CategoryTemporary, Reason: fmt.Sprint("reason ", n, " \"\\\x00é")},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	attempts, err := s.Attempts(t.Context(), id, 1000)
	if err != nil || len(attempts) != tasks.AttemptsKept {
		t.Fatalf("%d attempts are kept (%v), want %d", len(attempts), err, tasks.AttemptsKept)
	}
	for i, a := range attempts {
		n := tasks.AttemptsKept + 5 - i
		if a.Number != n || a.Reason != fmt.Sprint("reason ", n-1, " \"\\ é") || a.Class != "A" || a.Route != "plugin" || a.Host != "test" || a.TaskID != id {
			t.Errorf("attempt %d is %+v", i, a)
		}
	}
	some, err := s.Attempts(t.Context(), id, 2)
	if err != nil || !slices.Equal(some, attempts[:2]) {
		t.Errorf("of two attempts %v are answered (%v)", some, err)
	}
}
