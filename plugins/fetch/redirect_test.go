package fetch

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// redirector answers paths like /302?/ok with that redirect, /reset by cutting
// the connection, and all others with 200.
func redirector(t *testing.T) *server {
	return serve(t, func(request string, conn *net.TCPConn) bool {
		target := strings.Split(request, " ")[1]
		path, query, _ := strings.Cut(target, "?")
		switch {
		case path == "/reset":
			return reset(conn)
		case strings.HasPrefix(path, "/3"):
			io.WriteString(conn, "HTTP/1.1 "+path[1:]+" X\r\nLocation: "+decode(query)+"\r\nContent-Length: 3\r\n\r\nabc")
		default:
			io.WriteString(conn, ok)
		}
		return true
	})
}

// lines answers the request lines that a server got, without the version.
func (s *server) lines() []string {
	var lines []string
	for _, request := range s.got() {
		line, _, _ := strings.Cut(request, " HTTP/1.1\r\n")
		lines = append(lines, line)
	}
	return lines
}

func TestRedirectsAreFollowedAsHTTPSFutureFollowsThem(t *testing.T) {
	for location, want := range map[string]string{
		"/ok":                "/ok",
		"/a%20b":             "/a%20b", // the server decodes it: /a b
		"a/b":                "/a/b",
		"../x":               "/x",
		"./x":                "/x",
		"/..//a/./b":         "//a/b",
		"%23f":               "/",
		"%20%20/ws%20%20":    "/ws",
		"/%c3%bc?%c3%bc":     "/%c3%bc?%c3%bc",
		"//HOST/y":           "/y",
		"http:/HOST/one":     "/one",
		"HTTP://HOST/up":     "/up",
		"http://HOST":        "/",
		"http://HOST?x%20y":  "/?x+y",
		"http://u:p@HOST/in": "/in",
		"%5cx":               "/\\x",
	} {
		t.Run(location, func(t *testing.T) {
			s := redirector(t)
			status := post(t, Request{URL: s.url("/302?" + strings.Replace(location, "HOST", s.Addr().String(), 1))})
			if lines := s.lines(); status != (Status{HTTP, 200}) || len(lines) != 2 || lines[1] != "POST "+want {
				t.Errorf("%v, by %q; HTTPSFuture goes to %s", status, lines, want)
			}
		})
	}
	for location, want := range map[string]Status{
		"":                       {HTTP, 302},
		"//":                     {CURL, 3},
		"http:HOST/none":         {CURL, 3},
		"http://HOST:1/":         {CURL, 3},
		"http://127.0.0.1:abc/":  {CURL, 3},
		"/a%09b":                 {CURL, 3},
		"///z.invalid":           {CURL, 6},
		"http://nosuch.invalid/": {CURL, 6},
		"ftp://HOST/":            {CURL, 1},
		"javascript:x":           {CURL, 1},
		"file:///x":              {CURL, 1},
	} {
		t.Run(location, func(t *testing.T) {
			s := redirector(t)
			status := post(t, Request{URL: s.url("/302?" + strings.Replace(location, "HOST", s.Addr().String(), 1))})
			if status != want || len(s.got()) != 1 {
				t.Errorf("%v, after %q; HTTPSFuture says %v", status, s.lines(), want)
			}
		})
	}
}

func TestRedirectsKeepTheMethodAndSomeTheBody(t *testing.T) {
	for code, kept := range map[string]bool{"301": false, "302": false, "303": false, "305": true, "307": true, "308": true} {
		s := redirector(t)
		post(t, Request{URL: s.url("/" + code + "?/ok"), Body: "{}", Headers: []Header{{Name: "X-Sig", Value: "s", SameOrigin: true}}})
		second := s.got()[1]
		if !strings.HasPrefix(second, "POST /ok ") || !strings.Contains(second, "X-Sig: s\r\n") ||
			strings.HasSuffix(second, "{}") != kept || strings.Contains(second, "Content-Length: 2\r\n") != kept {
			t.Errorf("after %s: %q", code, second)
		}
	}
}

// What is wanted is what HTTPSFuture made of these bytes.
func TestTheBodyOfARedirectDoesNotMatter(t *testing.T) {
	const to = "HTTP/1.1 302 X\r\nLocation: /ok\r\n"
	for _, c := range []struct {
		name, response string
		ends           bool // the connection, with the response
		want           Status
	}{
		{"gzip that is none", to + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", false, Status{HTTP, 200}},
		{"gzip that is empty", to + "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", false, Status{HTTP, 200}},
		{"half a body", to + "Content-Length: 10\r\n\r\nabc", true, Status{HTTP, 200}},
		{"a body that does not end, under close", to + "Connection: close\r\nContent-Length: 10\r\n\r\nabc", false, Status{HTTP, 200}},
		{"a body that does not end, of HTTP/1.0", strings.Replace(to, "1.1", "1.0", 1) + "Content-Length: 10\r\n\r\nabc", false, Status{HTTP, 200}},
		{"a body of no length that does not end", to + "\r\nabc", false, Status{HTTP, 200}},
		{"chunks that do not end, under close", to + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", false, Status{HTTP, 200}},
		{"nothing, under close", to + "Connection: close\r\nContent-Length: 0\r\n\r\n", false, Status{HTTP, 200}},
		{"an unknown encoding", to + "Transfer-Encoding: foo\r\n\r\nabc", true, Status{HTTP, 200}},
		{"two places, the first of which is empty", "HTTP/1.1 302 X\r\nLocation:\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n", false, Status{HTTP, 200}},
		{"half a body, and no way on", "HTTP/1.1 302 X\r\nLocation: ftp://x/\r\nContent-Length: 10\r\n\r\nabc", true, Status{CURL, 1}},
		{"half a chunk", to + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", true, Status{CURL, 18}},
		{"a chunk that is none", to + "Transfer-Encoding: chunked\r\n\r\nzz\r\nab", true, Status{CURL, 56}},
		{"half a body, and no place", "HTTP/1.1 302 X\r\nLocation: \r\nContent-Length: 10\r\n\r\nabc", true, Status{CURL, 18}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(request string, conn *net.TCPConn) bool {
				if strings.HasPrefix(request, "POST /ok ") {
					io.WriteString(conn, ok)
					return true
				}
				io.WriteString(conn, c.response)
				return !c.ends
			})
			if got := post(t, Request{URL: s.url("/")}); got != c.want {
				t.Errorf("%v after %q, HTTPSFuture says %v", got, s.lines(), c.want)
			}
		})
	}
}

func TestAChainOfRedirectsEndsAfterTwenty(t *testing.T) {
	s := serve(t, func(_ string, conn *net.TCPConn) bool {
		io.WriteString(conn, "HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
		return true
	})
	if status := post(t, Request{URL: s.url("/")}); status != (Status{CURL, 47}) || len(s.got()) != 21 {
		t.Errorf("%v after %d requests", status, len(s.got()))
	}
}

func TestALoginBecomesAHeader(t *testing.T) {
	for login, want := range map[string]string{
		"u": "dTo=", "u:p": "dTpw", ":p": "OnA=", "": "Og==", ":": "Og==", "u:p:q": "dTpwOnE=", "u%20x:p%40": "dSB4OnBA", "u%:p": "dSU6cA==", "%75:%0a": "dToK",
	} {
		s := redirector(t)
		post(t, Request{URL: strings.Replace(s.url("/302?/ok"), "//", "//"+login+"@", 1)})
		for _, got := range s.got() {
			if !strings.Contains(got, "\r\nAuthorization: Basic "+want+"\r\nUser-Agent: ") {
				t.Errorf("%s@: sent %q; HTTPSFuture sends Basic %s", login, got, want)
			}
		}
		if len(s.got()) != 2 {
			t.Errorf("%s@: %q", login, s.lines())
		}
	}
}

// libcurl keeps the connection for the redirect, and takes it for stale when it
// is cut.
func TestARequestOnAUsedConnectionIsSentAgain(t *testing.T) {
	s := redirector(t)
	status := post(t, Request{URL: s.url("/302?/reset")})
	if lines := s.lines(); status != (Status{CURL, 56}) || !slices.Equal(lines, []string{"POST /302?/reset", "POST /reset", "POST /reset"}) {
		t.Errorf("%v after %q", status, lines)
	}
}

func blacklist(t *testing.T, blocks ...string) Blacklist {
	t.Helper()
	b, err := ParseBlacklist(blocks)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checked(t *testing.T, b Blacklist, uri string) *Checked {
	t.Helper()
	c, err := b.Check(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARedirectToARefusedAddressIsNotFollowed(t *testing.T) {
	inner := redirector(t)
	_, port, _ := net.SplitHostPort(inner.Addr().String())
	for _, location := range []string{"http://127.0.0.2:" + port + "/", "http://127.2:" + port + "/", "http://2130706434:" + port + "/", "http://0x7f.2:" + port + "/"} {
		outer := redirector(t)
		uri := outer.url("/302?" + location)
		status := post(t, Request{URL: uri, Checked: checked(t, blacklist(t, "127.0.0.2/32"), uri)})
		if status != (Status{HTTP, 302}) || len(outer.got()) != 1 || len(inner.got()) != 0 {
			t.Errorf("a redirect to %s: %v, after %q and %q", location, status, outer.lines(), inner.lines())
		}
	}
}

func TestARedirectWithinTheRulesIsFollowed(t *testing.T) {
	s := redirector(t)
	uri := s.url("/302?/ok")
	if status := post(t, Request{URL: uri, Checked: checked(t, blacklist(t, "10.0.0.0/8"), uri)}); status != (Status{HTTP, 200}) {
		t.Error(status)
	}
}

func TestAHeaderOfOneOriginGoesToNoOther(t *testing.T) {
	inner, outer := redirector(t), redirector(t)
	for _, code := range []string{"302", "307"} {
		post(t, Request{URL: outer.url("/" + code + "?" + inner.url("/ok")), Body: "{}", Headers: []Header{
			{Name: "Content-Type", Value: "application/json"}, {Name: "X-Sig", Value: "s", SameOrigin: true}}})
	}
	if got := outer.got()[0]; !strings.Contains(got, "X-Sig: s\r\n") {
		t.Errorf("the first request has no signature: %q", got)
	}
	for _, got := range inner.got() {
		if strings.Contains(got, "X-Sig") || !strings.Contains(got, "Content-Type: application/json\r\n") {
			t.Errorf("another origin got %q", got)
		}
	}
	if len(inner.got()) != 2 {
		t.Errorf("another origin got %d requests", len(inner.got()))
	}
}

// The name resolves to nothing, so the call can only go where Check has been.
func TestTheAddressThatWasCheckedIsTheOneThatIsCalled(t *testing.T) {
	s := redirector(t)
	_, port, _ := net.SplitHostPort(s.Addr().String())
	status := post(t, Request{URL: "http://rebound.invalid:" + port + "/ok",
		Checked: &Checked{host: "rebound.invalid", addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}})
	if status != (Status{HTTP, 200}) || len(s.got()) != 1 || !strings.Contains(s.got()[0], "Host: rebound.invalid:"+port+"\r\n") {
		t.Errorf("%v, %q", status, s.got())
	}
	other := post(t, Request{URL: s.url("/ok"), Checked: &Checked{host: "rebound.invalid"}})
	if other != (Status{CURL, 3}) {
		t.Errorf("a URL that is not the one that was checked: %v", other)
	}
}

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	proxy, s := redirector(t), redirector(t)
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.url(""))
	}
	if status := post(t, Request{URL: s.url("/ok")}); status != (Status{HTTP, 200}) || len(proxy.got()) != 0 {
		t.Errorf("%v; the proxy got %q", status, proxy.lines())
	}
}

// A shadow run puts a recorder in place of the network.
func TestEveryHopGoesThroughWhatIsPutInPlaceOfTheNetwork(t *testing.T) {
	s := redirector(t)
	var seen []string
	status, err := Do(t.Context(), func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r.URL.String())
			return rt.RoundTrip(r)
		})
	}, Request{Method: "POST", URL: s.url("/302?/a%20b"), Timeout: time.Minute})
	want := []string{s.url("/302?/a%20b"), s.url("/a%20b")}
	if err != nil || status != (Status{HTTP, 200}) || !slices.Equal(seen, want) {
		t.Errorf("%v, %v, %q", status, err, seen)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
