package conduit

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// nonsense is what servers answer instead of an envelope.
var nonsense = []struct {
	name   string
	answer func(c *conduitCall, w http.ResponseWriter)
}{
	{"a login page with status 200", func(_ *conduitCall, w http.ResponseWriter) { page(w, 200, "Login") }},
	{"a 502 page", func(_ *conduitCall, w http.ResponseWriter) { page(w, 502, "Bad Gateway") }},
	{"a 500 page", func(_ *conduitCall, w http.ResponseWriter) { page(w, 500, "Unhandled Exception") }},
	{"status 200 with ERR-CONDUIT-CORE", func(c *conduitCall, w http.ResponseWriter) { c.fail(w, "ERR-CONDUIT-CORE") }},
	{"status 200 with ERR-INVALID-AUTH", func(c *conduitCall, w http.ResponseWriter) { c.fail(w, "ERR-INVALID-AUTH") }},
	{"an empty error_code", func(c *conduitCall, w http.ResponseWriter) { c.fail(w, "") }},
	{"an error_code that is a number", json200(`{"result":null,"error_code":5,"error_info":null}`)},
	{"no error_code", json200(`{"result":{"protocol":1,"tasks":[]}}`)},
	{"no result", json200(`{"error_code":null,"error_info":null}`)},
	{"a JSON shield", json200(`for (;;);{"result":{},"error_code":null,"error_info":null}`)},
	{"cut JSON", json200(`{"result":{"protocol":1,"tasks":[{"id":1,`)},
	{"JSON with more behind it", json200(`{"result":{},"error_code":null,"error_info":null}<br>Warning`)},
	{"nothing", json200(``)},
	{"a result that is text", json200(`{"result":"ok","error_code":null,"error_info":null}`)},
	{"B21 an empty result", json200(`{"result":[],"error_code":null,"error_info":null}`)},
	{"another protocol", json200(`{"result":{"protocol":2,"tasks":[]},"error_code":null,"error_info":null}`)},
	{"fewer tasks than asked", json200(`{"result":{"protocol":1,"tasks":{}},"error_code":null,"error_info":null}`)},
	{"an answer for another task", json200(`{"result":{"protocol":1,"tasks":[{"id":999999,"leaseOwner":"x","state":"done","outcome":` + succeeded + `}]},"error_code":null,"error_info":null}`)},
	{"an unknown state", func(c *conduitCall, w http.ResponseWriter) {
		c.answer(w, strings.ReplaceAll(c.result(), `"state":"done"`, `"state":"fine"`))
	}},
	{"a whole envelope that is text/html", func(c *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/html")
		c.answer(w, c.result())
	}},
	{"a whole envelope with status 500", func(c *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(500)
		c.answer(w, c.result())
	}},
	{"a redirect", func(_ *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}},
	{"a huge answer", func(c *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat(" ", 1<<16))
		for range 1 << 5 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		c.answer(w, c.result())
	}},
	{"a connection that ends before the answer", func(*conduitCall, http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	{"a connection that ends within the answer", func(_ *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"result":`))
		panic(http.ErrAbortHandler)
	}},
}

func json200(text string) func(*conduitCall, http.ResponseWriter) {
	return func(_ *conduitCall, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
}

// startShortSighted starts an executor that reads answers of at most a MiB.
func startShortSighted(t *testing.T, p *phorge) (*Executor, *harness.Buffer) {
	t.Helper()
	e, log := start(t, configured(p))
	e.client.limit = 1 << 20
	return e, log
}

func TestB41AfterAnythingButAnEnvelopeTheReceiptDecidesAndTheWorkIsNotAskedForAgain(t *testing.T) {
	for _, n := range nonsense {
		t.Run(n.name, func(t *testing.T) {
			p := newPhorge(t)
			e, log := startShortSighted(t, p)
			p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
				if c.mode != "run" {
					return false
				}
				c.result()
				n.answer(c, w)
				return true
			})
			task := p.leased()
			want(t, execute(t, e, task), tasks.Succeeded, "")
			if n := p.executed[ref(task)]; n != 1 || p.count("run") != 1 {
				t.Errorf("executed %d times, asked for %d times", n, p.count("run"))
			}
			if !strings.Contains(log.String(), `"level":"warn"`) {
				t.Errorf("nobody was told: %s", log)
			}
		})
	}
}

func TestB41NothingOfItIsASuccessWhenNothingBegan(t *testing.T) {
	for _, n := range nonsense {
		t.Run(n.name, func(t *testing.T) {
			p := newPhorge(t)
			e, _ := startShortSighted(t, p)
			p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
				if c.mode != "run" {
					return false
				}
				c.mode = "lookup" // so that answering it executes nothing
				n.answer(c, w)
				return true
			})
			want(t, execute(t, e, p.leased()), tasks.Released, "did not begin")
		})
	}
}

func TestB41LeasingPausesWhileLookupsGetNonsenseToo(t *testing.T) {
	for _, n := range nonsense {
		t.Run(n.name, func(t *testing.T) {
			p := newPhorge(t)
			e, _ := startShortSighted(t, p)
			p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
				switch c.mode {
				case "run":
					c.result()
					n.answer(c, w)
				case "lookup":
					n.answer(c, w)
				default:
					page(w, 502, "Bad Gateway")
				}
				return true
			})
			outcome := background(t.Context(), e, p.leased())
			eventually(t, "it is looked up several times", func() bool { return p.count("lookup") > 2 })
			if e.Ready("PhabricatorTestWorker") || e.State().Problem == "" {
				t.Errorf("ready, problem %q", e.State().Problem)
			}
			select {
			case o := <-outcome:
				t.Fatalf("it came to %+v, though nobody knows", o)
			default:
			}
			p.setMeddle(func(*conduitCall, http.ResponseWriter) bool { return false })
			want(t, await(t, outcome), tasks.Succeeded, "")
			eventually(t, "it is ready again", func() bool { return e.Ready("PhabricatorTestWorker") })
		})
	}
}

func TestB21AnEmptyListInAnAnswerMayBeAnEmptyMap(t *testing.T) {
	for _, empty := range []string{"[]", "{}"} {
		p := newPhorge(t)
		p.work = func(taskRef) string {
			return strings.Replace(succeeded, `"followUps":[]`, `"followUps":`+empty, 1)
		}
		e, _ := start(t, configured(p))
		if o := execute(t, e, p.leased()); o.Kind != tasks.Succeeded || len(o.FollowUps) != 0 {
			t.Errorf("%s came to %+v", empty, o)
		}
	}
}

func TestB41AMethodOf80CharactersIsAFailure(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	method := strings.Repeat("m", 80)
	p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
		c.fail(w, "ERR-CONDUIT-CALL")
		return c.method == method
	})
	result, err := e.client.call(t.Context(), e.client.asks, method, struct{}{})
	if err == nil || !strings.Contains(err.Error(), "ERR-CONDUIT-CALL") {
		t.Errorf("result %s, error %v", result, err)
	}
}

func TestALeaseIsHeldForAsLongAsPHPRuns(t *testing.T) {
	p := newPhorge(t)
	p.work = func(taskRef) string { return "" }
	e, _ := start(t, configured(p))
	task := p.leased()
	ctx, cancel := context.WithCancel(t.Context())
	outcome := background(ctx, e, task)
	eventually(t, "it is looked up", func() bool { return p.count("lookup") > 0 })
	cancel()
	before := p.count("lookup")
	eventually(t, "it is looked up again", func() bool { return p.count("lookup") > before+2 })
	select {
	case o := <-outcome:
		t.Fatalf("it came to %+v while PHP runs", o)
	default:
	}
	p.setReceipt(ref(task), receiptRow{state: stateDone, outcome: succeeded})
	want(t, await(t, outcome), tasks.Succeeded, "")
}

func TestATaskWhoseProcessDiedCrashed(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	task := p.leased()
	p.setReceipt(ref(task), receiptRow{state: stateDead})
	outcome := execute(t, e, task)
	want(t, outcome, tasks.Crashed, "died with it")
	if outcome.Category != "crash" || outcome.Wait != tasks.DefaultWait {
		t.Errorf("category %q, wait %v", outcome.Category, outcome.Wait)
	}
}

// Its connection to the database may have been cut, as by a firewall, and its
// lock with it.
func TestAProcessIsNotDeadWhileItsCallLasts(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *conduitCall, w http.ResponseWriter)
		kind tasks.Kind
	}{
		"it finishes": {func(c *conduitCall, w http.ResponseWriter) {
			c.phorge.setReceipt(c.tasks[0], receiptRow{state: stateDone, outcome: succeeded})
			c.answer(w, c.result())
		}, tasks.Succeeded},
		"it dies indeed": {func(_ *conduitCall, w http.ResponseWriter) { page(w, 502, "Bad Gateway") }, tasks.Crashed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPhorge(t)
			e, _ := start(t, impatient(p))
			task := p.leased()
			end := make(chan struct{})
			p.setReceipt(ref(task), receiptRow{state: stateDead})
			p.setMeddle(func(call *conduitCall, w http.ResponseWriter) bool {
				if call.mode != "run" {
					return false
				}
				<-end
				c.end(call, w)
				return true
			})
			outcome := background(t.Context(), e, task)
			eventually(t, "it is looked up several times", func() bool { return p.count("lookup") > 3 })
			select {
			case o := <-outcome:
				t.Fatalf("it came to %+v while its call lasts", o)
			default:
			}
			close(end)
			want(t, await(t, outcome), c.kind, "")
		})
	}
}

func TestATaskIsNotRunBesideItselfAndItsSuccessIsTakenOver(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	task := p.leased()
	earlier := ref(task)
	earlier.LeaseOwner = "gantry:0:0:dead:host"
	p.setReceipt(earlier, receiptRow{state: stateRunning})
	outcome := execute(t, e, task)
	want(t, outcome, tasks.Released, "earlier lease")
	if outcome.Wait != stillRunningWait || !e.Ready("PhabricatorTestWorker") {
		t.Errorf("it waits %v; ready is %v", outcome.Wait, e.Ready("PhabricatorTestWorker"))
	}
	p.setReceipt(earlier, receiptRow{state: stateDone, outcome: succeeded})
	want(t, execute(t, e, task), tasks.Succeeded, "")
	if n := p.executed[ref(task)]; n != 0 {
		t.Errorf("it was executed %d times again", n)
	}
}

func TestACallThatHangsIsLookedUpBeside(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, impatient(p))
	task := p.leased()
	gone := make(chan struct{})
	p.setMeddle(func(c *conduitCall, _ http.ResponseWriter) bool {
		if c.mode != "run" {
			return false
		}
		p.setReceipt(ref(task), receiptRow{state: stateRunning})
		<-c.Context().Done()
		close(gone)
		return true
	})
	outcome := background(t.Context(), e, task)
	eventually(t, "it is looked up several times", func() bool { return p.count("lookup") > 2 })
	p.setReceipt(ref(task), receiptRow{state: stateDone, outcome: succeeded})
	want(t, await(t, outcome), tasks.Succeeded, "")
	<-gone // the call was ended when all was known
}

func TestARunThatIsLetInAfterItWasLookedUpBeginsNothing(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, impatient(p))
	task := p.leased()
	letIn, answered := make(chan struct{}), make(chan struct{})
	p.setMeddle(func(c *conduitCall, _ http.ResponseWriter) bool {
		if c.mode != "run" {
			return false
		}
		<-letIn
		c.result()
		close(answered)
		return true
	})
	want(t, execute(t, e, task), tasks.Released, "did not begin")
	close(letIn)
	<-answered
	if p.executed[ref(task)] != 0 {
		t.Error("it was begun after it had been given back")
	}
}

func TestWhatACallHasNotComeToIsGivenBackWhileItIsAtWorkOnAnother(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	first, second := p.leased(), p.leased()
	p.setReceipt(ref(first), receiptRow{state: stateRunning})
	p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
		if c.mode == "run" {
			page(w, 504, "Gateway Time-out")
		}
		return c.mode == "run"
	})
	one, two := &job{first, make(chan tasks.Outcome, 1)}, &job{second, make(chan tasks.Outcome, 1)}
	e.running.Go(newCall(e, []*job{one, two}).settle)
	want(t, await(t, two.done), tasks.Released, "did not begin")
	p.setReceipt(ref(first), receiptRow{state: stateDone, outcome: succeeded})
	want(t, await(t, one.done), tasks.Succeeded, "")
}

func TestAnOutcomeThatCannotBeReadIsAFailedAttempt(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	for text, why := range map[string]string{
		`{"kind":"splendid"}`: "splendid",
		`null`:                "not an object",
		"{\"kind\":\"succeeded\",\"reason\":\"\xff\"}": "is not UTF-8",
	} {
		p.locked(func() { p.work = func(taskRef) string { return text } })
		outcome := execute(t, e, p.leased())
		want(t, outcome, tasks.Retry, why)
		if outcome.Category != "protocol" || outcome.Wait != tasks.DefaultWait {
			t.Errorf("category %q, wait %v", outcome.Category, outcome.Wait)
		}
	}
}
