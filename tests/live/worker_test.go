package live

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// stage is where the commands of bin/worker meet tasks: one Phorge, one Gantry
// that runs all the time.
type stage struct {
	p *harness.Phorge
	g *gantry
	q queue
	gate
}

// states bring a task into a state and answer its id. Those that leave it where
// Gantry would run it at once leave Gantry closed.
var states = map[string]func(t *testing.T, s *stage) int64{
	"waiting": func(t *testing.T, s *stage) int64 {
		s.g.work.open(false)
		return s.g.enqueue(t, 1, tasks.NewTask{})[0]
	},
	"delayed by Phorge": func(t *testing.T, s *stage) int64 {
		ids, err := s.p.Schedule(t.Context(), harness.LiveWorker, 1, nil,
			map[string]any{"delayUntil": s.now(t) + 3600})
		if err != nil {
			t.Fatal(err)
		}
		return ids[0]
	},
	"delayed by Gantry": func(t *testing.T, s *stage) int64 {
		return s.g.enqueue(t, 1, tasks.NewTask{DelayUntil: s.now(t) + 3600})[0]
	},
	"running": func(t *testing.T, s *stage) int64 {
		id := s.ran(t, s.step)
		s.g.work.open(false)
		return id
	},
	"yielded": func(t *testing.T, s *stage) int64 {
		id := s.ran(t, comesTo(tasks.Outcome{Kind: tasks.Yielded, Wait: time.Hour}))
		s.settled(t, id, func(r row) bool { return r.Owner == tasks.YieldOwner })
		return id
	},
	"waiting for a retry": func(t *testing.T, s *stage) int64 {
		id := s.ran(t, comesTo(tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour, Reason: "as asked"}))
		s.settled(t, id, func(r row) bool { return strings.HasPrefix(r.Owner, "(retry)") })
		return id
	},
	"succeeded": func(t *testing.T, s *stage) int64 {
		id := s.ran(t, succeed)
		s.settled(t, id, func(r row) bool { return r.Archived })
		return id
	},
	"failed": func(t *testing.T, s *stage) int64 {
		id := s.ran(t, comesTo(tasks.Outcome{Kind: tasks.Failed, Reason: "as asked"}))
		s.settled(t, id, func(r row) bool { return r.Archived })
		return id
	},
	"cancelled": func(t *testing.T, s *stage) int64 {
		id := s.g.enqueue(t, 1, tasks.NewTask{DelayUntil: s.now(t) + 3600})[0]
		changed, err := s.g.store.Cancel(t.Context(), []int64{id})
		if err != nil || changed[0].Err != nil {
			t.Fatal(cmp.Or(err, changed[0].Err))
		}
		return id
	},
}

// ran lets Gantry begin a task whose first execution is given.
func (s *stage) ran(t *testing.T, first step) int64 {
	t.Helper()
	s.g.work.open(false)
	id := s.g.enqueue(t, 1, tasks.NewTask{})[0]
	s.g.work.plan(id, first)
	s.g.work.open(true)
	harness.Eventually(t, "Gantry begins the task", func() bool { return s.g.work.runsOf(id) == 1 })
	return id
}

func (s *stage) settled(t *testing.T, id int64, as func(row) bool) {
	t.Helper()
	harness.Eventually(t, "the outcome is settled", func() bool { return as(s.q.row(t, id)) })
}

func (s *stage) now(t *testing.T) int64 { return int64(s.q.count(t, "SELECT UNIX_TIMESTAMP()")) }

// afterwards is where a task ends up after a command, once Gantry has run
// everything that is due.
type afterwards struct {
	says     string // by bin/worker
	result   int    // in the archive; active says that it is not there
	owner    string // what the leaseOwner of an active task begins with
	failures int
	priority int // 0 means that it is unchanged
	runs     int // in Go
	php      int // runs in PHP
	lost     int // leases of Gantry that ended under it
}

const active = -1

func TestBinWorkerBesideARunningGantry(t *testing.T) {
	p := harness.Live(t)
	s := &stage{p: p, g: startGantry(t, p, 4), q: openQueue(t, p)}
	for _, command := range []struct {
		args string
		on   map[string]afterwards
	}{
		{"cancel", map[string]afterwards{
			"waiting":             {says: "was cancelled", result: tasks.ResultCancelled},
			"delayed by Phorge":   {says: "was cancelled", result: tasks.ResultCancelled},
			"delayed by Gantry":   {says: "was cancelled", result: tasks.ResultCancelled},
			"running":             {says: "was cancelled", result: tasks.ResultCancelled, runs: 1, lost: 1},
			"yielded":             {says: "was cancelled", result: tasks.ResultCancelled, runs: 1},
			"waiting for a retry": {says: "was cancelled", result: tasks.ResultCancelled, runs: 1, failures: 1},
			"succeeded":           {says: "is already archived", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "is already archived", result: tasks.ResultFailure, runs: 1},
			"cancelled":           {says: "is already archived", result: tasks.ResultCancelled},
		}},
		{"free", map[string]afterwards{
			"waiting":             {says: "has no active lease", result: tasks.ResultSuccess, runs: 1},
			"delayed by Phorge":   {says: "has no active lease", result: active, owner: "NULL"},
			"delayed by Gantry":   {says: "was freed", result: tasks.ResultSuccess, runs: 1},
			"running":             {says: "was freed", result: tasks.ResultSuccess, runs: 2, lost: 1},
			"yielded":             {says: "was freed", result: tasks.ResultSuccess, runs: 2},
			"waiting for a retry": {says: "was freed", result: tasks.ResultSuccess, runs: 2, failures: 1},
			"succeeded":           {says: "archived tasks do not have leases", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "archived tasks do not have leases", result: tasks.ResultFailure, runs: 1},
			"cancelled":           {says: "archived tasks do not have leases", result: tasks.ResultCancelled},
		}},
		{"delay --until +1hour", map[string]afterwards{
			"waiting":             {says: "was delayed", result: active, owner: "NULL"},
			"delayed by Phorge":   {says: "was delayed", result: active, owner: "NULL"},
			"delayed by Gantry":   {says: "is already leased", result: active, owner: tasks.DelayOwner},
			"running":             {says: "is already leased", result: tasks.ResultSuccess, runs: 1},
			"yielded":             {says: "is already leased", result: active, owner: tasks.YieldOwner, runs: 1},
			"waiting for a retry": {says: "is already leased", result: active, owner: "(retry)", runs: 1, failures: 1},
			"succeeded":           {says: "is already archived", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "is already archived", result: tasks.ResultFailure, runs: 1},
			"cancelled":           {says: "is already archived", result: tasks.ResultCancelled},
		}},
		{"priority --priority 77", map[string]afterwards{
			"waiting":             {says: "was reprioritized", result: tasks.ResultSuccess, runs: 1, priority: 77},
			"delayed by Phorge":   {says: "was reprioritized", result: active, owner: "NULL", priority: 77},
			"delayed by Gantry":   {says: "was reprioritized", result: active, owner: tasks.DelayOwner, priority: 77},
			"running":             {says: "was reprioritized", result: tasks.ResultSuccess, runs: 1, priority: 77},
			"yielded":             {says: "was reprioritized", result: active, owner: tasks.YieldOwner, runs: 1, priority: 77},
			"waiting for a retry": {says: "was reprioritized", result: active, owner: "(retry)", runs: 1, failures: 1, priority: 77},
			"succeeded":           {says: "is already archived", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "is already archived", result: tasks.ResultFailure, runs: 1},
			"cancelled":           {says: "is already archived", result: tasks.ResultCancelled},
		}},
		{"retry", map[string]afterwards{
			"waiting":             {says: "is already in the active task queue", result: tasks.ResultSuccess, runs: 1},
			"delayed by Phorge":   {says: "is already in the active task queue", result: active, owner: "NULL"},
			"delayed by Gantry":   {says: "is already in the active task queue", result: active, owner: tasks.DelayOwner},
			"running":             {says: "is already in the active task queue", result: tasks.ResultSuccess, runs: 1},
			"yielded":             {says: "is already in the active task queue", result: active, owner: tasks.YieldOwner, runs: 1},
			"waiting for a retry": {says: "is already in the active task queue", result: active, owner: "(retry)", runs: 1, failures: 1},
			"succeeded":           {says: "has already succeeded", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "was queued for retry", result: tasks.ResultSuccess, runs: 2},
			"cancelled":           {says: "was queued for retry", result: tasks.ResultSuccess, runs: 1},
		}},
		{"retry --repeat", map[string]afterwards{
			"succeeded": {says: "was queued for retry", result: tasks.ResultSuccess, runs: 2},
		}},
		{"execute", map[string]afterwards{
			"waiting":             {says: "Executed 1 task.", result: tasks.ResultSuccess, php: 1},
			"delayed by Phorge":   {says: "Executed 1 task.", result: tasks.ResultSuccess, php: 1},
			"delayed by Gantry":   {says: "Executed 1 task.", result: tasks.ResultSuccess, php: 1},
			"running":             {says: "Executed 1 task.", result: tasks.ResultSuccess, runs: 1, php: 1, lost: 1},
			"yielded":             {says: "Executed 1 task.", result: tasks.ResultSuccess, runs: 1, php: 1},
			"waiting for a retry": {says: "Executed 1 task.", result: tasks.ResultSuccess, runs: 1, php: 1, failures: 1},
			"succeeded":           {says: "is already archived", result: tasks.ResultSuccess, runs: 1},
			"failed":              {says: "is already archived", result: tasks.ResultFailure, runs: 1},
			"cancelled":           {says: "is already archived", result: tasks.ResultCancelled},
		}},
		{"execute --retry", map[string]afterwards{
			"failed":    {says: "Executed 1 task.", result: tasks.ResultSuccess, runs: 1, php: 1},
			"cancelled": {says: "Executed 1 task.", result: tasks.ResultSuccess, php: 1},
		}},
	} {
		for _, state := range slices.Sorted(maps.Keys(command.on)) {
			t.Run(command.args+" a task that is "+state, func(t *testing.T) { s.check(t, command.args, state, command.on[state]) })
		}
	}
}

func (s *stage) check(t *testing.T, args, state string, want afterwards) {
	s.gate = newGate()
	defer s.release()
	id := states[state](t, s)
	if strings.HasPrefix(args, "execute") {
		// bin/worker leaves the row open to everybody while it runs the task,
		// as its own source notes: whoever is there may run it as well.
		s.g.work.open(false)
	}
	out := s.binWorker(t, args, id)
	if !strings.Contains(out, want.says) {
		t.Errorf("it says %q, want %q", out, want.says)
	}
	harness.Eventually(t, "a lease that ended cancels the execution", func() bool {
		return s.g.work.cancelledOf(id) == want.lost
	})
	s.release()
	s.g.work.open(true)
	if want.result != active {
		s.settled(t, id, func(r row) bool { return r.Archived })
	}
	s.everythingDueHasRun(t)

	got := s.q.row(t, id)
	php, _ := phpRuns(t, s.p)
	wantPriority := cmp.Or(want.priority, tasks.PriorityDefault)
	switch {
	case got.Archived != (want.result != active),
		got.Archived && got.Result != want.result,
		!got.Archived && !strings.HasPrefix(got.Owner, want.owner),
		got.Failures != want.failures, got.Priority != wantPriority:
		t.Errorf("the task is %s; want %+v", got, want)
	}
	if runs := s.g.work.runsOf(id); runs != want.runs || php[id] != want.php {
		t.Errorf("it ran %d times in Go and %d times in PHP, want %d and %d", runs, php[id], want.runs, want.php)
	}
	if lost := s.g.journal.lost(t)[id]; lost != want.lost {
		t.Errorf("the runtime saw %d of its leases end, want %d", lost, want.lost)
	}
}

func (s *stage) binWorker(t *testing.T, args string, id int64) string {
	t.Helper()
	out, err := s.p.Bin(t.Context(), "worker", append(strings.Fields(args), "--id", itoa(id))...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// everythingDueHasRun waits until Gantry has run a task that was queued last.
func (s *stage) everythingDueHasRun(t *testing.T) {
	t.Helper()
	last := s.g.enqueue(t, 1, tasks.NewTask{Priority: new(tasks.PriorityImport)})[0]
	s.settled(t, last, func(r row) bool { return r.Archived })
}

// Stock Phorge leases such a row at once, because its owner is NULL.
func TestATaskThatFailedUnderBinWorkerExecuteWaits(t *testing.T) {
	p := harness.Live(t)
	s := &stage{p: p, g: startGantry(t, p, 4), q: openQueue(t, p)}
	s.g.work.open(false)
	id := s.g.enqueue(t, 1, tasks.NewTask{Data: []byte(`{"doWork":"fail-temporary"}`)})[0]
	if _, err := p.Bin(t.Context(), "worker", "execute", "--id", itoa(id)); err == nil || !strings.Contains(err.Error(), "as asked") {
		t.Errorf("it answered %v, want the failure of the task", err)
	}
	s.g.work.open(true)
	s.everythingDueHasRun(t)
	if got, runs := s.q.row(t, id), s.g.work.runsOf(id); got.Archived || got.Owner != "NULL" || got.Failures != 1 || runs != 0 {
		t.Errorf("the task is %s and ran %d times in Go; want it to wait with one failure", got, runs)
	}
	if wait := s.q.count(t, "SELECT leaseExpires - dateModified FROM worker_activetask WHERE id = ?", id); wait < 250 || wait > 300 {
		t.Errorf("it was told to wait for %d s, want Phorge's 300", wait)
	}
}
