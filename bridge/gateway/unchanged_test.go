package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// TestB41WhatThePhorgeAnswersIsPassedOnUnchanged holds for errors with status
// 200, pages and what is no JSON at all: whoever called has to judge them.
func TestB41WhatThePhorgeAnswersIsPassedOnUnchanged(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for name, c := range map[string]struct {
		status     int
		kind, body string
		header     http.Header
	}{
		"an error with status 200": {200, "application/json", `{"result":null,"error_code":"ERR-CONDUIT-CORE","error_info":"no \u0022such\u0022 method"}`, nil},
		"a bad credential":         {200, "application/json", `{"result":null,"error_code":"ERR-INVALID-AUTH","error_info":"API token is not valid"}`, nil},
		"a login page":             {200, "text/html; charset=UTF-8", "<!DOCTYPE html><html><form>Log In</form></html>", http.Header{"Set-Cookie": {"phsid=A/1", "next_uri=2"}}},
		"a page with status 502":   {502, "text/html", "<html>502 Bad Gateway</html>", nil},
		"a guard before the JSON":  {200, "application/json", `for (;;);{"result":"pong"}`, nil},
		"JSON that is cut":         {200, "application/json", `{"result":{"data":[{"id":1`, nil},
		"a redirect":               {302, "text/html", "", http.Header{"Location": {"https://phorge.example.com/auth/"}}},
		"a redirect to elsewhere":  {307, "text/html", "", http.Header{"Location": {"//evil.example.com/api/user.whoami"}}},
		"an answer without a body": {204, "", "", nil},
		"a strange status":         {599, "text/plain", "\x00\xff\n", nil},
		"too many requests":        {429, "text/plain", "slow down", http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}},
		"not modified":             {304, "", "", http.Header{"Etag": {`"x"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.answers(func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.Header()["Content-Type"] = nil
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			got := g.send(t, g.call(t, "user.whoami", "params={}"))
			if got.status != c.status || got.body != c.body || got.header.Get("Content-Type") != c.kind {
				t.Errorf("answered %d %q %q", got.status, got.header.Get("Content-Type"), got.body)
			}
			for name, values := range c.header {
				if strings.Join(got.header[name], "|") != strings.Join(values, "|") {
					t.Errorf("%s is %q, want %q", name, got.header[name], values)
				}
			}
			p.only(t) // a redirect is followed by nobody
		})
	}
}

func TestB41AMethodOfEightyCharactersIsPhorgesToJudge(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	method := strings.Repeat("a", 79) + "b"
	if got := g.send(t, g.call(t, method, "")); got.status != 200 || got.body != pong {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if call := p.only(t); call.uri != "/api/"+method {
		t.Errorf("arrived as %s", call.uri)
	}
}

// TestB44RetryAfterIsASmallNumberOrPhorgesOwn says what a caller that obeys it
// is asked for.
func TestB44RetryAfterIsASmallNumberOrPhorgesOwn(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, value := range []string{"3600", "-5", "99999999999", "Thu, 01 Jan 1970 00:00:00 GMT", "soon"} {
		p.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if got := g.send(t, g.call(t, "user.whoami", "")); got.status != 429 || got.header.Get("Retry-After") != value {
			t.Errorf("Phorge's %q became %q", value, got.header.Get("Retry-After"))
		}
	}

	c := configured(p.URL)
	c.Tokens[0].Rate = token.Rate{PerSecond: 100, Burst: 1}
	g = start(t, c)
	at := &clock{time.Unix(1e9, 0)}
	g.now = at.now
	p.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, pong) })
	if got := g.send(t, g.call(t, "user.whoami", "")); got.status != 200 {
		t.Fatalf("answered %d", got.status)
	}
	got := g.send(t, g.call(t, "user.whoami", ""))
	want(t, "10 ms too early", got, 429, codeRate)
	if after := got.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q, want 1", after)
	}
}
