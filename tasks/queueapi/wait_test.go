package queueapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// watched is a store that tells of every lease call that found nothing.
type watched struct {
	tasks.Service
	empty chan string
}

func watch(s *subject) *watched {
	w := &watched{Service: s.Service, empty: make(chan string, 1000)}
	s.Service = w
	return w
}

func (w *watched) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	leased, err := w.Service.LeaseFor(ctx, name, req)
	if len(leased) == 0 {
		w.empty <- name
	}
	return leased, err
}

// waits returns when so many calls wait: each looks twice before it does.
func (w *watched) waits(calls int) {
	for range 2 * calls {
		<-w.empty
	}
}

// waiting begins a lease call that waits.
func (s *scene) waiting(name, classes string) <-chan reply {
	answers := make(chan reply, 1)
	go func() { answers <- s.post("lease", `{"limit":1,"wait":30,"taskClasses":[`+classes+`]}`, owner(name)) }()
	return answers
}

func TestAWaitingLeaseIsWokenByAnEnqueue(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	w := watch(&subject)
	s := serve(t, subject)
	a := s.waiting("a", `"A"`)
	w.waits(1)
	b := s.waiting("b", `"B"`)
	w.waits(1)
	s.ok(s.post("enqueue", `{"taskClass":"B","data":"1"}`))
	s.same("who waits for B", read[[]task](s, <-b)[0].LeaseOwner, "b")
	s.ok(s.post("enqueue", `{"taskClass":"A","data":"1"}`, header{"Idempotency-Key", "k"}))
	s.same("who waits for A", read[[]task](s, <-a)[0].LeaseOwner, "a")
}

func TestAWaitingLeaseIsWokenByFollowUpsAndByAwakening(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	w := watch(&subject)
	s := serve(t, subject)
	first, yielded := s.hold("w"), s.hold("w")
	s.ok(s.post("yield", held(yielded), owner("w")))
	a := s.waiting("a", "")
	w.waits(1)
	s.ok(s.post("complete", held(first, `"followups":[{"taskClass":"B","data":"1"}]`), owner("w")))
	s.same("leased", read[[]task](s, <-a)[0].TaskClass, "B")
	b := s.waiting("b", "")
	w.waits(1)
	s.ok(s.post("awaken", fmt.Sprintf(`{"taskIDs":[%d]}`, yielded.ID)))
	s.same("leased", read[[]task](s, <-b)[0].ID, yielded.ID)
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	leaks(t)
	s := serve(t, openMemory(t))
	s.same("leased", s.ok(s.post("lease", `{"wait":1}`, owner("w"))).Data, []int{})
	for _, wait := range []string{"-1", "31", "1e9"} {
		s.refused(s.post("lease", `{"wait":`+wait+`}`, owner("w")), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}
}

// The calls may take fifteen seconds to end, and the wait is for thirty.
func TestB44AWaitEndsWhenTheServerShutsDown(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	w := watch(&subject)
	c := queueapi.Config{Instances: map[string]queueapi.Instance{"main": {Store: subject.Service}}, PollEvery: time.Hour}
	api, err := queueapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := api.Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	late, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	go func() { ended <- api.Serve(ctx, late, listener) }()
	s := &scene{T: t, api: api, url: "http://" + listener.Addr().String()}
	answer := s.waiting("a", "")
	w.waits(1)
	stop()
	s.same("leased", s.ok(<-answer).Data, []int{})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMoreWaitsThanAllowedAreRefused(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	w := watch(&subject)
	s := serve(t, subject, func(c *queueapi.Config) { c.MaxWaiters = 2 })
	a, b := s.waiting("a", ""), s.waiting("b", "")
	w.waits(2)
	r := s.post("lease", `{"wait":30}`, owner("c"))
	s.refused(r, http.StatusServiceUnavailable, "ERR_UNAVAILABLE")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
	s.same("without wait", s.ok(s.post("lease", `{}`, owner("c"))).Data, []int{})
	s.ok(s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"A","data":"1"}]`))
	s.same("leased", []int{len(read[[]task](s, <-a)), len(read[[]task](s, <-b))}, []int{1, 1})
}

// request writes a lease call that waits, on a connection of its own.
func (s *scene) request(body string) net.Conn {
	s.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /api/queue/lease HTTP/1.1\r\nHost: localhost\r\nX-Lease-Owner: gone\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		s.Fatal(err)
	}
	return conn
}

func TestAWaitEndsWithItsClientAndTheNextOneGetsTheTask(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	w := watch(&subject)
	s := serve(t, subject)
	gone := s.request(`{"wait":30}`)
	w.waits(1)
	stays := s.waiting("stays", "")
	w.waits(1)
	gone.Close()
	s.eventually(func() bool { return strings.Contains(s.logs.String(), "the client went away") })
	s.ok(s.post("enqueue", `{"taskClass":"A","data":"1"}`))
	s.same("leased", read[[]task](s, <-stays)[0].LeaseOwner, "stays")
}

// heldBack is a store whose lease calls end when they may.
type heldBack struct {
	tasks.Service
	asked, release chan struct{}
}

func (h *heldBack) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	h.asked <- struct{}{}
	<-h.release
	return h.Service.LeaseFor(ctx, name, req)
}

func TestLeasesOfAClientThatWentAwayAreGivenBack(t *testing.T) {
	leaks(t)
	subject := openMemory(t)
	slow := &heldBack{subject.Service, make(chan struct{}), make(chan struct{})}
	s := serve(t, subject, func(c *queueapi.Config) { c.Instances = map[string]queueapi.Instance{"main": {Store: slow}} })
	id := s.queue("[]")
	seen, served := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(seen) })
		s.api.ServeHTTP(w, r)
		close(served)
	}))
	defer server.Close()
	s.url = server.URL
	conn := s.request(`{}`)
	<-slow.asked
	conn.Close()
	<-seen
	slow.release <- struct{}{}
	<-served
	record, err := s.Get(t.Context(), id)
	if err != nil || record.Owner != nil || record.Expires != nil {
		t.Errorf("the task is at %s (%v), want the place it was leased from", text(record.Place), err)
	}
}

func TestAWaitOutlivesTheTimeForItsBody(t *testing.T) {
	leaks(t)
	s := serve(t, openMemory(t))
	server := httptest.NewUnstartedServer(s.api)
	server.Config = s.api.Server()
	server.Config.ReadTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	s.url = server.URL
	s.same("leased after a second", s.ok(s.post("lease", `{"wait":1}`, owner("w"))).Data, []int{})
}

func TestABodyThatDoesNotComeEndsTheCall(t *testing.T) {
	leaks(t)
	s := serve(t, openMemory(t))
	server := httptest.NewUnstartedServer(s.api)
	server.Config = s.api.Server()
	server.Config.ReadTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/queue/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	answer, err := io.ReadAll(conn) // until the server closes it
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "did not arrive whole") {
		t.Errorf("answered %q, %v", answer, err)
	}
}

func TestEveryStageOfACallHasATimeout(t *testing.T) {
	s := serve(t, openMemory(t))
	server := s.api.Server()
	for name, timeout := range map[string]time.Duration{
		"ReadHeaderTimeout": server.ReadHeaderTimeout, "ReadTimeout": server.ReadTimeout, "WriteTimeout": server.WriteTimeout, "IdleTimeout": server.IdleTimeout,
	} {
		if timeout <= 0 {
			t.Errorf("%s is %s", name, timeout)
		}
	}
	if server.WriteTimeout < server.ReadTimeout+s.api.MaxWait+s.api.StoreTimeout || server.MaxHeaderBytes == 0 {
		t.Errorf("WriteTimeout is %s, MaxHeaderBytes %d", server.WriteTimeout, server.MaxHeaderBytes)
	}
}
