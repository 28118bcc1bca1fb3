package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestStockTaskmastersAndGantryDrainOneQueueAndRunEachTaskOnce(t *testing.T) {
	const count, alone, enough = 10_000, 1000, 50
	p := harness.Live(t)
	q := openQueue(t, p)
	ids := scheduleFromTwoProcesses(t, p, count)

	var taskmasters []*harness.Taskmaster
	for range 2 {
		taskmasters = append(taskmasters, startTaskmaster(t, p))
	}
	// Beside Gantry they get little: a stock taskmaster that loses the race for
	// the first row of the queue sleeps for a second.
	harness.Eventually(t, "the taskmasters are at work", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_archivetask") >= alone
	})
	g := startGantry(t, p, 4)
	before, _ := phpRuns(t, p)
	g.work.normally(takes(10 * time.Millisecond))
	q.drained(t)

	php, pids := phpRuns(t, p)
	goes := g.work.allRuns()
	owners := q.owners(t)
	byPHP := 0
	for _, id := range ids {
		owner, archived := owners[id]
		wantOwner := "gantry:"
		if php[id] > 0 {
			byPHP++
			wantOwner = fmt.Sprintf("%d:", pids[id])
		}
		if runs := php[id] + goes[id]; runs != 1 || !archived || !strings.HasPrefix(owner, wantOwner) {
			t.Errorf("task %d: archived %v, %d runs in PHP and %d in Go, owner %s; want one run and the owner %s...",
				id, archived, php[id], goes[id], owner, wantOwner)
		}
	}
	if len(owners) != count {
		t.Errorf("%d tasks are archived, want %d", len(owners), count)
	}
	byGo, beside := count-byPHP, byPHP-len(before)
	t.Logf("%d tasks, each run once: %d by two stock taskmasters, %d of them beside Gantry, and %d by Gantry", count, byPHP, beside, byGo)
	if beside < enough || byGo < enough {
		t.Errorf("the test proves something when each side runs at least %d tasks beside the other", enough)
	}
	if lost := g.journal.lost(t); len(lost) > 0 {
		t.Errorf("the runtime lost leases: %v", lost)
	}
	for _, m := range taskmasters {
		stillRuns(t, m)
	}
}

// scheduleFromTwoProcesses queues n tasks through PHP, from two processes at
// once because one needs a while.
func scheduleFromTwoProcesses(t *testing.T, p *harness.Phorge, n int) []int64 {
	t.Helper()
	var (
		halves [2][]int64
		errs   [2]error
		wg     sync.WaitGroup
	)
	for i := range halves {
		wg.Go(func() { halves[i], errs[i] = p.Schedule(t.Context(), harness.LiveWorker, n/2, nil, nil) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Concat(halves[0], halves[1])
}

// startTaskmaster starts a stock taskmaster that is killed when the test ends.
func startTaskmaster(t *testing.T, p *harness.Phorge) *harness.Taskmaster {
	t.Helper()
	m, err := p.StartTaskmaster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func stillRuns(t *testing.T, m *harness.Taskmaster) {
	t.Helper()
	select {
	case <-m.Done():
		log, _ := m.Log()
		t.Errorf("taskmaster %d has ended:\n%s", m.PID(), log)
	default:
	}
}
