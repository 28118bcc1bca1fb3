package queueapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// broken is a store that answers an error to everything.
type broken struct {
	tasks.Service
	err error
}

func (b broken) Enqueue(context.Context, []tasks.NewTask) ([]int64, error) { return nil, b.err }
func (b broken) EnqueueOnce(context.Context, tasks.Once, []tasks.NewTask) ([]int64, bool, error) {
	return nil, false, b.err
}
func (b broken) LeaseFor(context.Context, string, tasks.LeaseRequest) ([]tasks.Task, error) {
	return nil, b.err
}
func (b broken) SettleLive(context.Context, []tasks.Settlement) ([]tasks.Settled, error) {
	return nil, b.err
}
func (b broken) Renew(context.Context, []tasks.Renewal) ([]tasks.Renewed, error)  { return nil, b.err }
func (b broken) Cancel(context.Context, []int64) ([]tasks.Changed, error)         { return nil, b.err }
func (b broken) Awaken(context.Context, []int64) (int, error)                     { return 0, b.err }
func (b broken) Get(context.Context, int64) (tasks.Record, error)                 { return tasks.Record{}, b.err }
func (b broken) List(context.Context, tasks.Filter) (tasks.Page, error)           { return tasks.Page{}, b.err }
func (b broken) Stats(context.Context) (tasks.Stats, error)                       { return tasks.Stats{}, b.err }
func (b broken) CountArchived(context.Context) (c tasks.ArchivedCount, err error) { return c, b.err }
func (b broken) Ready(context.Context) error                                      { return b.err }

// everyCall is a call of each route that asks the store.
var everyCall = []struct{ method, path, body string }{
	{"POST", "enqueue", `{"taskClass":"A","data":"1"}`},
	{"POST", "enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"A","data":"1"}]`},
	{"POST", "lease", `{}`},
	{"POST", "lease", `{"wait":1}`},
	{"POST", "complete", `{"taskID":1,"fence":1}`},
	{"POST", "complete", `{"taskID":1}`},
	{"POST", "fail", `{"taskID":1,"fence":1}`},
	{"POST", "yield", `{"taskID":1,"fence":1}`},
	{"POST", "renew", `{"taskID":1,"fence":1}`},
	{"POST", "settle", `{"settlements":[{"taskID":1,"fence":1,"outcome":"complete"}]}`},
	{"POST", "finalize", `{"taskID":1,"leaseOwner":"w","leaseExpires":9,"duration":1}`},
	{"POST", "resolve", `{"taskID":1,"leaseOwner":"w","leaseExpires":9,"outcome":"failure"}`},
	{"POST", "enqueue-event", `{"eventID":"e","task":{"taskClass":"A","data":"1"}}`},
	{"POST", "cancel", `{"taskID":1}`},
	{"POST", "awaken", `{"taskIDs":[1]}`},
	{"GET", "stats", ""},
	{"GET", "tasks", ""},
	{"GET", "tasks?offset=3", ""},
	{"GET", "tasks/1", ""},
}

func TestB41WhatTheStoreCannotDoIsAnErrorThatTellsNothingOfTheInside(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: %w", tasks.ErrUnavailable, errSecret), http.StatusServiceUnavailable, "ERR_UNAVAILABLE"},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, errSecret), http.StatusServiceUnavailable, "ERR_UNAVAILABLE"},
		{fmt.Errorf("%w: %w", tasks.ErrInvalid, errSecret), http.StatusBadRequest, "ERR_BAD_REQUEST"},
		{fmt.Errorf("%w: %w", tasks.ErrTooLarge, errSecret), http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE"},
		{fmt.Errorf("%w: %w", tasks.ErrArchived, errSecret), http.StatusConflict, "ERR_CONFLICT"},
		{errSecret, http.StatusInternalServerError, "ERR_INTERNAL"},
	} {
		s := serve(t, openMemory(t), func(config *queueapi.Config) {
			config.Instances = map[string]queueapi.Instance{"main": {Store: broken{config.Instances["main"].Store, c.err}}}
		})
		for _, call := range everyCall {
			r := s.send(call.method, "/api/queue/"+call.path, call.body, owner("w"), header{"Idempotency-Key", "k"})
			s.refused(r, c.status, c.code)
			s.hidden(r)
			if got := r.header.Get("Retry-After"); (got == "1") != (c.status == http.StatusServiceUnavailable) {
				t.Errorf("%s answered %d with Retry-After %q", call.path, r.status, got)
			}
		}
		r := s.send("GET", "/readyz", "")
		s.same("ready", []any{r.status, strings.TrimSpace(r.body)}, []any{503, `{"status":"unavailable"}`})
		s.same("alive", s.send("GET", "/healthz", "").status, 200)
		if !strings.Contains(s.logs.String(), "db.internal") {
			t.Error("the log does not say why")
		}
	}
}

func TestB41EverythingUnderAPIKeepsTheEnvelope(t *testing.T) {
	s := serve(t, openMemory(t))
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/api", 404, "ERR_NOT_FOUND"},
		{"GET", "/api/", 404, "ERR_NOT_FOUND"},
		{"POST", "/api/queue", 404, "ERR_NOT_FOUND"},
		{"POST", "/api//queue/lease", 404, "ERR_NOT_FOUND"},
		{"POST", "/api/queue/lease/", 404, "ERR_NOT_FOUND"},
		{"POST", "/api/queue/../queue/lease", 404, "ERR_NOT_FOUND"},
		{"GET", "/api/queue/tasks/", 404, "ERR_NOT_FOUND"},
		{"GET", "/api/queue/tasks/1/2", 404, "ERR_NOT_FOUND"},
		{"GET", "/api/queue/tasks/-1", 400, "ERR_BAD_REQUEST"},
		{"GET", "/api/queue/tasks/99999999999999999999", 400, "ERR_BAD_REQUEST"},
		{"GET", "/index.php", 404, "ERR_NOT_FOUND"},
		{"GET", "/api/queue/lease", 405, "ERR_BAD_REQUEST"},
		{"DELETE", "/api/queue/tasks/1", 405, "ERR_BAD_REQUEST"},
		{"POST", "/healthz", 405, "ERR_BAD_REQUEST"},
	} {
		r := s.send(c.method, c.path, "")
		s.refused(r, c.status, c.code)
		if c.status == 405 && r.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if r := s.send("HEAD", "/healthz", ""); r.status != 200 || r.body != "" {
		t.Errorf("HEAD answered %d %q", r.status, r.body)
	}
}

func TestB42OnlyPlainJSONIsTaken(t *testing.T) {
	s := serve(t, openMemory(t))
	good := `{"taskClass":"A","data":"\"+&=% 😀\""}`
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body    string
		headers []header
	}{
		{zipped.String(), []header{{"Content-Encoding", "gzip"}}},
		{zipped.String(), nil},
		{"taskClass=A&data=1", []header{{"Content-Type", "application/x-www-form-urlencoded"}}},
		{good, []header{{"Content-Type", "text/plain"}}},
		{good, []header{{"Content-Type", "application/x-www-form-urlencoded"}}},
		{`{"taskClass":"A","data":True}`, nil},
		{`{"taskClass":"A","data":"1"} {}`, nil},
		{`{"taskClass":"A","data":"1",}`, nil},
		{"\ufeff" + good, nil},
	} {
		s.refused(s.post("enqueue", c.body, c.headers...), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}
	s.ok(s.post("enqueue", good, header{"Content-Type", "application/json; charset=utf-8"}, header{"Content-Encoding", "identity"}))
	s.same("data", s.task(1).Data, `"+&=% 😀"`)
}

func TestFieldsThatMeanNothingAreNamed(t *testing.T) {
	s := serve(t, openMemory(t))
	for body, word := range map[string]string{
		`{"taskClass":"A","data":"1","delay_until":9}`:   "delay_until",
		`{"taskClass":"A","data":1}`:                     "data",
		`{"taskClass":"A","data":"1","priority":1.5}`:    "1.5",
		`{"taskClass":"A","data":"1","priority":"high"}`: "high",
		`{"taskClass":"A","data":"1","priority":-1}`:     "priority",
		`{"taskClass":"A","data":"1","delayUntil":1e99}`: "1e99",
		`"A"`: "string",
	} {
		r := s.post("enqueue", body)
		s.refused(r, http.StatusBadRequest, "ERR_BAD_REQUEST")
		if !strings.Contains(r.Error.Message, word) {
			t.Errorf("%s: the answer does not name %s: %s", body, word, r.Error.Message)
		}
	}
	for path, body := range map[string]string{
		"complete": `{"taskID":1,"fence":1,"retryWait":1}`, "fail": `{"taskID":1,"fence":1,"duration":1}`,
		"yield": `{"taskID":1,"fence":1,"message":"x"}`, "renew": `{"taskID":1,"fence":1,"duration":0}`,
		"cancel": `{}`, "awaken": `{"taskIDs":[0]}`, "lease": `{"limit":0}`,
	} {
		s.refused(s.post(path, body, owner("w")), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}
	s.refused(s.post("complete", `{"taskID":1,"fence":0}`, owner("w")), http.StatusBadRequest, "ERR_BAD_REQUEST")
	s.refused(s.post("fail", `{"taskID":1,"fence":1,"outcome":"fail"}`, owner("w")), http.StatusBadRequest, "ERR_BAD_REQUEST")
}

func TestLimitsOfListsAre413(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) { c.MaxTasks = 2 })
	three := `{"taskClass":"A","data":"1"},{"taskClass":"A","data":"1"},{"taskClass":"A","data":"1"}`
	for path, body := range map[string]string{
		"enqueue": "[" + three + "]", "complete": `{"taskID":1,"fence":1,"followups":[` + three + `]}`,
		"settle": `{"settlements":[1,2,3]}`, "awaken": `{"taskIDs":[1,2,3]}`,
	} {
		s.refused(s.post(path, body, owner("w")), http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
	}
}

// The bodies of many calls together are bounded.
func TestBodiesTogetherAreBounded(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) { c.MaxBody, c.MaxBodies = 1000, 500 })
	r := s.post("enqueue", `{"taskClass":"A","data":"\"`+strings.Repeat("x", 600)+`\""}`)
	s.refused(r, http.StatusServiceUnavailable, "ERR_UNAVAILABLE")
	for range 20 { // what was counted is given back
		s.queue("[]")
	}
}

// panicking is a store that panics.
type panicking struct{ tasks.Service }

func (panicking) Get(context.Context, int64) (tasks.Record, error) { panic(errSecret) }

func TestAPanicIsOneInternalErrorAndTheNextCallWorks(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) {
		c.Instances = map[string]queueapi.Instance{"main": {Store: panicking{c.Instances["main"].Store}}}
	})
	r := s.get("tasks/1")
	s.refused(r, http.StatusInternalServerError, "ERR_INTERNAL")
	s.hidden(r)
	s.queue("[]")
	if !strings.Contains(s.logs.String(), "faults_test.go") {
		t.Error("the log does not say where")
	}
}

// counting is a store that counts its commits and lets the first one wait.
type counting struct {
	tasks.Service
	commits atomic.Int64
	begun   chan struct{}
	may     chan struct{}
}

func (c *counting) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if c.commits.Add(1) == 1 {
		close(c.begun)
		<-c.may
	}
	for _, n := range news {
		if n.Class == "Refused" {
			return nil, fmt.Errorf("%w: %w", tasks.ErrTooLarge, &tasks.SizeError{Size: 9, Limit: 8})
		}
	}
	return c.Service.Enqueue(ctx, news)
}

func TestEnqueuesThatArriveDuringACommitShareTheNextOne(t *testing.T) {
	c := &counting{begun: make(chan struct{}), may: make(chan struct{})}
	s := serve(t, openMemory(t), func(config *queueapi.Config) {
		c.Service = config.Instances["main"].Store
		config.Instances = map[string]queueapi.Instance{"main": {Store: c}}
	})
	const calls = 16
	answers := make([]reply, calls+1)
	var all sync.WaitGroup
	all.Go(func() { answers[calls] = s.post("enqueue", `{"taskClass":"A","data":"\"first\""}`) })
	<-c.begun
	for i := range calls {
		all.Go(func() { answers[i] = s.post("enqueue", fmt.Sprintf(`{"taskClass":"A","data":"%d"}`, i)) })
	}
	s.eventually(func() bool { return s.api.Gathered() == calls })
	close(c.may)
	all.Wait()
	seen := map[int64]bool{}
	for i, answer := range answers {
		id := read[task](s, answer).ID
		want := fmt.Sprint(i)
		if i == calls {
			want = `"first"`
		}
		s.same("data", s.task(id).Data, want)
		seen[id] = true
	}
	s.same("tasks and commits", []int64{int64(len(seen)), c.commits.Load()}, []int64{calls + 1, 2})
}

func TestOneTaskThatTheStoreRefusesRefusesNoOther(t *testing.T) {
	c := &counting{begun: make(chan struct{}), may: make(chan struct{})}
	s := serve(t, openMemory(t), func(config *queueapi.Config) {
		c.Service = config.Instances["main"].Store
		config.Instances = map[string]queueapi.Instance{"main": {Store: c}}
	})
	var all sync.WaitGroup
	var first, good, bad reply
	all.Go(func() { first = s.post("enqueue", `{"taskClass":"A","data":"1"}`) })
	<-c.begun
	all.Go(func() { good = s.post("enqueue", `{"taskClass":"A","data":"2"}`) })
	all.Go(func() { bad = s.post("enqueue", `{"taskClass":"Refused","data":"3"}`) })
	s.eventually(func() bool { return s.api.Gathered() == 2 })
	close(c.may)
	all.Wait()
	s.ok(first)
	s.ok(good)
	s.refused(bad, http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
	if !strings.Contains(bad.Error.Message, "8") {
		t.Errorf("B22: the limit is not named: %s", bad.Error.Message)
	}
	active, _ := s.rows()
	s.same("rows", active, 2)
}

// timeless is a store whose clock cannot be read.
type timeless struct{ tasks.Service }

func (timeless) Now(context.Context) (int64, error) { return 0, tasks.ErrUnavailable }

// Whoever is told that its task was not queued queues it again.
func TestWhatIsQueuedIsAnsweredAlsoWhenTheStoreDoesNotSayWhatTimeItIs(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) {
		c.Instances = map[string]queueapi.Instance{"main": {Store: timeless{c.Instances["main"].Store}}}
	})
	one := `{"taskClass":"A","data":"1"}`
	s.same("the id", read[task](s, s.post("enqueue", one)).ID, 1)
	s.same("the id", read[task](s, s.post("enqueue", one, header{"Idempotency-Key", "k"})).ID, 2)
	s.same("the id", read[task](s, s.post("enqueue-event", `{"eventID":"e","task":`+one+`}`)).ID, 3)
}

func TestDataThatIsNoTextIsShownAsBase64(t *testing.T) {
	s := serve(t, openMemory(t))
	id, err := s.hands.Insert(tasks.Task{Class: "A", Data: []byte("{\"p\":\"\x83\x65\"}"), Priority: 2000})
	if err != nil {
		t.Fatal(err)
	}
	leased := s.take("w", id)
	s.same("B18: data", []any{leased.Data, leased.DataEncoding}, []any{"eyJwIjoig2UifQ==", "base64"})
	if id, err = s.hands.Insert(tasks.Task{Class: "A", Priority: 2000}); err != nil {
		t.Fatal(err)
	}
	s.same("no data", s.take("w", id).Data, nil)
}

// An answer that the document does not describe must be seen, or the other
// tests prove nothing of it.
func TestAnswersThatAreNotDescribedAreSeen(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/api/queue/stats", 200, `{"data":{}}`},
		{"GET", "/api/queue/tasks", 200, `{"data":[{"id":1}]}`},
		{"GET", "/api/queue/tasks/7", 200, `{"data":{"id":7,"surprise":1}}`},
		{"GET", "/api/queue/tasks", 200, `{"data":null}`},
		{"POST", "/api/queue/fail", 200, `{"data":{"status":"no"}}`},
		{"POST", "/api/queue/fail", 204, `{}`},
		{"POST", "/api/queue/fail", 400, `{"error":{"code":"ERR_OTHER","message":"x"}}`},
		{"POST", "/api/queue/nothing", 404, `{"data":{}}`},
		{"GET", "/healthz", 503, `{"status":"ok"}`},
	} {
		if documented(c.method, c.path, c.status, []byte(c.body)) == nil {
			t.Errorf("%s %s %d %s passes", c.method, c.path, c.status, c.body)
		}
	}
}

// locked is a store in which somebody has every row locked, so that an expired
// lease stays as it is.
type locked struct{ tasks.Service }

func (locked) Renew(_ context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	return []tasks.Renewed{{ID: renewals[0].ID, Expires: 1, Revived: true}}, nil
}

func TestALeaseThatCouldNotBeExtendedIsNotCalledRenewed(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) {
		c.Instances = map[string]queueapi.Instance{"main": {Store: locked{c.Instances["main"].Store}}}
	})
	s.refused(s.post("renew", held(s.hold("w")), owner("w")), http.StatusServiceUnavailable, "ERR_UNAVAILABLE")
}

func TestTasksThatAreTooYoungAreNotLeased(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) {
		c.Instances = map[string]queueapi.Instance{"main": {Store: c.Instances["main"].Store, PickupDelay: time.Second}}
	})
	s.queue("[]")
	s.same("leased", len(s.lease("w", 1)), 0)
}

// A list of a million numbers has two bytes for each.
func TestABodyOfCountlessValuesIsRefusedBeforeItIsRead(t *testing.T) {
	s := serve(t, openMemory(t))
	many := "[" + strings.Repeat("1,", 1<<20) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls := 0
	for path, body := range map[string]string{
		"enqueue": many, "settle": `{"settlements":` + many + `}`, "awaken": `{"taskIDs":` + many + `}`, "complete": `{"taskID":1,"fence":1,"followups":` + many + `}`,
		"lease": `{"taskClasses":` + many + `}`, "yield": `{"taskID":` + strings.Repeat(`1,"taskID":`, 1<<20) + `1}`,
	} {
		s.refused(s.post(path, body, owner("w")), http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
		calls++
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(calls); each > 64<<20 {
		t.Errorf("%d bytes were allocated for a body of two million", each)
	}
	s.ok(s.post("enqueue", text(map[string]any{"taskClass": "A", "data": many})))
	s.same("data", *s.task(1).Data == many, true)
}

// Large bodies that come slowly fill what all bodies may hold, and short ones are
// taken all the same.
func TestShortBodiesAreTakenWhileLargeOnesFillTheRoom(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) { c.MaxBody, c.MaxBodies = 1000, 1000 })
	body, more := io.Pipe()
	slow, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/queue/enqueue", body)
	if err != nil {
		t.Fatal(err)
	}
	slow.Header.Set("Content-Type", "application/json")
	ended := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(slow)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	fmt.Fprintf(more, "%1000s", "")
	s.eventually(func() bool { return s.api.Held() == 1000 })
	s.queue("[]")
	s.refused(s.post("enqueue", `{"taskClass":"A","data":"\"`+strings.Repeat("x", 600)+`\""}`), http.StatusServiceUnavailable, "ERR_UNAVAILABLE")
	more.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a caller writes is quoted to it, and in the log, no longer than a person
// reads.
func TestErrorsQuoteLittleOfABody(t *testing.T) {
	s := serve(t, openMemory(t))
	long := strings.Repeat("9", 100000)
	for _, body := range []string{
		`{"taskID":1,"fence":` + long + `}`, `{"taskID":` + long + `}`, `{"taskID":"` + long + `"}`, `{"` + long + `":1}`,
		`{"taskID":1,"fence":{"` + long + `":1}}`, `{"taskID":1,"followups":[{"priority":` + long + `}]}`, `{"taskID":1,"fence":"` + long + `"}`,
		`{"taskID":1,"fence":1,"followups":[{"data":"1","taskClass":"` + long + `"}]}`,
	} {
		r := s.post("complete", body, owner("w"))
		s.refused(r, http.StatusBadRequest, "ERR_BAD_REQUEST")
		if len(r.body) > 500 {
			t.Errorf("%.40s… was answered %d bytes", body, len(r.body))
		}
	}
	s.refused(s.post("settle", `{"settlements":[{"outcome":"`+long+`"}]}`, owner(long[:1000])), http.StatusBadRequest, "ERR_BAD_REQUEST")
	for line := range strings.Lines(s.logs.String()) {
		if len(line) > 1000 {
			t.Errorf("a line of the log has %d bytes: %.100s…", len(line), line)
		}
	}
}

func TestB42ACallInChunksIsTheLastOnItsConnection(t *testing.T) {
	s := serve(t, openMemory(t), withTokens)
	const second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, token := range map[string]string{"served": secrets["work"], "refused": "none"} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		_, err = io.WriteString(connection, "POST /api/queue/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Service-Token: "+token+
			"\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"+second)
		if err != nil {
			t.Fatal(err)
		}
		answers, _ := io.ReadAll(connection) // the end can be a reset
		if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 || !strings.Contains(string(answers), "Connection: close") {
			t.Errorf("%s: answered %d times: %s", name, n, answers)
		}
	}
	s.ok(s.send("GET", "/healthz", ""))
}

// A filter that is not read is a listing of everything.
func TestAQueryThatCannotBeReadIsRefused(t *testing.T) {
	s := serve(t, openMemory(t))
	for _, query := range []string{"taskClass=A;B", "taskClass=%zz", "cursor=1;limit=1", "taskClass=A&taskClass=B", "limit=1&limit=2", "cursor=1&cursor=2"} {
		s.refused(s.get("tasks?"+query), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}
}
