package queueapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

const (
	theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ours   = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
)

// traceOf answers the trace context that the one due task is leased with.
func (s *scene) traceOf(id int64) string {
	s.Helper()
	leased := read[[]struct {
		ID          int64
		Traceparent string
	}](s, s.post("lease", `{"limit":10}`, owner("w")))
	for _, t := range leased {
		if t.ID == id {
			return t.Traceparent
		}
	}
	s.Fatalf("task %d was not leased: %+v", id, leased)
	return ""
}

func TestTraceContextOfACallerTravelsToWhoLeases(t *testing.T) {
	s := serve(t, openMemory(t))
	for _, c := range []struct{ header, kept string }{
		{theirs, theirs},
		{"cc" + theirs[2:] + "-more", theirs},
		{theirs[:54], ""},
		{"00-" + strings.Repeat("0", 32) + theirs[35:], ""},
		{theirs + "," + theirs, ""},
		{"", ""},
	} {
		id := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"{}"}`, header{"traceparent", c.header})).ID
		s.same("the trace context for "+c.header, s.traceOf(id), c.kept)
	}
	once := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"{}"}`, header{"traceparent", theirs}, header{"Idempotency-Key", "k"}))
	s.same("the trace context of a task with a key", s.traceOf(once.ID), theirs)
}

func TestFollowUpsHaveTheTraceContextOfWhoCompletes(t *testing.T) {
	s := serve(t, openMemory(t))
	done := read[task](s, s.post("complete", held(s.hold("w"), `"followups":[{"taskClass":"B","data":"1"}]`), owner("w"), header{"traceparent", ours}))
	s.same("the trace context of the follow-up", s.traceOf(done.FollowUps[0]), ours)
}

// tracer notes the spans of enqueues.
type tracer struct {
	mu    sync.Mutex
	began []string
	ended []string
}

func (t *tracer) Enqueue(instance, traceparent string, news []tasks.NewTask) func([]int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = append(t.began, fmt.Sprint(instance, " ", traceparent, " ", len(news)))
	for i := range news {
		news[i].Traceparent = ours
	}
	return func(ids []int64, err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended = append(t.ended, fmt.Sprint(len(ids), " ", err != nil))
	}
}

func TestAnEnqueueIsASpanAndItsTasksCarryIt(t *testing.T) {
	spans := &tracer{}
	s := serve(t, openMemory(t), func(c *queueapi.Config) { c.Tracer = spans })
	id := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"{}"}`, header{"traceparent", theirs})).ID
	s.same("the trace context of the task", s.traceOf(id), ours)
	s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"A","data":"2"}]`)
	s.post("enqueue", `{"taskClass":"A","data":"}"}`) // refused before it is begun
	s.post("enqueue", `[]`)
	s.same("what began", spans.began, []string{"main " + theirs + " 1", "main  2"})
	s.same("what ended", spans.ended, []string{"1 false", "2 false"})
}

// counter notes what an observer is told.
type counter struct {
	mu   sync.Mutex
	told []string
}

func (c *counter) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func (c *counter) Answered(instance, route string, status int, took time.Duration) {
	c.note("%q %q %d %v", instance, route, status, took > 0)
}

func (c *counter) Leased(instance string, task tasks.Task, leaseTime time.Duration) {
	c.note("leased %s %s %v", instance, task.Class, leaseTime)
}

func (c *counter) Settled(instance string, s tasks.Settlement) {
	c.note("settled %s %d %s %s", instance, s.ID, s.Route, s.Outcome.Kind)
}

// saw answers what was told since the last time.
func (c *counter) saw(s *scene, want int) []string {
	s.Helper()
	var told []string
	s.eventually(func() bool { // a caller has its answer a moment before
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.told) < want {
			return false
		}
		told, c.told = c.told, nil
		return true
	})
	return told
}

func TestObserverIsToldOfCallsLeasesAndSettlements(t *testing.T) {
	seen := &counter{}
	s := serve(t, openMemory(t), func(c *queueapi.Config) { c.Observer = seen })
	id := s.queue("[]")
	s.same("enqueue", seen.saw(s, 1), []string{`"main" "POST /api/queue/enqueue" 200 true`})
	leased := s.lease("w", 1)[0]
	s.same("lease", seen.saw(s, 2), []string{"leased main A 1m0s", `"main" "POST /api/queue/lease" 200 true`})
	s.post("fail", held(leased), owner("w"))
	s.same("fail", seen.saw(s, 2), []string{fmt.Sprintf("settled main %d api retry", id), `"main" "POST /api/queue/fail" 200 true`})
	s.post("complete", held(leased), owner("w"))
	s.same("complete under a lease that ended", seen.saw(s, 2),
		[]string{fmt.Sprintf("settled main %d api lost", id), `"main" "POST /api/queue/complete" 409 true`})
	s.get("tasks/77")
	s.same("a task that is not there", seen.saw(s, 1), []string{`"main" "GET /api/queue/tasks/{id}" 404 true`})
	s.send("GET", "/api/nothing", "")
	s.same("a path that is not there", seen.saw(s, 1), []string{`"" "" 404 true`})
	s.send("DELETE", "/healthz", "")
	s.same("a method that is not there", seen.saw(s, 1), []string{`"" "" 405 true`})
	s.send("GET", "/healthz", "")
	s.same("a probe", seen.saw(s, 1), []string{`"" "GET /healthz" 200 true`})
}

func TestMetricsAreForWhoMayRead(t *testing.T) {
	var asked []string
	fails := false
	page := func(c *queueapi.Config) {
		c.Metrics = func(_ context.Context, instance string) ([]byte, string, error) {
			asked = append(asked, instance)
			if fails {
				return nil, "", errors.New("no such thing: /var/lib/secret")
			}
			return []byte("a 1\n"), "text/plain; version=0.0.4", nil
		}
	}
	s := serve(t, openMemory(t), withTokens, page)
	s.refused(s.send("GET", "/metrics", ""), http.StatusUnauthorized, "ERR_UNAUTHORIZED")
	s.refused(s.send("GET", "/metrics", "", header{"Authorization", "Bearer " + secrets["work"]}), http.StatusForbidden, "ERR_UNAUTHORIZED")
	r := s.send("GET", "/metrics", "", header{"Authorization", "Bearer " + secrets["read"]})
	if r.status != http.StatusOK || r.body != "a 1\n" || r.header.Get("Content-Type") != "text/plain; version=0.0.4" || !slices.Equal(asked, []string{"main"}) {
		t.Errorf("answered %d %q as %s, about %v", r.status, r.body, r.header.Get("Content-Type"), asked)
	}
	if strings.Contains(s.logs.String(), `"info","token":"read"`) {
		t.Error("each look is in the log")
	}
	fails = true
	r = s.send("GET", "/metrics", "", header{"Authorization", "Bearer " + secrets["read"]})
	s.refused(r, http.StatusInternalServerError, "ERR_INTERNAL")
	if strings.Contains(r.body, "secret") {
		t.Errorf("answered %s", r.body)
	}
	s = serve(t, openMemory(t))
	s.refused(s.send("GET", "/metrics", ""), http.StatusNotFound, "ERR_NOT_FOUND")
	s = serve(t, openMemory(t), page)
	fails = false
	if r := s.send("GET", "/metrics", ""); r.status != http.StatusOK {
		t.Errorf("without tokens on this machine: answered %d", r.status)
	}
}
