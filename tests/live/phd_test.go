package live

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

var freed = regexp.MustCompile(`Freed ([\d,]+) task lease`)

// restartPhd runs `bin/phd restart`, which expires every lease of the queue,
// and answers how many it says it freed. The statement has no protection
// against deadlocks in Phorge and then leaves the daemons down; what an admin
// does about it is to start them again, and so does this.
func restartPhd(t *testing.T, p *harness.Phorge) (leases int, err error) {
	out, err := p.Bin(t.Context(), "phd", "restart")
	for err != nil && strings.Contains(err.Error(), "#1213") {
		t.Log("phd lost a deadlock while it freed the leases, and is started again")
		out, err = p.Bin(t.Context(), "phd", "start")
	}
	if err != nil {
		return 0, err
	}
	found := freed.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("phd does not say how many leases it freed:\n%s", out)
	}
	return strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
}

// startPhd starts the daemons, without taskmasters as configured, and stops
// them when the test ends.
func startPhd(t *testing.T, p *harness.Phorge) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := p.Bin(context.Background(), "phd", "stop"); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Bin(t.Context(), "phd", "start"); err != nil {
		t.Fatal(err)
	}
}

// hold queues n tasks and waits until Gantry executes all of them; they end
// when the gate is opened.
func (g *gantry) hold(t *testing.T, n int, at gate) []int64 {
	t.Helper()
	g.work.open(false)
	ids := g.enqueue(t, n, tasks.NewTask{})
	for _, id := range ids {
		g.work.plan(id, at.step)
	}
	g.work.open(true)
	harness.Eventually(t, "Gantry executes the tasks", func() bool {
		runs := g.work.allRuns()
		return !slices.ContainsFunc(ids, func(id int64) bool { return runs[id] == 0 })
	})
	return ids
}

func TestPhdRestartInMidDrainRunsNothingTwice(t *testing.T) {
	const held, slots = 64, 80
	p := harness.Live(t)
	q := openQueue(t, p)
	startPhd(t, p)
	g := startGantry(t, p, slots)
	g.work.normally(takes(20 * time.Millisecond))
	work := newGate()
	t.Cleanup(work.release)
	ids := g.hold(t, held, work)

	for round := range 3 {
		revived := g.runtime.Stats().Revived
		var leases int
		var more []int64
		restarted := make(chan error, 1)
		go func() {
			var err error
			leases, err = restartPhd(t, p)
			restarted <- err
		}()
		for drains := true; drains; {
			select {
			case err := <-restarted:
				if err != nil {
					t.Fatal(err)
				}
				drains = false
			default:
				more = append(more, g.enqueue(t, slots, tasks.NewTask{})...)
				harness.Eventually(t, "the drain goes on", func() bool {
					return q.count(t, "SELECT COUNT(*) FROM worker_activetask") < held+2*slots
				})
			}
		}
		ids = append(ids, more...)
		if leases < held {
			t.Errorf("round %d: phd freed %d leases, want at least the %d that are held all the time", round, leases, held)
		}
		harness.Eventually(t, "every held lease is revived", func() bool {
			return g.runtime.Stats().Revived-revived >= held
		})
		t.Logf("round %d: phd freed %d leases while %d tasks flowed by; %d were revived, the others were settled meanwhile",
			round, leases, len(more), g.runtime.Stats().Revived-revived)
	}
	work.release()
	q.drained(t)

	runs, owners := g.work.allRuns(), q.owners(t)
	for _, id := range ids {
		if owner, archived := owners[id]; !archived || runs[id] != 1 {
			t.Errorf("task %d ran %d times, archived %v (%s); want once", id, runs[id], archived, owner)
		}
	}
	if lost := g.journal.lost(t); len(lost) > 0 {
		t.Errorf("the runtime lost leases: %v", lost)
	}
}

// Idle taskmasters look for expired leases every second, so here they are as
// dangerous as they can be: there is nothing else for them to take.
func TestPhdRestartBesideStockTaskmastersRepeatsOnlyWhatWasLost(t *testing.T) {
	const rounds, held = 5, 32
	p := harness.Live(t)
	q := openQueue(t, p)
	startPhd(t, p)
	taskmasters := []*harness.Taskmaster{startTaskmaster(t, p), startTaskmaster(t, p)}
	g := startGantry(t, p, held)
	var ids []int64
	for round := range rounds {
		work := newGate()
		t.Cleanup(work.release)
		// The others must not take what Gantry is to hold.
		signal(t, taskmasters, syscall.SIGSTOP)
		ids = append(ids, g.hold(t, held, work)...)
		signal(t, taskmasters, syscall.SIGCONT)
		before := g.runtime.Stats()
		leases, err := restartPhd(t, p)
		if err != nil {
			t.Fatal(err)
		}
		if leases != held {
			t.Errorf("round %d: phd freed %d leases, want %d", round, leases, held)
		}
		harness.Eventually(t, "every held lease is revived or lost", func() bool {
			now := g.runtime.Stats()
			return now.Revived-before.Revived+now.Lost-before.Lost >= held
		})
		now := g.runtime.Stats()
		t.Logf("round %d: %d of %d swept leases revived, %d lost to stock taskmasters",
			round, now.Revived-before.Revived, held, now.Lost-before.Lost)
		work.release()
		q.drained(t)
	}

	php, _ := phpRuns(t, p)
	runs, owners, lost := g.work.allRuns(), q.owners(t), g.journal.lost(t)
	repeats := 0
	for _, id := range ids {
		if _, archived := owners[id]; !archived {
			t.Errorf("task %d is not archived", id)
		}
		repeat := php[id] + runs[id] - 1
		repeats += repeat
		if repeat < 0 || repeat > lost[id] {
			t.Errorf("task %d ran %d times in Go and %d times in PHP, and the runtime saw %d leases end under it",
				id, runs[id], php[id], lost[id])
		}
	}
	t.Logf("%d tasks were swept while they ran; %d repeats, all explained by lost leases", len(ids), repeats)
	for _, m := range taskmasters {
		stillRuns(t, m)
	}
}

// stalled is a store whose renewals can be held up, as on a host that stands
// still for a while.
type stalled struct {
	tasks.Store
	mu   sync.Mutex
	gate gate
}

func (s *stalled) stall() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = newGate()
	return s.gate.release
}

func (s *stalled) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	s.mu.Lock()
	open := s.gate.open
	s.mu.Unlock()
	if open != nil {
		select {
		case <-open:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", tasks.ErrUnavailable, ctx.Err())
		}
	}
	return s.Store.Renew(ctx, renewals)
}

func TestSweptLeasesThatStockTaskmastersTookAreNotSettledByGantry(t *testing.T) {
	const held = 6
	p := harness.Live(t)
	q := openQueue(t, p)
	startPhd(t, p)
	store := openStore(t, p)
	through := &stalled{Store: store}
	g := startGantryOn(t, store, through, held)
	work := newGate()
	t.Cleanup(work.release)
	ids := g.hold(t, held, work)
	resume := through.stall()
	t.Cleanup(resume)
	startTaskmaster(t, p)
	startTaskmaster(t, p)
	if leases, err := restartPhd(t, p); err != nil || leases != held {
		t.Fatalf("phd freed %d leases, want %d: %v", leases, held, err)
	}
	q.drained(t) // by the taskmasters
	owners := q.owners(t)
	resume()
	harness.Eventually(t, "Gantry sees that its leases are lost, and stops the work", func() bool {
		return g.runtime.Stats().Lost == held && !slices.ContainsFunc(ids, func(id int64) bool { return g.work.cancelledOf(id) == 0 })
	})
	php, _ := phpRuns(t, p)
	lost := g.journal.lost(t)
	for _, id := range ids {
		if after := q.row(t, id); after.Owner != owners[id] || after.Result != tasks.ResultSuccess || strings.HasPrefix(after.Owner, "gantry") {
			t.Errorf("task %d is %s, want it as taskmaster %s archived it", id, after, owners[id])
		}
		if php[id] != 1 || g.work.runsOf(id) != 1 || lost[id] != 1 {
			t.Errorf("task %d ran %d times in Go and %d times in PHP with %d leases lost; want one of each",
				id, g.work.runsOf(id), php[id], lost[id])
		}
	}
}

func signal(t *testing.T, taskmasters []*harness.Taskmaster, s syscall.Signal) {
	t.Helper()
	for _, m := range taskmasters {
		if err := syscall.Kill(m.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
}
