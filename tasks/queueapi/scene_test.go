package queueapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// subject is an empty queue.
type subject struct {
	tasks.Service
	backend string
	hands   hands
	close   func()
}

// hands is what others do to the queue: storetest.Rows as far as it is needed.
type hands interface {
	Insert(task tasks.Task) (id int64, err error)
	Place(id int64, place tasks.Place) error
	Age(seconds int64) error
}

// scene is a queue behind a served API.
type scene struct {
	*testing.T
	subject
	api  *queueapi.API
	url  string
	logs *logged
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve begins a scene; change changes its configuration.
func serve(t *testing.T, s subject, change ...func(*queueapi.Config)) *scene {
	t.Helper()
	logs := &logged{}
	c := queueapi.Config{
		Instances: map[string]queueapi.Instance{"main": {Store: s.Service, Backend: s.backend}},
		LeaseTime: time.Minute,
		PollEvery: time.Hour, // what wakes a call is a call
		Log:       zerolog.New(logs),
	}
	for _, change := range change {
		change(&c)
	}
	api, err := queueapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(api)
	server.Config = api.Server()
	server.Start()
	t.Cleanup(func() {
		server.Close()
		api.Close()
		s.close()
	})
	return &scene{T: t, subject: s, api: api, url: server.URL, logs: logs}
}

// reply is what a call was answered.
type reply struct {
	status    int
	header    http.Header
	body      string
	Data      json.RawMessage `json:"data"`
	Next      string          `json:"next"`
	Duplicate bool            `json:"duplicate"`
	Error     struct{ Code, Message string }
}

// header is one of a request.
type header [2]string

func owner(name string) header { return header{"X-Lease-Owner", name} }

// send makes a call and holds the answer against the document.
func (s *scene) send(method, path, body string, headers ...header) reply {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		req.Header.Set(h[0], h[1])
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	r := reply{status: response.StatusCode, header: response.Header, body: string(text)}
	if method == http.MethodHead {
		return r
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(text, &r); err != nil {
			s.Fatalf("%s %s answered %.200s: %v", method, path, text, err)
		}
	}
	if err := documented(method, req.URL.Path, response.StatusCode, text); err != nil {
		s.Errorf("%s %s answered %d, which the document does not describe: %v", method, path, response.StatusCode, err)
	}
	return r
}

func (s *scene) post(path, body string, headers ...header) reply {
	s.Helper()
	return s.send(http.MethodPost, "/api/queue/"+path, body, headers...)
}

func (s *scene) get(path string) reply {
	s.Helper()
	return s.send(http.MethodGet, "/api/queue/"+path, "")
}

// ok answers the data of a call that must work.
func (s *scene) ok(r reply) reply {
	s.Helper()
	if r.status != http.StatusOK {
		s.Fatalf("answered %d: %s", r.status, r.body)
	}
	return r
}

// refused checks that a call was refused in this way.
func (s *scene) refused(r reply, status int, code string) {
	s.Helper()
	if r.status != status || r.Error.Code != code {
		s.Fatalf("answered %d %s, want %d %s: %.300s", r.status, r.Error.Code, status, code, r.body)
	}
}

// task is a task as the API shows it.
type task struct {
	ID           int64
	TaskClass    string
	LeaseOwner   *string
	Fence        int64
	LeaseExpires *int64
	FailureCount int
	Priority     int
	Data         *string
	DataEncoding string
	Result       *int
	Duration     int64
	FollowUps    []int64 `json:"followups"`
	Attempts     []struct{ Category, Reason, Route string }
}

func read[V any](s *scene, r reply) (v V) {
	s.Helper()
	if err := json.Unmarshal(s.ok(r).Data, &v); err != nil {
		s.Fatalf("%s: %v", r.body, err)
	}
	return v
}

func (s *scene) task(id int64) task {
	s.Helper()
	return read[task](s, s.get(fmt.Sprintf("tasks/%d", id)))
}

// queue queues a task of class A with data.
func (s *scene) queue(data string) int64 {
	s.Helper()
	return read[task](s, s.post("enqueue", text(map[string]any{"taskClass": "A", "data": data}))).ID
}

// hold queues a task and leases it.
func (s *scene) hold(name string) task {
	s.Helper()
	return s.take(name, s.queue("[]"))
}

// take leases the one task that is due. A store may overlook for a while what
// changed behind its back.
func (s *scene) take(name string, id int64) task {
	s.Helper()
	var leased []task
	s.eventually(func() bool {
		leased = s.lease(name, 1)
		return len(leased) > 0
	})
	if len(leased) != 1 || leased[0].ID != id {
		s.Fatalf("leased %+v, want task %d alone", leased, id)
	}
	return leased[0]
}

func (s *scene) eventually(holds func() bool) {
	s.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			s.Fatal("not within 30 seconds")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// at checks that an epoch lies so many seconds after now, which was read before.
func (s *scene) at(what string, epoch *int64, now, seconds int64) {
	s.Helper()
	if epoch == nil || *epoch < now+seconds || *epoch > s.now()+seconds {
		s.Fatalf("%s is %s, want %d seconds after %d", what, text(epoch), seconds, now)
	}
}

func (s *scene) now() int64 {
	s.Helper()
	now, err := s.Now(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return now
}

func (s *scene) lease(name string, limit int) []task {
	s.Helper()
	return read[[]task](s, s.post("lease", fmt.Sprintf(`{"limit":%d}`, limit), owner(name)))
}

func (s *scene) age(seconds int64) {
	s.Helper()
	if err := s.hands.Age(seconds); err != nil {
		s.Fatal(err)
	}
}

// held is the body that names a lease.
func held(t task, more ...string) string {
	return fmt.Sprintf(`{"taskID":%d,"fence":%d%s}`, t.ID, t.Fence, strings.Join(append([]string{""}, more...), ","))
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (s *scene) same(what string, got, want any) {
	s.Helper()
	if g, w := text(got), text(want); g != w {
		s.Fatalf("%s is %s, want %s", what, g, w)
	}
}

// rows answers how many active and archived tasks there are.
func (s *scene) rows() (active, archived int) {
	s.Helper()
	return len(read[[]task](s, s.get("tasks?limit=1000"))), len(read[[]task](s, s.get("tasks?limit=1000&state=archived")))
}

func idsOf(list []task) []int64 {
	ids := []int64{}
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	return ids
}

// leaks fails a test that leaves goroutines behind, apart from those of the
// database.
func leaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t,
			goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
			goleak.IgnoreAnyFunction("github.com/phorge-gantry/gantry/contract/scratch.(*Process).supervise"))
	})
}
