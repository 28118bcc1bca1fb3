package embedded

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// settleSome queues so many tasks and settles them as succeeded.
func settleSome(t *testing.T, s *Store, n int) {
	t.Helper()
	if _, err := s.Enqueue(t.Context(), some(n)); err != nil {
		t.Fatal(err)
	}
	for n > 0 {
		leased, err := s.Lease(t.Context(), storetest.Any(n))
		if err != nil || len(leased) == 0 {
			t.Fatal(len(leased), err)
		}
		if _, err := s.Settle(t.Context(), succeeded(leased)); err != nil {
			t.Fatal(err)
		}
		n -= len(leased)
	}
}

// left answers how many tasks are archived, and how many have data.
func left(t *testing.T, path string) (archived, data, oldest int) {
	t.Helper()
	file := openFile(t, path)
	sound(t, file)
	err := file.QueryRow("SELECT COUNT(*), (SELECT COUNT(*) FROM data), COALESCE(MIN(id), 0) FROM archive").Scan(&archived, &data, &oldest)
	if err != nil {
		t.Fatal(err)
	}
	return archived, data, oldest
}

func TestB48TheArchiveKeepsTheLatestTasksAndForgetsTheDataOfTheOthers(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db"), ArchiveRows: 10}
	s := open(t, c)
	for range 50 {
		settleSome(t, s, 1)
	}
	if archived, data, oldest := left(t, c.Path); archived != 10 || data != 10 || oldest != 41 {
		t.Errorf("%d tasks are archived from %d on, and %d have data; want 10, 41 and 10", archived, oldest, data)
	}
}

func TestTheArchiveForgetsWhatIsOlderThanAllowed(t *testing.T) {
	c, set := clocked(t)
	c.ArchiveAge = time.Hour
	s := open(t, c)
	settleSome(t, s, 2500)
	set(epoch + 3600)
	settleSome(t, s, 1)
	if archived, _, _ := left(t, c.Path); archived != 2501 {
		t.Errorf("%d tasks are archived an hour later, want 2501", archived)
	}
	set(epoch + 3601)
	for range 3 {
		settleSome(t, s, 1)
	}
	archived, _, _ := left(t, c.Path)
	if archived < 1900 || archived > 2502 {
		t.Errorf("three calls deleted all but %d tasks; it should be some, and not many", archived)
	}
	for i := range 10 { // with nothing to do
		set(epoch + 3700 + int64(i)*60)
		if none, err := s.Lease(t.Context(), storetest.Any(1)); err != nil || len(none) != 0 {
			t.Fatal(none, err)
		}
	}
	if archived, data, oldest := left(t, c.Path); archived != 4 || data != 4 || oldest != 2501 {
		t.Errorf("%d tasks are archived from %d on, and %d have data; want 4, 2501 and 4", archived, oldest, data)
	}
}

func TestAttemptsAreBoundedAndForgottenWithTheirTask(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db"), ArchiveRows: 1}
	s := open(t, c)
	if _, err := s.Enqueue(t.Context(), some(1)); err != nil {
		t.Fatal(err)
	}
	kept := func() (n int) {
		t.Helper()
		if err := openFile(t, c.Path).QueryRow("SELECT COUNT(*) FROM attempt").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	fail := func(kind tasks.Kind) {
		t.Helper()
		leased, err := s.Lease(t.Context(), storetest.Any(1))
		if err != nil || len(leased) != 1 {
			t.Fatal(leased, err)
		}
		failed := succeeded(leased)
		failed[0].Outcome = tasks.Outcome{Kind: kind, Wait: -time.Minute}
		if _, err := s.Settle(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
	}
	for range tasks.AttemptsKept + 10 {
		fail(tasks.Retry)
	}
	fail(tasks.Failed)
	if n := kept(); n != tasks.AttemptsKept {
		t.Errorf("%d attempts are kept, want %d", n, tasks.AttemptsKept)
	}
	settleSome(t, s, 1)
	if n := kept(); n != 0 {
		t.Errorf("%d attempts are kept of a task that is forgotten", n)
	}
}

func TestTheArchiveMayKeepEverything(t *testing.T) {
	c, set := clocked(t)
	c.ArchiveAge = -1
	s := open(t, c)
	settleSome(t, s, 3)
	set(epoch + 1e9)
	settleSome(t, s, 3)
	if archived, data, _ := left(t, c.Path); archived != 6 || data != 6 {
		t.Errorf("%d tasks are archived and %d have data", archived, data)
	}
}

func TestB13IdsAreNotUsedAgainWhenTheArchiveHasForgottenThem(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db"), ArchiveRows: 1}
	s := open(t, c)
	settleSome(t, s, 5)
	if _, err := s.Cancel(t.Context(), []int64{5}); err != nil {
		t.Fatal(err)
	}
	settleSome(t, s, 5)
	s.Close()
	s = open(t, c)
	ids, err := s.Enqueue(t.Context(), some(1))
	if err != nil || ids[0] != 11 {
		t.Errorf("the next id is %v (%v)", ids, err)
	}
	page, err := s.List(t.Context(), tasks.Filter{State: tasks.Archived, Limit: 10})
	if err != nil || len(page.Tasks) != 1 {
		t.Errorf("%+v (%v)", page, err)
	}
}
