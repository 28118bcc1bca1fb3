package runtime

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a runtime on the reference model of a store. It plays in a bubble
// of testing/synctest: time passes only when every goroutine waits, so hours
// take no time and no test sleeps.
type scene struct {
	*testing.T
	store  *storetest.Memory // what the runtime leases from
	faults *faulty           // between the two
	other  *storetest.Memory // another Gantry process on the same queue
	log    *journal
}

func play(t *testing.T, run func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newScene(t)) })
}

func newScene(t *testing.T) *scene {
	store := storetest.NewMemory(func() int64 { return time.Now().Unix() })
	return &scene{T: t, store: store, faults: newFaulty(store), other: store.Process("other"), log: &journal{}}
}

// start starts a runtime with the classes, and closes it when the test ends.
func (s *scene) start(classes map[string]Class, change ...func(*Config)) *Runtime {
	s.Helper()
	r := s.runtime(classes, change...)
	s.must(r.Start())
	return r
}

func (s *scene) runtime(classes map[string]Class, change ...func(*Config)) *Runtime {
	s.Helper()
	c := Config{Store: s.faults, Classes: classes, Log: zerolog.New(s.log)}
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	s.must(err)
	s.Cleanup(func() { r.Close() })
	return r
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// queue queues so many tasks of a class.
func (s *scene) queue(class string, n int) []int64 {
	s.Helper()
	return s.queueData(class, slices.Repeat([]string{`{}`}, n)...)
}

// queueData queues one task for each data.
func (s *scene) queueData(class string, data ...string) []int64 {
	s.Helper()
	var news []tasks.NewTask
	for _, d := range data {
		news = append(news, tasks.NewTask{Class: class, Data: []byte(d)})
	}
	ids, err := s.store.Enqueue(s.Context(), news)
	s.must(err)
	return ids
}

func (s *scene) row(id int64) tasks.Record {
	s.Helper()
	r, err := s.store.Get(s.Context(), id)
	s.must(err)
	return r
}

func (s *scene) owner(id int64) string {
	s.Helper()
	if owner := s.row(id).Owner; owner != nil {
		return *owner
	}
	return "NULL"
}

// isBack checks that tasks stand where they were queued, as if never touched.
func (s *scene) isBack(ids ...int64) {
	s.Helper()
	for _, id := range ids {
		if r := s.row(id); r.Archive != nil || r.Owner != nil || r.Expires != nil || r.FailureCount != 0 {
			s.Errorf("task %d stands at %s with failureCount %d, want it back at its place", id, s.owner(id), r.FailureCount)
		}
	}
}

// has checks what was counted.
func (s *scene) has(r *Runtime, want Stats) {
	s.Helper()
	got := r.Stats()
	got.Slots = 0 // has a test of its own
	if got != want {
		s.Errorf("stats are %+v,\nwant %+v", got, want)
	}
}

// isArchived checks that tasks are in the archive with a result.
func (s *scene) isArchived(result int, ids ...int64) {
	s.Helper()
	for _, id := range ids {
		if r := s.row(id); r.Archive == nil || r.Result != result {
			s.Errorf("task %d is %+v, want result %d", id, r.Place, result)
		}
	}
}

// waits checks that a task waits in the queue under an owner, for so long.
func (s *scene) waits(id int64, owner string, wait time.Duration, failures int) {
	s.Helper()
	r := s.row(id)
	if r.Archive != nil || r.Owner == nil || !strings.HasPrefix(*r.Owner, owner) {
		s.Fatalf("task %d stands at %s, want it to wait under %s", id, s.owner(id), owner)
	}
	if got := *r.Expires - time.Now().Unix(); got != int64(wait/time.Second) {
		s.Errorf("task %d waits for %d s, want %v", id, got, wait)
	}
	if r.FailureCount != failures {
		s.Errorf("task %d has failureCount %d, want %d", id, r.FailureCount, failures)
	}
}

// journal is a log that a test can read.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// said counts the lines that hold every one of the parts.
func (j *journal) said(parts ...string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "")
}

// worker is an executor that notes what it was given.
type worker struct {
	do    func(ctx context.Context, task tasks.Task) tasks.Outcome
	ready func(class string) bool // nil: always

	mu       sync.Mutex
	ran      []int64
	now, top int // running at the same time, and the most of it
}

func (w *worker) Ready(class string) bool { return w.ready == nil || w.ready(class) }

func (w *worker) Execute(ctx context.Context, task tasks.Task, _ func(time.Duration)) tasks.Outcome {
	w.mu.Lock()
	w.ran = append(w.ran, task.ID)
	w.now++
	w.top = max(w.top, w.now)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now--
		w.mu.Unlock()
	}()
	if w.do == nil {
		return tasks.Outcome{Kind: tasks.Succeeded}
	}
	return w.do(ctx, task)
}

func (w *worker) runs(id int64) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ran := range w.ran {
		if ran == id {
			n++
		}
	}
	return n
}

// order answers the ids of what ran, in that order.
func (w *worker) order() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ran)
}

func (w *worker) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ran)
}

// answering is a worker that ends every task with an outcome.
func answering(outcome tasks.Outcome) *worker {
	return &worker{do: func(context.Context, tasks.Task) tasks.Outcome { return outcome }}
}

// until is a worker that works until its context ends.
func until() *worker {
	return &worker{do: func(ctx context.Context, _ tasks.Task) tasks.Outcome {
		<-ctx.Done()
		return tasks.Outcome{Kind: tasks.Retry, Reason: "cancelled"}
	}}
}

// taking is a worker whose tasks take a while.
func taking(d time.Duration) *worker {
	return &worker{do: func(ctx context.Context, _ tasks.Task) tasks.Outcome {
		if !tasks.Pause(ctx, d) {
			return tasks.Outcome{Kind: tasks.Retry, Reason: "cancelled"}
		}
		return tasks.Outcome{Kind: tasks.Succeeded}
	}}
}

// byData is a worker whose tasks take as long as their data says, as "10s".
func byData() *worker {
	return &worker{do: func(ctx context.Context, task tasks.Task) tasks.Outcome {
		d, err := time.ParseDuration(strings.Trim(string(task.Data), `"`))
		if err != nil {
			return tasks.Outcome{Kind: tasks.Failed, Reason: err.Error()}
		}
		return taking(d).do(ctx, task)
	}}
}

func only(class string, executor tasks.Executor) map[string]Class {
	return map[string]Class{class: {Executor: executor}}
}

// pass lets time pass and then everything come to rest.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}
