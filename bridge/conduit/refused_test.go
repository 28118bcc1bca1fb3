package conduit

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestACallThatIsRefusedGivesItsTasksBackAndPausesLeasing(t *testing.T) {
	for _, r := range []struct{ code, remedy string }{
		{credential, `check that key "key-1"`},
		{"ERR-GANTRY-METHOD", "said the stub"},
		{"ERR-GANTRY-TOO-LARGE", "said the stub"},
		{"ERR-GANTRY-ADDRESS", "gantry.allowed-addresses"},
		{"ERR-GANTRY-TLS", "https"},
		{"ERR-GANTRY-RATE", "refused"},
		{"ERR-GANTRY-READ-ONLY", "can write again"},
		{"ERR-GANTRY-REQUEST", "said the stub"},
		{"ERR-GANTRY-SETUP", "said the stub"},
		{"ERR-CONDUIT-CALL", "load-libraries"},
	} {
		t.Run(r.code, func(t *testing.T) {
			p := newPhorge(t)
			e, log := start(t, configured(p))
			p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
				c.fail(w, r.code)
				return true
			})
			for range 3 {
				want(t, execute(t, e, p.leased()), tasks.Released, r.remedy)
			}
			if e.Ready("PhabricatorTestWorker") || !strings.Contains(e.State().Problem, r.remedy) {
				t.Errorf("ready, problem %q", e.State().Problem)
			}
			if n := strings.Count(log.String(), `"level":"warn"`); n != 1 {
				t.Errorf("%d warnings: %s", n, log)
			}
			if len(p.executed) > 0 {
				t.Errorf("executed %v", p.executed)
			}
			p.setMeddle(func(*conduitCall, http.ResponseWriter) bool { return false })
			eventually(t, "it is ready again", func() bool { return e.Ready("PhabricatorTestWorker") })
			want(t, execute(t, e, p.leased()), tasks.Succeeded, "")
		})
	}
}

func TestTheSecondCopyOfARequestIsRefusedAndTheFirstDecides(t *testing.T) {
	for _, code := range []string{credential, "ERR-GANTRY-RATE"} {
		p := newPhorge(t)
		e, _ := start(t, configured(p))
		p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
			if c.mode != "run" {
				return false
			}
			c.result()
			c.fail(w, code)
			return true
		})
		want(t, execute(t, e, p.leased()), tasks.Succeeded, "")
	}
}

func TestAClockThatIsWrongIsNamed(t *testing.T) {
	p := newPhorge(t)
	c := configured(p)
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.client.now = func() time.Time { return time.Now().Add(-5 * time.Minute) }
	if _, err := e.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "set the clocks: this host is -") {
		t.Errorf("error %v", err)
	}
}

func TestATaskThatPhorgeRefuses(t *testing.T) {
	for _, r := range []struct {
		code   string
		kind   tasks.Kind
		reason string
	}{
		{"class-not-allowed", tasks.Declined, "gantry.task-classes"},
		{"not-leased", tasks.Released, "lease"},
		{"not-a-worker", tasks.Failed, "PhabricatorWorker"},
		{"something-new", tasks.Declined, "something-new"},
	} {
		t.Run(r.code, func(t *testing.T) {
			p := newPhorge(t)
			e, _ := start(t, configured(p))
			refused, good := p.leased(), p.leased()
			p.setReceipt(ref(refused), receiptRow{state: stateRefused, code: r.code})
			one, two := &job{refused, make(chan tasks.Outcome, 1)}, &job{good, make(chan tasks.Outcome, 1)}
			newCall(e, []*job{one, two}).settle()
			want(t, <-one.done, r.kind, r.reason)
			want(t, <-two.done, tasks.Succeeded, "")
			if ready := e.Ready("PhabricatorTestWorker"); ready != (r.code != "class-not-allowed") {
				t.Errorf("ready: %v", ready)
			}
		})
	}
}

func TestOnlyAllowedClassesAreReady(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	for class, ready := range map[string]bool{
		"PhabricatorTestWorker": true, "PhabricatorSearchWorker": true,
		"phabricatortestworker": false, "PhabricatorMetaMTAWorker": false, "": false,
	} {
		if e.Ready(class) != ready {
			t.Errorf("%q: ready is %v", class, !ready)
		}
	}
}

func TestTheAllowlistIsAskedForAgain(t *testing.T) {
	p := newPhorge(t)
	c := configured(p)
	c.times.refresh = time.Millisecond
	e, _ := start(t, c)
	p.locked(func() { p.classes = append(p.classes, "PhabricatorMetaMTAWorker") })
	eventually(t, "the new class is ready", func() bool { return e.Ready("PhabricatorMetaMTAWorker") })
}

func TestB44RetryAfterIsCappedAndHoldsNoSlot(t *testing.T) {
	for name, value := range map[string]string{
		"an hour":              "3600",
		"less than nothing":    "-5",
		"three thousand years": "99999999999",
		"past any integer":     "99999999999999999999",
		"a date that passed":   "Sun, 06 Nov 1994 08:49:37 GMT",
		"a date far away":      "Fri, 31 Dec 2199 23:59:59 GMT",
		"no time at all":       "soon",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPhorge(t)
			e, _ := start(t, configured(p))
			p.setMeddle(func(_ *conduitCall, w http.ResponseWriter) bool {
				w.Header().Set("Retry-After", value)
				page(w, http.StatusTooManyRequests, "Slow down")
				return true
			})
			want(t, execute(t, e, p.leased()), tasks.Released, "429")
			if e.Ready("PhabricatorTestWorker") {
				t.Error("it leases on")
			}
			p.setMeddle(func(*conduitCall, http.ResponseWriter) bool { return false })
			eventually(t, "it is ready again", func() bool { return e.Ready("PhabricatorTestWorker") })
		})
	}
}

func TestB44WhatRetryAfterMeans(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	h := newHealth(Config{times: standardTimes})
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"3600":                          30 * time.Second,
		"-5":                            0,
		"99999999999":                   30 * time.Second,
		"99999999999999999999":          0,
		"Tue, 01 Jan 2030 00:00:20 GMT": 20 * time.Second,
		"Tue, 01 Jan 2030 09:00:00 GMT": 30 * time.Second,
		"Mon, 31 Dec 2029 00:00:00 GMT": 0,
		"soon":                          0,
	} {
		h.bad(&failure{after: retryAfter(http.Header{"Retry-After": {value}}, now)})
		if got := h.pause(); got != want {
			t.Errorf("%q: the pause is %v, not %v", value, got, want)
		}
	}
}

func TestB44ShutdownDoesNotWaitForRetryAfter(t *testing.T) {
	p := newPhorge(t)
	c := configured(p)
	c.times = standardTimes
	e, _ := start(t, c)
	answered := make(chan struct{}, 100)
	p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "3600")
		page(w, http.StatusServiceUnavailable, "Maintenance")
		answered <- struct{}{}
		return true
	})
	outcome := background(t.Context(), e, p.leased())
	<-answered
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	want(t, await(t, outcome), tasks.Released, "Gantry stopped")
}
