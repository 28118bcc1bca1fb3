package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// ground is the Phorge on which the same work is done by one route after
// another: served over HTTP, with people, hooks and recorded mail. The tests
// share it.
type ground struct {
	*harness.Phorge
	web      *harness.Web
	world    harness.World
	receiver *receiver
	keys     [2]harness.Key
	prepare  func() error // gives the Phorge the configuration of the ground
}

// allowed are the classes that run over Conduit here.
var allowed = []string{
	"AcmeNoSuchWorker",
	"FeedPublisherHTTPWorker",
	"FeedPublisherWorker",
	"FeedPushWorker",
	"FileDeletionWorker",
	"GantryLiveOddWorker",
	"HeraldWebhookWorker",
	"PhabricatorApplicationTransactionPublishWorker",
	"PhabricatorMetaMTAWorker",
	"PhabricatorRebuildIndexesWorker",
	"PhabricatorSearchWorker",
	"PhabricatorTestWorker",
	"PhabricatorUser",
	"PhabricatorWorker",
	harness.LiveWorker,
}

var shared struct {
	sync.Once
	ground *ground
	err    error
}

// children is how many requests php-fpm serves at the same time.
const children = 4

// newGround answers the shared ground with an empty queue.
func newGround(t *testing.T) *ground {
	t.Helper()
	p := harness.Live(t)
	shared.Do(func() { shared.ground, shared.err = prepareGround(p) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	g := shared.ground
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	g.receiver.answer(http.StatusOK)
	// Refusals and daemons of the tests before do not count.
	q := openQueue(t, p)
	q.exec(t, "DELETE FROM live_system.system_actionlog")
	q.exec(t, "DELETE FROM live_daemon.daemon_log")
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if logs, err := g.web.Logs(); err == nil {
			t.Logf("what the web server logged:\n%s", logs)
		}
	})
	return g
}

func prepareGround(p *harness.Phorge) (*ground, error) {
	g := &ground{Phorge: p, receiver: newReceiver()}
	harness.AtEnd(func() error { g.receiver.server.Close(); return nil })
	var err error
	if g.web, err = p.StartWeb(children); err != nil {
		return nil, err
	}
	harness.AtEnd(g.web.Stop)
	if g.keys, err = p.LetExecute(allowed...); err != nil {
		return nil, err
	}
	ctx := context.Background()
	if g.world, err = p.MakeWorld(ctx, g.receiver.server.URL); err != nil {
		return nil, err
	}
	if g.prepare, err = p.Override(nil); err != nil {
		return nil, err
	}
	return g, p.Reset()
}

// task makes a Maniphest task, as Alice does, and answers its PHID.
func (g *ground) task(t *testing.T, title string) string {
	t.Helper()
	return g.edit(t, map[string]any{"title": title})
}

// edit edits or makes a Maniphest task by Conduit.
func (g *ground) edit(t *testing.T, values map[string]any) string {
	t.Helper()
	params := map[string]any{}
	var transactions []map[string]any
	for name, value := range values {
		if name == "objectIdentifier" {
			params[name] = value
			continue
		}
		transactions = append(transactions, map[string]any{"type": name, "value": value})
	}
	params["transactions"] = transactions
	var edited struct{ Object struct{ PHID string } }
	g.call(t, "maniphest.edit", params, &edited)
	return edited.Object.PHID
}

// receiver is what webhooks and feed hooks call.
type receiver struct {
	server *httptest.Server

	mu     sync.Mutex
	status int
	calls  []call
}

type call struct {
	path, signature, contentType, body string
}

func (c call) String() string { return fmt.Sprintf("%s %s %s", c.path, c.contentType, c.body) }

func newReceiver() *receiver {
	r := &receiver{status: http.StatusOK}
	r.server = httptest.NewServer(r)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.calls = append(r.calls, call{
			request.URL.Path, request.Header.Get("X-Phabricator-Webhook-Signature"),
			strings.TrimSpace(request.Header.Get("Content-Type")), string(body),
		})
	}
	w.WriteHeader(r.status)
}

// answer says how calls are answered from now on.
func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// take answers the calls since the last take.
func (r *receiver) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// call calls a method as Alice.
func (g *ground) call(t *testing.T, method string, params map[string]any, into any) {
	t.Helper()
	text, err := g.web.Conduit(t.Context(), g.world.Alice, method, params)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// configured does something under other options.
func (g *ground) configured(t *testing.T, options map[string]any, do func()) {
	t.Helper()
	reset, err := g.Override(options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reset(); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}
