package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestOnlyThePlainPathOfAMethodIsServed(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for path, served := range map[string]bool{
		"/api/user.whoami":                         true,
		"/api/user.whoami?a=%2f..%2f&b":            true,
		"/api/differential.revision.search":        true,
		"/api/ping":                                true,
		"/api/my-app.get_all2":                     true,
		"/api/" + strings.Repeat("a", 80):          true,
		"/api/" + strings.Repeat("a", maxMethod+1): false,
		"/api/":                                false,
		"/api":                                 false,
		"/":                                    false,
		"/conduit/":                            false,
		"//api/user.whoami":                    false,
		"/api//user.whoami":                    false,
		"/api/user.whoami/":                    false,
		"/api/user.whoami//":                   false,
		"/api/user/whoami":                     false,
		"/api/user.whoami/..":                  false,
		"/api/../api/user.whoami":              false,
		"/api/./user.whoami":                   false,
		"/api/a%2f..%2fb":                      false,
		"/api/a%2F..%2Fb":                      false,
		"/api/%2e%2e/user.whoami":              false,
		"/api/..":                              false,
		"/api/.":                               false,
		"/api/%2e":                             false,
		"/api/user..whoami":                    false,
		"/api/.user":                           false,
		"/api/user.":                           false,
		"/api/%75ser.whoami":                   false,
		"/%61pi/user.whoami":                   false,
		"/api/user.whoami%00":                  false,
		"/api/user.whoami%0d%0aX-A:%20b":       false,
		"/api/user.whoami%20":                  false,
		"/api/user.whoami%3fa=b":               false,
		"/api/user.whoami%23":                  false,
		"/api/user.whoami;a=b":                 false,
		"/api/üser":                            false,
		"/api/%c3%bcser":                       false,
		"/api/user\\whoami":                    false,
		"/api/user.whoami\x80":                 false,
		"/api/uſer.whoami":                     false,
		"/API/user.whoami":                     false,
		"/api/*":                               false,
		"/index.php?__path__=/api/user.whoami": false,
		"*":                                    false,
	} {
		from, connection := g.raw(t, "OPTIONS "+path+" HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nConnection: close\r\n\r\n")
		got := readRaw(t, from)
		_ = connection.Close()
		if !served {
			want(t, path, got, http.StatusNotFound, codeCore)
			if calls := p.all(); len(calls) != 0 {
				t.Fatalf("%s reached the Phorge as %v", path, calls)
			}
			continue
		}
		if got.status != 200 {
			t.Errorf("%s: answered %d %s", path, got.status, got.body)
		} else if call := p.only(t); call.uri != path {
			t.Errorf("%s arrived as %s", path, call.uri)
		}
	}
}

func TestAnAddressInTheRequestLineChangesNothing(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	from, _ := g.raw(t, "GET http://evil.example.com/api/user.whoami?x=1 HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n\r\n")
	if got := readRaw(t, from); got.status != 200 {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	if call := p.only(t); call.uri != "/api/user.whoami?x=1" || "http://"+call.host != p.URL {
		t.Errorf("arrived as %s at %s", call.uri, call.host)
	}
}

func TestTheQueryIsPassedOnAsItIs(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	closed := start(t, c)
	c.QueryToken = true
	open := start(t, c)
	for _, query := range []string{
		"", "b=2&a=1&a=0", "a;b=%zz&&=&", "params[x]=1&params%5By%5D=%E2%82%AC", "%", "\xff", "a=b?c=d#", "tokens=1&api.token=2&_token=3",
	} {
		query = strings.ReplaceAll(query, "#", "%23")
		for name, g := range map[string]*gate{"closed": closed, "open": open} {
			from, connection := g.raw(t, "GET /api/user.whoami?"+query+" HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nConnection: close\r\n\r\n")
			if got := readRaw(t, from); got.status != 200 {
				t.Fatalf("%s, %q: answered %d %s", name, query, got.status, got.body)
			}
			_ = connection.Close()
			if call := p.only(t); call.uri != strings.TrimSuffix("/api/user.whoami?"+query, "?") {
				t.Errorf("%s: %q arrived as %q", name, query, call.uri)
			}
		}
	}
}

func TestOnlyTheTokenLeavesTheQuery(t *testing.T) {
	for query, wanted := range map[string]string{
		"":                          " []",
		"token=a":                   " [a]",
		"token=a&x=1":               "x=1 [a]",
		"x=1&token=a":               "x=1 [a]",
		"x=1&token=a&y=%zz&token=b": "x=1&y=%zz [a b]",
		"%74ok%65n=a%2Bb":           " [a+b]",
		"token":                     " []",
		"token=%zz":                 " [%zz]",
		"tokens=a&atoken=b&Token=c": "tokens=a&atoken=b&Token=c []",
		"&&token=a&&":               "&&& [a]",
		"x=token=a&token[]=b":       "x=token=a&token[]=b []",
	} {
		rest, tokens := withoutToken(query)
		if got := fmt.Sprintf("%s %v", rest, tokens); got != wanted {
			t.Errorf("%q: %q, want %q", query, got, wanted)
		}
	}
}

// FuzzPath holds every path that is served against what a server behind could
// read in it.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/api/user.whoami", "/api/a%2f..%2fb", "/api//x", "/api/x/", "//api/x", "/api/%75ser", "/api/x?y=z#", "/api/..", "/api/a.b.c",
		"http://host/api/x", "/api/\x00", "/api/ü", "/api/x;y", "*", "api/x", "/api/x%",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		method, is := methodOf(u)
		if !is {
			return
		}
		plain := "/api/" + method
		sent := (&url.URL{Scheme: "http", Host: "phorge", Path: plain, RawQuery: u.RawQuery}).RequestURI()
		path, _, _ := strings.Cut(sent, "?")
		if path != plain || strings.Count(method, "/")+strings.Count(method, "..")+strings.Count(method, "%") > 0 || len(method) > maxMethod {
			t.Fatalf("%q is served as %q", text, sent)
		}
		if before, _, _ := strings.Cut(text, "?"); !strings.HasSuffix(before, plain) {
			t.Fatalf("%q does not say %q", text, plain)
		}
		for i := range len(method) {
			if method[i] <= ' ' || method[i] > '~' {
				t.Fatalf("%q is a method", method)
			}
		}
		if strings.ContainsAny(sent, " \r\n\x00") {
			t.Fatalf("%q breaks the request line", sent)
		}
	})
}
