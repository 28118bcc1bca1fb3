package phorge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func tracing(c *Config) { c.Traces = true }

// tracedNews are tasks with trace contexts of their own.
func tracedNews(n int) []tasks.NewTask {
	all := news(n, "A")
	for i := range all {
		all[i].Traceparent = fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01", i+1)
	}
	return all
}

// tracesOf answers the trace contexts that tasks were leased with.
func tracesOf(leased []tasks.Task) (all []string) {
	for _, task := range leased {
		all = append(all, task.Traceparent)
	}
	return all
}

func traceparents(all []tasks.NewTask) (texts []string) {
	for _, n := range all {
		texts = append(texts, n.Traceparent)
	}
	return texts
}

func TestTraceContextsGoWhenTheirTasksAreArchived(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open(tracing)
	all := tracedNews(3)
	enqueue(t, s, all...)
	enqueue(t, s, news(2, "A")...)
	if n := q.number("SELECT COUNT(*) FROM " + name + ".traces"); n != 3 {
		t.Errorf("%d trace contexts are kept, want 3", n)
	}
	held := lease(t, s, storetest.Any(5))
	if got, want := tracesOf(held), append(traceparents(all), "", ""); !slices.Equal(got, want) {
		t.Fatalf("leased with %q, want %q", got, want)
	}
	settle(t, s, held[:1], failure)
	settle(t, s, held[1:2], tasks.Outcome{Kind: tasks.Failed})
	settle(t, s, held[2:], tasks.Outcome{Kind: tasks.Succeeded})
	if ids := q.column("SELECT taskID FROM " + name + ".traces"); len(ids) != 1 || !ids[held[0].ID] {
		t.Errorf("trace contexts are left of the tasks %v, want of %d, which is not archived", ids, held[0].ID)
	}
}

func TestTraceContextsThatNobodyWantsAreNotKept(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open()
	enqueue(t, s, tracedNews(3)...)
	if n := q.number("SELECT COUNT(*) FROM " + name + ".traces"); n != 0 {
		t.Errorf("%d trace contexts are kept", n)
	}
	if held := lease(t, s, storetest.Any(3)); len(held) != 3 || held[0].Traceparent != "" {
		t.Errorf("leased %+v", held)
	}
}

func TestWithoutTheTableTasksGoOnAndTheirTraceContextsNot(t *testing.T) {
	q := newQueue(t)
	name := q.gantry()
	s := q.open(tracing)
	now := time.Now()
	s.gantry.now = func() time.Time { return now }
	pass := func(what string, want []string) {
		t.Helper()
		enqueue(t, s, tracedNews(2)...)
		held := lease(t, s, storetest.Any(2))
		if got := tracesOf(held); !slices.Equal(got, want) {
			t.Fatalf("%s: leased with %q, want %q", what, got, want)
		}
		settle(t, s, held, tasks.Outcome{Kind: tasks.Succeeded, FollowUps: nil})
	}
	none, kept := []string{"", ""}, traceparents(tracedNews(2))
	if err := s.Gantry(); !contains(err, "trace contexts of tasks are not kept; create it with `gantry storage upgrade`") {
		t.Errorf("Gantry answers %v", err)
	}
	pass("before there is one", none)
	q.upgrade()
	pass("before it is looked for again", none)
	now = now.Add(2 * recheck)
	lease(t, s, storetest.Any(1))
	enqueue(t, s, news(1, "A")...)
	settle(t, s, lease(t, s, storetest.Any(1)), tasks.Outcome{Kind: tasks.Succeeded})
	pass("once it is there", kept)
	if err := s.Gantry(); err != nil && contains(err, "trace") {
		t.Errorf("Gantry answers %v", err)
	}
	q.exec("DROP TABLE " + name + ".traces")
	enqueue(t, s, tracedNews(2)...) // finds out within its transaction
	if n := q.number("SELECT COUNT(*) FROM worker_activetask"); n != 2 {
		t.Fatalf("%d tasks were queued when the table was gone, want 2", n)
	}
	settle(t, s, lease(t, s, storetest.Any(2)), tasks.Outcome{Kind: tasks.Succeeded})
	q.upgrade()
	now = now.Add(2 * recheck)
	settle(t, s, lease(t, s, storetest.Any(1)), tasks.Outcome{Kind: tasks.Succeeded})
	enqueue(t, s, news(1, "A")...)
	held := lease(t, s, storetest.Any(1))
	q.exec("DROP TABLE " + name + ".traces")
	settle(t, s, held, tasks.Outcome{Kind: tasks.Succeeded}) // so does this
	if n := q.number("SELECT COUNT(*) FROM worker_activetask"); n != 0 {
		t.Errorf("%d tasks are left in the queue", n)
	}
}

func TestOldTraceContextsAreDeleted(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open(tracing)
	q.exec("INSERT INTO " + name + ".traces SELECT seq, 'x', UNIX_TIMESTAMP() - 15 * 86400 FROM seq_1000_to_1600")
	enqueue(t, s, tracedNews(1)...)
	if n := q.number("SELECT COUNT(*) FROM " + name + ".traces"); n != 1 {
		t.Errorf("%d trace contexts are kept, want the new one", n)
	}
}

func TestALostCounterDoesNotGiveATaskTheTraceOfAnother(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open(tracing)
	q.exec("INSERT INTO " + name + ".traces SELECT seq, '00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01', UNIX_TIMESTAMP() FROM seq_1_to_2000")
	all := tracedNews(2)
	enqueue(t, s, all...)
	if got := tracesOf(lease(t, s, storetest.Any(2))); !slices.Equal(got, traceparents(all)) {
		t.Errorf("leased with %q", got)
	}
}
