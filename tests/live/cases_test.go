package live

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// lease takes every task that is due, in their order.
func lease(t *testing.T, store *phorge.Store) (ids []int64) {
	t.Helper()
	for {
		leased, err := store.Lease(t.Context(), tasks.LeaseRequest{
			Limit:   1,
			Classes: map[string]tasks.ClassRequest{harness.LiveWorker: {Limit: 1, LeaseTime: time.Minute}},
		})
		if errors.Is(err, tasks.ErrSearching) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(leased) == 0 {
			return ids
		}
		ids = append(ids, leased[0].ID)
	}
}

func TestB04RowsLeftByBinWorkerRankAsNewWorkAndDelaysAreKept(t *testing.T) {
	p := harness.Live(t)
	q := openQueue(t, p)
	store := openStore(t, p)
	g := &gantry{store: store}
	import4000 := g.enqueue(t, 1, tasks.NewTask{Priority: new(tasks.PriorityImport)})[0]
	retried := g.enqueue(t, 1, tasks.NewTask{Priority: new(tasks.PriorityIndex)})[0]
	freedID := g.enqueue(t, 1, tasks.NewTask{Priority: new(tasks.PriorityBulk)})[0]
	delayed := g.enqueue(t, 1, tasks.NewTask{Priority: new(tasks.PriorityAlerts)})[0]
	q.exec(t, "UPDATE worker_activetask SET leaseOwner = 'somebody', leaseExpires = UNIX_TIMESTAMP() + 7200 WHERE id = ?", freedID)
	for _, command := range [][]string{
		{"cancel", "--id", itoa(retried)},
		{"retry", "--id", itoa(retried)},
		{"free", "--id", itoa(freedID)},
		{"delay", "--until", "+1hour", "--id", itoa(delayed)},
	} {
		if _, err := p.Bin(t.Context(), "worker", command...); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.row(t, retried); got.Owner != "NULL" || got.Expires != 0 {
		t.Errorf("bin/worker retry left %s, want (NULL, 0)", got)
	}
	if got := q.row(t, freedID); got.Owner != "NULL" || got.Expires <= 0 {
		t.Errorf("bin/worker free left %s, want (NULL, now)", got)
	}
	// A freed row is due from the next second of the database on.
	harness.Eventually(t, "the second in which it was freed is over", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE id = ? AND leaseExpires < UNIX_TIMESTAMP()", freedID) == 1
	})
	if got, want := lease(t, store), []int64{freedID, retried, import4000}; !slices.Equal(got, want) {
		t.Errorf("leased %v, want %v: freed (3000), retried (3500), fresh (4000), and not the delayed %d", got, want, delayed)
	}

	// The deviation: stock Phorge runs the delayed task at once.
	m := startTaskmaster(t, p)
	harness.Eventually(t, "a stock taskmaster runs the delayed task", func() bool {
		return q.row(t, delayed).Archived
	})
	if owner := q.row(t, delayed).Owner; !strings.HasPrefix(owner, itoa(int64(m.PID()))+":") {
		t.Errorf("the delayed task was run by %s, want taskmaster %d", owner, m.PID())
	}
}

func TestB05AFailedTaskKeepsItsWaitBesideStockTaskmasters(t *testing.T) {
	p := harness.Live(t)
	q := openQueue(t, p)
	g := startGantry(t, p, 4)
	g.work.open(false)
	failed := g.enqueue(t, 1, tasks.NewTask{})[0]
	yielded := g.enqueue(t, 1, tasks.NewTask{})[0]
	delayed := g.enqueue(t, 1, tasks.NewTask{DelayUntil: int64(q.count(t, "SELECT UNIX_TIMESTAMP() + 600"))})[0]
	g.work.plan(failed, comesTo(tasks.Outcome{Kind: tasks.Retry, Wait: 600 * time.Second, Reason: "as asked"}))
	g.work.plan(yielded, comesTo(tasks.Outcome{Kind: tasks.Yielded, Wait: time.Second}))
	g.work.open(true)
	// Both are settled, and Gantry takes no more.
	harness.Eventually(t, "both outcomes are settled", func() bool {
		return q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner = '(yield)' OR leaseOwner LIKE '(retry)%'") == 2
	})
	g.work.open(false)
	if wait := q.count(t, "SELECT leaseExpires - dateModified FROM worker_activetask WHERE id = ?", yielded); wait != 5 {
		t.Errorf("the yield of 1 s waits for %d s, want Phorge's minimum of 5", wait)
	}
	if wait := q.count(t, "SELECT leaseExpires - dateModified FROM worker_activetask WHERE id = ?", failed); wait != 600 {
		t.Errorf("the failed task waits for %d s, want 600", wait)
	}

	m := startTaskmaster(t, p)
	harness.Eventually(t, "a stock taskmaster runs the yielded task when its time has come", func() bool {
		return q.row(t, yielded).Archived
	})
	idles(t, m)
	php, _ := phpRuns(t, p)
	if php[failed] != 0 || php[delayed] != 0 {
		t.Errorf("stock taskmasters ran the failed task %d times and the delayed one %d times before their time", php[failed], php[delayed])
	}
	if got := q.row(t, failed); !strings.HasPrefix(got.Owner, "(retry):") || got.Failures != 1 {
		t.Errorf("the failed task is %s, want owner (retry): and one failure", got)
	}

	q.exec(t, "UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() - 1 WHERE id IN (?, ?)", failed, delayed)
	harness.Eventually(t, "a stock taskmaster runs both when their time has come", func() bool {
		return q.row(t, failed).Archived && q.row(t, delayed).Archived
	})
	if got := q.row(t, failed); got.Result != tasks.ResultSuccess || got.Failures != 1 {
		t.Errorf("the failed task is %s, want success with one failure", got)
	}
}

// idles waits until a taskmaster has asked the queue once more and got nothing:
// it says that it is alive each time around, and that it is idle before.
func idles(t *testing.T, m *harness.Taskmaster) {
	t.Helper()
	const idle, beat = `["idle"]`, `["heartbeat"]`
	beats := func() int {
		log, err := m.Log()
		if err != nil {
			t.Fatal(err)
		}
		at := strings.LastIndex(log, idle)
		if at < strings.LastIndex(log, `["busy"]`) {
			return 0
		}
		return strings.Count(log[at:], beat)
	}
	before := beats()
	harness.Eventually(t, "the taskmaster finds nothing to do", func() bool { return beats() >= before+3 })
}

func TestB12GarbageCollectionRemovesDataWithItsArchiveRow(t *testing.T) {
	const old, fresh = 150, 50 // a pass of the collector takes 100
	p := harness.Live(t)
	q := openQueue(t, p)
	g := startGantry(t, p, 4)
	g.enqueue(t, old+fresh, tasks.NewTask{})
	q.drained(t)
	q.exec(t, "UPDATE worker_archivetask SET dateCreated = dateCreated - 15 * 86400 ORDER BY id LIMIT 150")

	// Gantry goes on beside it.
	work := newGate()
	t.Cleanup(work.release)
	running := g.hold(t, 4, work)
	if _, err := p.Bin(t.Context(), "garbage", "collect", "--collector", "worker.tasks"); err != nil {
		t.Fatal(err)
	}
	work.release()
	q.drained(t)
	if left := q.count(t, "SELECT COUNT(*) FROM worker_archivetask"); left != fresh+len(running) {
		t.Errorf("%d archive rows are left, want %d", left, fresh+len(running))
	}
	if data := q.count(t, "SELECT COUNT(*) FROM worker_taskdata"); data != fresh+len(running) {
		t.Errorf("%d data rows are left, want one for each of the %d archive rows", data, fresh+len(running))
	}
	if orphans := q.count(t, "SELECT COUNT(*) FROM worker_archivetask a LEFT JOIN worker_taskdata d ON d.id = a.dataID WHERE d.id IS NULL"); orphans != 0 {
		t.Errorf("%d archive rows have lost their data", orphans)
	}
}

func TestB13PHPAndGoAllocateIdsFromARepairedCounter(t *testing.T) {
	const each = 200
	p := harness.Live(t)
	q := openQueue(t, p)
	g := startGantry(t, p, 4)
	g.enqueue(t, 10, tasks.NewTask{})
	q.drained(t)

	q.exec(t, "DELETE FROM lisk_counter WHERE counterName = 'worker_activetask'")
	g.store = openStore(t, p) // repairs the counter
	php, goes := fromBothSides(t, p, g, each)
	all := slices.Concat(php, goes)
	q.drained(t)
	if archived := q.count(t, "SELECT COUNT(*) FROM worker_archivetask"); archived != 10+2*each {
		t.Errorf("%d tasks are archived, want %d", archived, 10+2*each)
	}
	highest := q.count(t, "SELECT MAX(id) FROM worker_archivetask")

	q.SetMaxIdleConns(0) // the driver complains about connections that died
	if err := harness.Shared(t).Restart(); err != nil {
		t.Fatal(err)
	}
	// The one before may still have ids of a block it reserved.
	g.store = openStore(t, p)
	php, goes = fromBothSides(t, p, g, each)
	for _, id := range slices.Concat(php, goes) {
		if id <= int64(highest) {
			t.Errorf("task %d got an id that was given out before: the highest was %d", id, highest)
		}
	}
	all = slices.Concat(all, php, goes)
	q.drained(t)
	slices.Sort(all)
	if unique := len(slices.Compact(all)); unique != 4*each {
		t.Errorf("%d ids are different, want %d", unique, 4*each)
	}
	if archived := q.count(t, "SELECT COUNT(*) FROM worker_archivetask"); archived != 10+4*each {
		t.Errorf("%d tasks are archived, want %d", archived, 10+4*each)
	}
}

// fromBothSides queues tasks from PHP, and one by one from Go, at once.
func fromBothSides(t *testing.T, p *harness.Phorge, g *gantry, each int) (php, goes []int64) {
	t.Helper()
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { php, err = p.Schedule(t.Context(), harness.LiveWorker, each, nil, nil) })
	for range each {
		goes = append(goes, g.enqueue(t, 1, tasks.NewTask{})...)
	}
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return php, goes
}

func TestPayloadsTravelBetweenPHPAndGoAsTheyAreStored(t *testing.T) {
	p := harness.Live(t)
	store := openStore(t, p)
	q := openQueue(t, p)
	ids, err := p.Schedule(t.Context(), harness.LiveWorker, 1, map[string]any{"a/b": "é😀", "list": []int{}, "n": 9007199254740993}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored string
	if err := q.QueryRow("SELECT data FROM worker_taskdata d JOIN worker_activetask a ON a.dataID = d.id WHERE a.id = ?", ids[0]).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	record, err := store.Get(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if string(record.Data) != stored || !json.Valid(record.Data) {
		t.Errorf("Go reads %s, and the table holds %s", record.Data, stored)
	}
}

func TestTheConfigurationOfAPhorgeLeadsToItsQueue(t *testing.T) {
	p := harness.Live(t)
	ids, err := p.Schedule(t.Context(), harness.LiveWorker, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	site, err := phorge.ReadPhorge(p.Root())
	if err != nil {
		t.Fatal(err)
	}
	store, err := phorge.Open(t.Context(), phorge.Config{DSN: site.DSN})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if got := lease(t, store); !slices.Equal(got, ids) {
		t.Errorf("leased %v, want %v", got, ids)
	}
}
