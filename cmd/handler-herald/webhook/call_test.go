package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/fetch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/phorge-gantry/gantry/tests/recorded"
)

// world is a Phorge with webhooks, and a receiver that they call.
type world struct {
	herald   *sql.DB
	site     *plugins.Site
	receiver *httptest.Server
}

// welcome answers every call with 200.
func welcome(http.ResponseWriter, *http.Request) {}

// openWorld makes one. Its times are those of a database whose clock is params
// if there are any: "timestamp=7".
func openWorld(t *testing.T, serve http.HandlerFunc, params ...string) *world {
	t.Helper()
	_, s := recorded.Open(t, cases)
	w := &world{receiver: httptest.NewServer(serve), site: &plugins.Site{
		Namespace: s.Namespace(), DSNs: map[string]string{},
		Options: map[string]json.RawMessage{optionBlacklist: json.RawMessage("[]")},
	}}
	t.Cleanup(w.receiver.Close)
	applications, _ := Handler().Needs()
	for _, application := range applications {
		w.site.DSNs[application] = s.DSN(application)
	}
	if len(params) > 0 {
		dsn := w.site.DSNs["herald"]
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		w.site.DSNs["herald"] = dsn + separator + strings.Join(params, "&")
	}
	t.Cleanup(func() { w.site.Close() })
	w.herald = harness.Open(t, s.DSN("herald"))
	w.insert(t, harness.Open(t, s.DSN("maniphest")), `INSERT INTO maniphest_task (phid, authorPHID, status, priority, title, description, dateCreated, dateModified,
		mailKey, subpriority, viewPolicy, editPolicy, properties, subtype) VALUES ('PHID-TASK-1', '', 'open', 0, '', '', 0, 0, '', 0, '', '', '[]', '')`)
	for _, hook := range []string{"one", "two"} {
		w.insert(t, w.herald, `INSERT INTO herald_webhook (phid, name, webhookURI, viewPolicy, editPolicy, status, hmacKey, dateCreated, dateModified)
			VALUES (?, '', ?, '', '', 'enabled', 'key', 0, 0)`, hook, w.receiver.URL+"/"+hook)
	}
	return w
}

func (w *world) insert(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// queue adds a request of a webhook.
func (w *world) queue(t *testing.T, phid, hook string) {
	t.Helper()
	w.insert(t, w.herald, `INSERT INTO herald_webhookrequest (phid, webhookPHID, objectPHID, status, properties, lastRequestResult, lastRequestEpoch, dateCreated, dateModified)
		VALUES (?, ?, 'PHID-TASK-1', 'queued', '{"retry":"forever"}', 'none', 0, 5, 5)`, phid, hook)
}

// run executes the task of a request.
func (w *world) run(ctx context.Context, phid string) tasks.Outcome {
	return Handler().ExecuteAt(ctx, w.site, tasks.Task{ID: 1, Class: "HeraldWebhookWorker", Data: []byte(`{"webhookRequestPHID":"` + phid + `"}`)}, nil)
}

// within does something with a request in place of the handler.
func (w *world) within(t *testing.T, phid string, do func(context.Context, *request) error) tasks.Outcome {
	t.Helper()
	h := Handler()
	h.Handle = func(ctx context.Context, task *plugins.Task) error {
		r, err := load(ctx, task, phid)
		if err != nil {
			return err
		}
		return do(ctx, r)
	}
	return h.ExecuteAt(t.Context(), w.site, tasks.Task{ID: 1}, nil)
}

// row answers the columns of a request that a call changes.
func (w *world) row(t *testing.T, phid string) (status, result string, called, modified int64) {
	t.Helper()
	err := w.herald.QueryRowContext(t.Context(), "SELECT status, lastRequestResult, lastRequestEpoch, dateModified FROM herald_webhookrequest WHERE phid = ?", phid).
		Scan(&status, &result, &called, &modified)
	if err != nil {
		t.Fatal(err)
	}
	return status, result, called, modified
}

func TestB46AResultIsSavedWhenTheTaskIsCancelledMeanwhile(t *testing.T) {
	w := openWorld(t, welcome)
	w.queue(t, "r", "one")
	outcome := w.within(t, "r", func(ctx context.Context, r *request) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel() // between the response and the write
		return r.settle(ctx, fetch.Status{Kind: fetch.HTTP, Code: 200})
	})
	if status, result, _, _ := w.row(t, "r"); status != "sent" || result != "okay" || outcome.Kind != tasks.Succeeded {
		t.Errorf("the request is %s, %s, and the task %+v", status, result, outcome)
	}
}

func TestB46ACallThatIsCancelledStoresNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := openWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server see the connection end
		cancel()
		<-r.Context().Done()
	})
	w.queue(t, "r", "one")
	outcome := w.run(ctx, "r")
	if status, result, called, _ := w.row(t, "r"); status != "queued" || result != "none" || called != 0 || outcome.Kind != tasks.Retry {
		t.Errorf("the request is %s, %s, called at %d, and the task %+v", status, result, called, outcome)
	}
}

// A task found its request queued, and waited for the lock while another one
// called.
func TestB46TwoTasksOfARequestCallOnce(t *testing.T) {
	var calls atomic.Int64
	w := openWorld(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	w.queue(t, "r", "one")
	outcome := w.within(t, "r", func(ctx context.Context, r *request) error {
		checked, err := check(ctx, r.task, r.hook.uri)
		if err != nil {
			return err
		}
		if first := w.run(ctx, "r"); first.Kind != tasks.Succeeded {
			t.Errorf("the first task: %+v", first)
		}
		return r.call(ctx, checked, nil)
	})
	if calls.Load() != 1 || outcome.Kind != tasks.Failed || !strings.Contains(outcome.Reason, `"sent"`) {
		t.Errorf("%d calls, and the second task %+v", calls.Load(), outcome)
	}
}

func TestOneCallGoesToAWebhookAtATimeAndOthersDoNotWait(t *testing.T) {
	var mu sync.Mutex
	under, most, calls := map[string]int{}, 0, 0
	both := make(chan struct{}) // closed when both webhooks are called
	w := openWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		under[r.URL.Path]++
		most = max(most, under[r.URL.Path])
		if calls++; calls == 2 {
			close(both)
		}
		mu.Unlock()
		<-both
		mu.Lock()
		under[r.URL.Path]--
		mu.Unlock()
	})
	names := "abcdefghijklmnop"
	var running sync.WaitGroup
	outcomes := make([]tasks.Outcome, len(names))
	for i, name := range strings.Split(names, "") {
		hook := []string{"one", "two"}[i%2]
		w.queue(t, name, hook)
		running.Go(func() {
			for outcomes[i] = w.run(t.Context(), name); outcomes[i].Kind == tasks.Yielded; outcomes[i] = w.run(t.Context(), name) {
				if outcomes[i].Wait != lockWait {
					t.Errorf("a task waits for %v", outcomes[i].Wait)
				}
			}
		})
	}
	running.Wait()
	for i, outcome := range outcomes {
		if outcome.Kind != tasks.Succeeded {
			t.Errorf("task %d: %+v", i, outcome)
		}
	}
	if most != 1 || calls != len(names) {
		t.Errorf("%d calls to a webhook at a time, %d in all", most, calls)
	}
}

func TestTimesAreThoseOfTheDatabase(t *testing.T) {
	w := openWorld(t, welcome, "timestamp=1234567")
	w.queue(t, "r", "one")
	w.run(t.Context(), "r")
	if _, _, called, modified := w.row(t, "r"); called != 1234567 || modified != 1234567 {
		t.Errorf("called at %d, modified at %d", called, modified)
	}
}

func TestWhereNobodySetABlacklistItIsThatOfPhorge(t *testing.T) {
	w := openWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("the webhook was called") })
	w.site.Options = nil
	w.queue(t, "r", "one")
	outcome := w.run(t.Context(), "r")
	if status, _, _, _ := w.row(t, "r"); status != "failed" || outcome.Kind != tasks.Failed || !strings.Contains(outcome.Reason, "blacklisted") {
		t.Errorf("the request is %s, and the task %+v", status, outcome)
	}
}

func TestAReasonHoldsNothingOfAURIThatMayBeSecret(t *testing.T) {
	w := openWorld(t, func(response http.ResponseWriter, _ *http.Request) { response.WriteHeader(500) })
	w.site.Options[optionBlacklist] = json.RawMessage(`["10.0.0.0/8"]`)
	_, port, _ := strings.Cut(w.receiver.Listener.Addr().String(), ":")
	for i, uri := range []string{
		"http://s3cret:s3cret@127.0.0.1:" + port + "/hook?token=s3cret#s3cret",
		"http://127.0.0.1:" + port + "/s3cret",
		"http://s3cret@127.0.0.1:" + port + "?s3cret",
		"http://s3cret:s3cret@127.0.0.1:1/s3cret",
		"http://s3cret:s3cret@10.1.2.3/hook?token=s3cret",
		"http://s3cret:s3cret@nowhere.invalid/s3cret",
		"http://s3cret:s3cret@127.0.0.1:99999/s3cret",
		"http://s3cret#:s3cret@127.0.0.1/",
		"https://s3cret:s3cret@[::1]/s3cret",
		"http://s3cret:s3cret@/s3cret",
		"http:///s3cret",
		"http:s3cret",
		"http://s3cret:%zz@127.0.0.1:" + port + "/",
		"http://s3cret:s3cret@127.0.0.1:" + port + "/ s3cret",
		"ftp://s3cret:s3cret@example.com/s3cret",
		"s3cret",
	} {
		phid := "r" + strconv.Itoa(i)
		w.insert(t, w.herald, "UPDATE herald_webhook SET webhookURI = ?", uri)
		w.queue(t, phid, "one")
		if outcome := w.run(t.Context(), phid); outcome.Kind == tasks.Succeeded || strings.Contains(outcome.Reason, "s3cret") {
			t.Errorf("%s: %+v", uri, outcome)
		}
		if _, err := w.herald.Exec("DELETE FROM herald_webhookrequest"); err != nil {
			t.Fatal(err)
		}
	}
}
