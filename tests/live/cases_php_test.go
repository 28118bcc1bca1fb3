package live

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/tasks"
)

// executors start each route and answer its executor, which ends with the test.
var executors = map[string]func(t *testing.T, g *ground) php{
	"pool": func(t *testing.T, g *ground) php {
		processes, err := pool.New(pool.Config{Command: g.PoolCommand(), Namespace: g.Namespace(), Log: quiet(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = processes.Close() })
		if err := processes.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return processes
	},
	"conduit": func(t *testing.T, g *ground) php { return g.executor(t, conduit.Config{}) },
}

// executor starts bridge/conduit under the first key.
func (g *ground) executor(t *testing.T, c conduit.Config) *conduit.Executor {
	t.Helper()
	if c.URL == "" {
		c.URL = g.web.URL()
	}
	c.Namespace, c.KeyID, c.Key, c.Log = g.Namespace(), g.keys[0].ID, conduit.Secret(g.keys[0].Secret), quiet(t)
	e, err := conduit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestB49AMailWhoseSuccessGotLostIsNotSentAgain lets a mail be sent by a runtime
// that dies before it settles the outcome, and then by another one.
func TestB49AMailWhoseSuccessGotLostIsNotSentAgain(t *testing.T) {
	for name, start := range executors {
		t.Run(name, func(t *testing.T) {
			g := newGround(t)
			q := openQueue(t, g.Phorge)
			if _, err := g.PHP(t.Context(), "mail.php", "somebody@example.com"); err != nil {
				t.Fatal(err)
			}
			store := openStore(t, g.Phorge)
			var held []tasks.Task
			for len(held) == 0 {
				var err error
				held, err = store.Lease(t.Context(), tasks.LeaseRequest{
					Limit: 1, Classes: map[string]tasks.ClassRequest{"PhabricatorMetaMTAWorker": {Limit: 1, LeaseTime: time.Minute}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			e := start(t, g)
			for range 2 {
				got := e.Execute(t.Context(), held[0], func(time.Duration) {})
				if got.Kind != tasks.Succeeded {
					t.Fatalf("the mail was answered with %+v", got)
				}
			}
			// Nobody settles it, and its lease ends.
			q.exec(t, "UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() - 60 WHERE id = ?", held[0].ID)
			drainOneByOne(t, g, e)
			if got := q.row(t, held[0].ID); !got.Archived || got.Result != tasks.ResultSuccess {
				t.Errorf("the task is %s, want success", got)
			}
			mails, err := g.Mails()
			if err != nil || len(mails) != 1 {
				t.Errorf("%d mails were sent, %v; want one", len(mails), err)
			}
		})
	}
}

// TestASuccessOutlivesAFollowUpThatTheQueueCannotHold is as in stock Phorge, but
// for the row of worker_taskdata that MySQL has taken before it refuses the task.
func TestASuccessOutlivesAFollowUpThatTheQueueCannotHold(t *testing.T) {
	for name, start := range executors {
		t.Run(name, func(t *testing.T) {
			g := newGround(t)
			e := start(t, g)
			for _, bad := range []map[string]any{
				{"objectPHID": strings.Repeat("o", 65)}, {"priority": -5}, {"delayUntil": 1 << 32},
			} {
				q := openQueue(t, g.Phorge)
				q.exec(t, "DELETE FROM worker_archivetask")
				id := g.schedule(t, "GantryLiveOddWorker", map[string]any{"queue": []map[string]any{
					{"options": map[string]any{"priority": 0}}, {"options": bad}, {},
				}}, nil)
				if failed := drainOneByOne(t, g, e); len(failed) > 0 {
					t.Errorf("%v: it failed: %v", bad, failed)
				}
				if got := q.row(t, id); !got.Archived || got.Result != tasks.ResultSuccess || got.Failures != 0 {
					t.Errorf("%v: the task is %s, want success", bad, got)
				}
				if n := q.count(t, "SELECT COUNT(*) FROM worker_archivetask WHERE priority = 0"); n != 1 {
					t.Errorf("%v: %d tasks of priority 0 ran, want the follow-up before it", bad, n)
				}
				all := q.count(t, "SELECT COUNT(*) FROM worker_archivetask") + q.count(t, "SELECT COUNT(*) FROM worker_activetask")
				if all != 2 {
					t.Errorf("%v: there are %d tasks, want the parent and one follow-up", bad, all)
				}
			}
		})
	}
}

func TestB42PhorgeAnswersToItsOwnNameOnly(t *testing.T) {
	g := newGround(t)
	local := strings.Replace(g.web.URL(), "127.0.0.1", "localhost", 1)
	if e := g.executor(t, conduit.Config{URL: local}); e.Ready("PhabricatorTestWorker") {
		t.Error("a name that is neither base-uri nor an allowed one is served")
	} else if problem := fmt.Sprint(e.State()); !strings.Contains(problem, "500") {
		t.Errorf("what is wrong is not told: %s", problem)
	}
	if e := g.executor(t, conduit.Config{URL: local, Host: "127.0.0.1"}); !e.Ready("PhabricatorTestWorker") {
		t.Errorf("with the name of its base-uri Phorge does not serve: %+v", e.State())
	}
}

// TestB42SignaturesSurviveEncodings has owners and encodings that break what is
// signed as bytes on the wire.
func TestB42SignaturesSurviveEncodings(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	for _, owner := range []string{"gantry:+&=%", "gantry:%2B%26", "gantry:😀é", `gantry:"\'`, "gantry: a  b", "gantry:line\r\nbreak"} {
		task := g.lease(t, nil)
		task.Owner = owner
		q.exec(t, "UPDATE worker_activetask SET leaseOwner = ? WHERE id = ?", owner, task.ID)
		g.accepted(t, g.newCall(t, task))
	}

	post := func(contentType, encoding string, body []byte) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.web.URL()+"/api/worker.execute", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		if encoding != "" {
			request.Header.Set("Content-Encoding", encoding)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const form = "application/x-www-form-urlencoded"
	task := g.lease(t, nil)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	fmt.Fprint(w, g.newCall(t, task).form().Encode())
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := post(form, "gzip", zipped.Bytes()); !strings.Contains(got, `"state":"done"`) {
		t.Errorf("a compressed call was answered with %s", got)
	}

	refused := g.lease(t, nil)
	for name, body := range map[string]string{
		"application/json":     g.newCall(t, refused).form().Get("params"),
		"Python's True":        "params=True&output=json&__conduit__=1",
		"a page's own fields":  g.newCall(t, refused).body,
		"params that are none": "params=&output=json&__conduit__=1",
	} {
		contentType := form
		if strings.HasPrefix(name, "application/") {
			contentType = name
		}
		if got := post(contentType, "", []byte(body)); strings.Contains(got, `"done"`) {
			t.Errorf("%s was served: %s", name, got)
		}
	}
	if n := g.ran(t, refused.ID); n != 0 {
		t.Errorf("the task ran %d times", n)
	}
}

// TestB42AForwardedAddressIsNotBelieved has a client that says that it comes
// from somewhere else.
func TestB42AForwardedAddressIsNotBelieved(t *testing.T) {
	g := newGround(t)
	g.configured(t, map[string]any{"gantry.allowed-addresses": []string{"10.1.2.0/24"}}, func() {
		task := g.lease(t, nil)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.web.URL()+"/api/worker.execute",
			strings.NewReader(g.newCall(t, task).form().Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("X-Forwarded-For", "10.1.2.3")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(text), "ERR-GANTRY-") || g.ran(t, task.ID) != 0 {
			t.Errorf("answered %s, %v; the task ran %d times", text, err, g.ran(t, task.ID))
		}
	})
}

// TestB50NumbersInACallAreIntegersOrTheCallIsRefused feeds worker.execute what
// PHP would silently convert.
func TestB50NumbersInACallAreIntegersOrTheCallIsRefused(t *testing.T) {
	g := newGround(t)
	task := g.lease(t, nil)
	id := fmt.Sprintf(`"id":%d`, task.ID)
	for _, number := range []string{
		fmt.Sprintf("%d.0", task.ID), fmt.Sprintf("%d.5", task.ID), fmt.Sprintf(`"%d"`, task.ID), fmt.Sprintf("[%d]", task.ID),
		"null", "true", "0", "-1", "1e3", "9007199254740993", "99999999999999999999",
	} {
		call := with(g.newCall(t, task), func(c *signedCall) { c.body = strings.Replace(c.body, id, `"id":`+number, 1) })
		got, err := g.send(t.Context(), call)
		refusedTask := len(got.Result.Tasks) == 1 && got.Result.Tasks[0].Code == "not-leased"
		if err != nil || got.Code != "ERR-GANTRY-REQUEST" && !refusedTask {
			t.Errorf("the id %s was answered with %s, %v", number, got.text, err)
		}
	}
	if n := g.ran(t, task.ID); n != 0 {
		t.Errorf("the task ran %d times", n)
	}
	g.accepted(t, g.newCall(t, task))
}
