package gateway

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/token"
)

func TestB42TheConfiguredHostIsSentAndClaimsAreNotBelieved(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Host = "phorge.example.com"
	g := start(t, c)
	r := g.call(t, "user.whoami", "params={}")
	r.Host = "gateway.internal:8443"
	for name, value := range map[string]string{
		"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Host": "evil", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1",
		"X-Forwarded-Server": "evil", "X-Forwarded-Anything": "evil", "Forwarded": "for=6.6.6.6", "X-Real-Ip": "6.6.6.6",
		"Client-Ip": "6.6.6.6", "True-Client-Ip": "6.6.6.6", "X-Cluster-Client-Ip": "6.6.6.6",
		"Cf-Connecting-Ip": "6.6.6.6", "Fastly-Client-Ip": "6.6.6.6", "X-Original-Forwarded-For": "6.6.6.6", "X-Forwarded": "for=6.6.6.6", "Forwarded-For": "6.6.6.6", "Proxy": "http://evil",
		"X-Phabricator-Cluster": "1",
	} {
		r.Header.Set(name, value)
	}
	r.Header["X_Forwarded_For"] = []string{"6.6.6.6"}
	r.Header["X.Forwarded.For"] = []string{"6.6.6.6"}
	r.Header["x-forwarded-for"] = []string{"6.6.6.6"}
	if got := g.send(t, r); got.status != 200 {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	call := p.only(t)
	if call.host != "phorge.example.com" {
		t.Errorf("Host is %q", call.host)
	}
	for name, value := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "gateway.internal:8443", "X-Forwarded-Proto": "http",
		"Forwarded": `for=127.0.0.1;host="gateway.internal:8443";proto=http`,
	} {
		if got := call.header[name]; len(got) != 1 || got[0] != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
		delete(call.header, name)
	}
	if text := fmt.Sprint(call.header); strings.Contains(text, "6.6.6.6") || strings.Contains(text, "evil") || strings.Contains(text, "Cluster") {
		t.Errorf("the Phorge got claims: %v", call.header)
	}
}

func TestB42BodiesAndTheirEncodingArePassedOnAsTheyAre(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, "params={}")
	_ = w.Close()
	for name, c := range map[string]struct{ kind, encoding, body string }{
		"JSON":                 {"application/json", "", `{"a":[1, 2],"b":{}}`},
		"True of Python":       {"application/json", "", `{"a":True}`},
		"gzip":                 {"application/x-www-form-urlencoded", "gzip", packed.String()},
		"characters of forms":  {"application/x-www-form-urlencoded", "", "params=%2B%26%3D%25+%F0%9F%98%80&output=json&=&&a"},
		"bytes":                {"application/octet-stream", "", "\x00\xff\r\n\r\nGET / HTTP/1.1\r\n\r\n"},
		"several parts":        {`multipart/form-data; boundary="x"`, "", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"},
		"without a kind":       {"", "", "params={}"},
		"longer than a buffer": {"text/plain", "", strings.Repeat("0123456789abcdef", 1<<16)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				r := g.call(t, "user.whoami", c.body)
				r.Header = http.Header{"User-Agent": {"arc/1"}, "Cookie": {"phsid=A/x"}, "Accept-Encoding": {"gzip, br"}}
				if c.kind != "" {
					r.Header.Set("Content-Type", c.kind)
				}
				if c.encoding != "" {
					r.Header.Set("Content-Encoding", c.encoding)
				}
				if chunked {
					r.ContentLength = -1
				}
				if got := g.send(t, r); got.status != 200 {
					t.Fatalf("answered %d %s", got.status, got.body)
				}
				call := p.only(t)
				if call.body != c.body || call.method != "POST" || call.chunked != chunked {
					t.Errorf("%s, chunked %v: %d bytes arrived of %d", call.method, call.chunked, len(call.body), len(c.body))
				}
				if !chunked && call.length != int64(len(c.body)) {
					t.Errorf("the length is %d", call.length)
				}
				for name, value := range map[string]string{
					"Content-Type": c.kind, "Content-Encoding": c.encoding, "User-Agent": "arc/1", "Cookie": "phsid=A/x", "Accept-Encoding": "gzip, br",
				} {
					if call.header.Get(name) != value {
						t.Errorf("%s is %q, want %q", name, call.header.Get(name), value)
					}
				}
			}
		})
	}
}

func TestEveryHTTPMethodArrivesAsItself(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "get"} {
		r := g.call(t, "user.whoami", "")
		r.Method = method
		got := g.send(t, r)
		if got.status != 200 || (got.body == pong) == (method == "HEAD") {
			t.Errorf("%s: answered %d %s", method, got.status, got.body)
			continue
		}
		call := p.only(t)
		if call.method != method || call.chunked || call.length != 0 {
			t.Errorf("%s arrived as %s, length %d, chunked %v", method, call.method, call.length, call.chunked)
		}
	}
	r := g.call(t, "user.whoami", "")
	r.Method = "TRACE"
	want(t, "TRACE", g.send(t, r), 400, codeCore)
	from, _ := g.raw(t, "CONNECT phorge:443 HTTP/1.1\r\nHost: phorge:443\r\nX-Service-Token: "+testToken+"\r\n\r\n")
	want(t, "CONNECT", readRaw(t, from), 404, codeCore)
	if n := len(p.all()); n != 0 {
		t.Errorf("%d calls reached the Phorge", n)
	}
}

func TestHeadersBetweenTwoHostsGoNoFurther(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n"+
			"Proxy-Authenticate: Basic\r\nX-Stays: 1\r\nX-Stays: 2\r\nContent-Length: 2\r\n\r\n{}")
	})
	from, _ := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n"+
		"Connection: keep-alive, X-Hop\r\nConnection:\r\nconnection: x-other , X-Forwarded-For,x-service-token\r\nX-Hop: 1\r\nX-Other: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"+
		"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic secret\r\nX-Stays: 1\r\nX-Stays: 2\r\nContent-Length: 2\r\n\r\n{}")
	got := readRaw(t, from)
	if got.status != 200 || got.body != "{}" {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	call := p.only(t)
	for where, h := range map[string]http.Header{"call": call.header, "answer": got.header} {
		for _, name := range []string{"Connection", "X-Hop", "X-Other", "X-Mine", "Keep-Alive", "Te", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Upgrade", "X-Service-Token"} {
			if h[name] != nil {
				t.Errorf("%s: %s is %q", where, name, h[name])
			}
		}
		if !slices.Equal(h["X-Stays"], []string{"1", "2"}) {
			t.Errorf("%s: X-Stays is %q", where, h["X-Stays"])
		}
	}
	if call.header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("Connection took away X-Forwarded-For: %v", call.header)
	}
}

func TestUpgradesAreRefused(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, headers := range []string{
		"Connection: Upgrade\r\nUpgrade: websocket\r\n", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Upgrade: h2c\r\n", "Connection: keep-alive , uPgrade\r\n",
	} {
		from, _ := g.raw(t, "GET /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n"+headers+"\r\n")
		want(t, headers, readRaw(t, from), 400, codeCore)
	}
	if n := len(p.all()); n != 0 {
		t.Errorf("%d calls reached the Phorge", n)
	}
	p.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	want(t, "a Phorge that switches by itself", g.send(t, g.call(t, "user.whoami", "")), 502, codeProxy)
}

func TestNothingIsMadeUp(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	p.answers(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, _ := w.(http.Hijacker).Hijack()
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
	})
	from, _ := g.raw(t, "GET /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n\r\n")
	got := readRaw(t, from)
	if got.body != "<html>" || len(got.header) != 1 || got.header.Get("Content-Length") != "6" {
		t.Errorf("answered %v %q", got.header, got.body)
	}
	for _, name := range []string{"User-Agent", "Accept-Encoding", "Content-Type", "Via"} {
		if call := p.all()[0]; call.header[name] != nil {
			t.Errorf("%s is %q", name, call.header[name])
		}
	}
}

func TestWhereACallComesFromIsWrittenForBothProtocols(t *testing.T) {
	g, err := New(configured("http://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ remote, host, forwarded, addresses string }{
		{"192.0.2.1:4711", "a.example:80", `for=192.0.2.1;host="a.example:80";proto=https`, "192.0.2.1"},
		{"[2001:db8::1]:4711", "[::1]:80", `for="[2001:db8::1]";host="[::1]:80";proto=https`, "2001:db8::1"},
		{"[::ffff:192.0.2.1]:1", "", `for=192.0.2.1;proto=https`, "192.0.2.1"},
		{"@", "a\";for=evil", `for=unknown;proto=https`, ""},
	} {
		r := httptest.NewRequest("GET", "/api/x", nil)
		r.RemoteAddr, r.Host, r.TLS = c.remote, c.host, &tls.ConnectionState{}
		h := g.headers(r, addressOf(r))
		if h.Get("Forwarded") != c.forwarded || h.Get("X-Forwarded-For") != c.addresses || h.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("%+v: %v", c, h)
		}
	}
}

func TestCallsByHTTP2AreServedAlike(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	server := httptest.NewUnstartedServer(nil)
	server.Config = g.Gateway.Server()
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	send := func(verb, path, body string) reply {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), verb, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = "//" + r.URL.Host + path // as it is
		r.Header.Set("X-Service-Token", testToken)
		answer, err := server.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.ProtoMajor != 2 {
			t.Fatal("it was not HTTP/2")
		}
		return read(t, answer)
	}
	for _, verb := range []string{"GET", "POST", "PUT"} {
		for _, body := range []string{"", "params={}", strings.Repeat("x", 1<<20)} {
			if got := send(verb, "/api/user.whoami?a=b", body); got.status != 200 || got.body != pong {
				t.Errorf("%s: answered %d %s", verb, got.status, got.body)
				continue
			}
			call := p.only(t)
			if call.method != verb || call.body != body || call.chunked || call.uri != "/api/user.whoami?a=b" || call.header.Get("X-Forwarded-Proto") != "https" {
				t.Errorf("%s arrived as %s %s, %d bytes, chunked %v", verb, call.method, call.uri, len(call.body), call.chunked)
			}
		}
	}
	want(t, "a space in the query", send("GET", "/api/user.whoami?a b", ""), 404, codeCore)
	want(t, "an escaped path", send("GET", "/api/%75ser.whoami", ""), 404, codeCore)
	if n := len(p.all()); n != 0 {
		t.Errorf("%d calls reached the Phorge", n)
	}
}

// FuzzHeaders sends headers by net/http's own reading of them and holds what
// goes out against what must never.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		"Connection: X-A\r\nX-A: 1\r\n", "X-Forwarded-For: 6.6.6.6\r\n", "x_forwarded_for: 6.6.6.6\r\n", "Connection: a,,\x7f\r\n",
		"Forwarded: for=6.6.6.6\r\n", "X-Service-Token: s3cret\r\n", "Authorization: bEaReR s3cret\r\n", "Connection: Forwarded\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "Host: other\r\n", "Te: trailers\r\nTrailer: X\r\n", "A: b\r\n c\r\n",
	} {
		f.Add(seed, "gateway")
	}
	g, err := New(configured("http://127.0.0.1:1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, headers, host string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /api/x HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n")))
		if err != nil {
			return
		}
		out := g.headers(r, netip.MustParseAddr("192.0.2.1"))
		if !slices.Equal(out["X-Forwarded-For"], []string{"192.0.2.1"}) || len(out["Forwarded"]) != 1 || !strings.HasPrefix(out["Forwarded"][0], "for=192.0.2.1;") ||
			strings.Count(out["Forwarded"][0], "for=") > 1 || !slices.Equal(out["X-Forwarded-Proto"], []string{"http"}) {
			t.Fatalf("%q comes from %q, %q", headers, out["X-Forwarded-For"], out["Forwarded"])
		}
		for name, values := range out {
			if hops[name] || claims[name] && name != "Forwarded" || !plain(name) || name == "X-Service-Token" {
				t.Fatalf("%q lets %s pass", headers, name)
			}
			if name == "Authorization" {
				for _, value := range values {
					if _, is := token.Bearer(value); is {
						t.Fatalf("%q lets a token pass", headers)
					}
				}
			}
			for _, value := range values {
				if strings.ContainsAny(value, "\r\n\x00") {
					t.Fatalf("%q breaks a line with %q", headers, value)
				}
			}
		}
	})
}
