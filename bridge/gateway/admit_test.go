package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

func TestATokenIsAcceptedInItsPlacesOnly(t *testing.T) {
	p := newPhorge(t)
	closed := start(t, configured(p.URL))
	c := configured(p.URL)
	c.QueryToken = true
	open := start(t, c)
	with := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	query := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery = text; r.Header["X-Other"] = nil }
	}
	both := func(all ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			for _, f := range all {
				f(r)
			}
		}
	}
	for name, c := range map[string]struct {
		gate   *gate
		change func(*http.Request)
		status int
	}{
		"the header":              {closed, with("X-Service-Token", testToken), 200},
		"bearer":                  {closed, with("Authorization", "Bearer "+testToken), 200},
		"bearer in small letters": {closed, with("Authorization", "bearer  "+testToken), 200},
		"both, the same":          {closed, both(with("X-Service-Token", testToken), with("Authorization", "Bearer "+testToken)), 200},
		"the header, and basic for somebody else": {closed, both(with("X-Service-Token", testToken), with("Authorization", "Basic YTpi")), 200},
		"nothing":                                   {closed, query("a=b"), 401},
		"another token":                             {closed, with("X-Service-Token", otherToken), 401},
		"an empty token":                            {closed, with("X-Service-Token", ""), 401},
		"the digest":                                {closed, with("X-Service-Token", token.Digest(testToken)), 401},
		"a beginning of it":                         {closed, with("X-Service-Token", testToken[:10]), 401},
		"two tokens of which one is right":          {closed, with("X-Service-Token", testToken, otherToken), 401},
		"two places that disagree":                  {closed, both(with("X-Service-Token", testToken), with("Authorization", "Bearer "+otherToken)), 401},
		"basic":                                     {closed, with("Authorization", "Basic "+testToken), 401},
		"the query, not configured":                 {closed, query("token=" + testToken), 401},
		"the query":                                 {open, query("token=" + testToken), 200},
		"the query, escaped":                        {open, query("%74oken=" + url.QueryEscape(testToken)), 200},
		"the query, twice":                          {open, query("token=" + testToken + "&token=" + testToken), 200},
		"the query, twice and different":            {open, query("token=" + testToken + "&token=" + otherToken), 401},
		"the query disagrees with the header":       {open, both(query("token="+otherToken), with("X-Service-Token", testToken)), 401},
		"a header whose name PHP reads as the same": {closed, with("X_Service_Token", testToken), 401},
	} {
		t.Run(name, func(t *testing.T) {
			p.calls = nil
			r := c.gate.call(t, "user.whoami", "")
			c.change(r)
			answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got := read(t, answer)
			if c.status == 401 {
				want(t, name, got, 401, codeAuth)
				if len(p.all()) != 0 {
					t.Error("a refused call reached the Phorge")
				}
				return
			}
			if got.status != c.status || got.body != pong {
				t.Fatalf("answered %d %s", got.status, got.body)
			}
			call := p.only(t)
			if text := fmt.Sprint(call); strings.Contains(text, testToken) || strings.Contains(strings.ToLower(text), "x-service-token") {
				t.Errorf("the Phorge got the token: %v", call)
			}
			if strings.Contains(name, "basic") != (call.header.Get("Authorization") == "Basic YTpi") {
				t.Errorf("Authorization is %q", call.header.Get("Authorization"))
			}
		})
	}
}

func TestATokenThatIsReplacedIsGoodWhileBothDigestsStand(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Tokens[0].Digests = append(c.Tokens[0].Digests, token.Digest(otherToken))
	g := start(t, c)
	for _, token := range []string{testToken, otherToken} {
		r := g.call(t, "user.whoami", "")
		r.Header.Set("X-Service-Token", token)
		if got := g.send(t, r); got.status != 200 {
			t.Errorf("answered %d", got.status)
		}
	}
}

func TestNewTokensAreGoodByTheirDigest(t *testing.T) {
	secret, digest := token.New()
	p := newPhorge(t)
	c := configured(p.URL)
	c.Tokens[0].Digests = []string{digest}
	g := start(t, c)
	r := g.call(t, "user.whoami", "")
	r.Header.Set("X-Service-Token", secret)
	if got := g.send(t, r); got.status != 200 {
		t.Errorf("answered %d", got.status)
	}
}

func TestMethodsAreThoseAllowedAndNotDenied(t *testing.T) {
	for _, c := range []struct {
		allow, deny []string
		method      string
		may         bool
	}{
		{nil, nil, "user.whoami", false},
		{[]string{"user.whoami"}, nil, "user.whoami", true},
		{[]string{"user.whoami"}, nil, "user.whoamI", false},
		{[]string{"user.whoami"}, nil, "user.whoami.x", false},
		{[]string{"user.*"}, nil, "user.whoami", true},
		{[]string{"user.*"}, nil, "user", false},
		{[]string{"user*"}, nil, "users.x", true},
		{[]string{"user.*"}, nil, "maniphest.search", false},
		{[]string{"*"}, nil, "anything", true},
		{[]string{"*"}, []string{"user.*"}, "user.whoami", false},
		{[]string{"*"}, []string{"worker.execute"}, "worker.execute", false},
		{[]string{"*"}, []string{"worker.execute"}, "worker.capabilities", true},
		{[]string{"user.whoami"}, []string{"*"}, "user.whoami", false},
		{nil, []string{"user.*"}, "user.whoami", false},
	} {
		k := &caller{allow: c.allow, deny: c.deny}
		if k.mayCall(c.method) != c.may {
			t.Errorf("allowed %v without %v: %s is %v, want %v", c.allow, c.deny, c.method, !c.may, c.may)
		}
	}
}

func TestAMethodThatATokenMayNotCallReachesNobody(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Tokens[0].Allow, c.Tokens[0].Deny = []string{"user.*", "worker.*"}, []string{"worker.execute"}
	g := start(t, c)
	for _, method := range []string{"maniphest.edit", "worker.execute"} {
		want(t, method, g.send(t, g.call(t, method, "params={}")), 403, codeAuth)
	}
	if n := len(p.all()); n != 0 {
		t.Errorf("%d calls reached the Phorge", n)
	}
	for _, method := range []string{"user.whoami", "worker.capabilities"} {
		if got := g.send(t, g.call(t, method, "params={}")); got.status != 200 {
			t.Errorf("%s: %d", method, got.status)
		}
	}
}

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func TestCallersHaveTheirOwnRates(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Tokens[0].Rate = token.Rate{PerSecond: 0.5, Burst: 2}
	c.Tokens[0].Exempt = []string{"conduit.*"}
	c.Tokens = append(c.Tokens, Token{Name: "other", Digests: []string{token.Digest(otherToken)}, Allow: []string{"*"}, Rate: token.Rate{PerSecond: 1}})
	g := start(t, c)
	at := &clock{time.Unix(1e9, 0)}
	g.now = at.now
	send := func(method, token string) reply {
		r := g.call(t, method, "")
		r.Header.Set("X-Service-Token", token)
		return g.send(t, r)
	}
	for range 2 {
		if got := send("user.whoami", testToken); got.status != 200 {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
	}
	got := send("user.whoami", testToken)
	want(t, "the third at once", got, 429, codeRate)
	if after := got.header.Get("Retry-After"); after != "2" {
		t.Errorf("Retry-After is %q, want 2", after)
	}
	for range 5 {
		if got := send("conduit.ping", testToken); got.status != 200 {
			t.Errorf("a method without limit: %d", got.status)
		}
	}
	if got := send("user.whoami", otherToken); got.status != 200 {
		t.Errorf("another caller: %d", got.status)
	}
	at.Time = at.Add(1500 * time.Millisecond)
	got = send("user.whoami", testToken)
	want(t, "too early", got, 429, codeRate)
	if after := got.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q, want 1", after)
	}
	at.Time = at.Add(500 * time.Millisecond)
	if got := send("user.whoami", testToken); got.status != 200 {
		t.Errorf("in time: %d", got.status)
	}
}

func TestStrangersAreRefusedMoreAndMoreShortly(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Strangers = token.Rate{PerSecond: 1, Burst: 3}
	g := start(t, c)
	at := &clock{time.Unix(1e9, 0)}
	g.now = at.now
	stranger := func() reply {
		r := g.call(t, "user.whoami", "")
		r.Header.Set("X-Service-Token", "wrong")
		return g.send(t, r)
	}
	for range 3 {
		want(t, "a stranger", stranger(), 401, codeAuth)
	}
	want(t, "a stranger who goes on", stranger(), 429, codeRate)
	if got := g.send(t, g.call(t, "user.whoami", "")); got.status != 200 {
		t.Errorf("a caller from the same address: %d %s", got.status, got.body)
	}
}

func TestManyStrangersTakeABoundedPlace(t *testing.T) {
	s := newStrangers(token.Rate{PerSecond: 1, Burst: 1})
	now := time.Unix(1e9, 0)
	address := func(i int) netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range 5 * maxStrangers {
		if wait := s.take(address(i), now); wait != 0 {
			t.Fatalf("a new address waits %s", wait)
		}
		if wait := s.take(address(i), now); wait != time.Second {
			t.Fatalf("an address that is known waits %s", wait)
		}
	}
	if len(s.known) != maxStrangers || s.recent.Len() != maxStrangers {
		t.Errorf("%d and %d are remembered", len(s.known), s.recent.Len())
	}
	last := 5*maxStrangers - 1
	if wait := s.take(address(last-maxStrangers+1), now); wait == 0 {
		t.Error("the oldest of those that there is place for was forgotten")
	}
	if wait := s.take(address(0), now); wait != 0 {
		t.Error("an address that was seen long ago is remembered")
	}
}

func TestNeighboursOfIPv6AreOneStranger(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"2001:db8::1", "2001:db8::ffff:1"}, {"fe80::1%eth0", "fe80::2"}, {"::ffff:192.0.2.1", "192.0.2.1"},
	} {
		if a, b := neighbourhood(netip.MustParseAddr(c.a)), neighbourhood(netip.MustParseAddr(c.b)); a != b {
			t.Errorf("%s and %s are %s and %s", c.a, c.b, a, b)
		}
	}
	for _, c := range []struct{ a, b string }{{"2001:db8::1", "2001:db8:0:1::1"}, {"192.0.2.1", "192.0.2.2"}} {
		if a, b := neighbourhood(netip.MustParseAddr(c.a)), neighbourhood(netip.MustParseAddr(c.b)); a == b {
			t.Errorf("%s and %s are the same", c.a, c.b)
		}
	}
}

func TestBadConfigurationsAreRefusedWithTheReason(t *testing.T) {
	if _, err := New(configured("http://127.0.0.1:1")); err != nil {
		t.Fatal(err)
	}
	one := func(change func(*Token)) func(*Config) {
		return func(c *Config) { change(&c.Tokens[0]) }
	}
	for text, change := range map[string]func(*Config){
		"must be like https://": func(c *Config) { c.URL = "phorge.example.com" },
		"cannot be read":        func(c *Config) { c.URL = "http://user:secret@[" },
		"has a user name":       func(c *Config) { c.URL = "http://user:secret@phorge/" },
		"cannot have a path":    func(c *Config) { c.URL = "http://phorge/phorge/" },
		"must be a host name":   func(c *Config) { c.Host = "http://phorge/" },
		"cannot be negative":    func(c *Config) { c.Stall = -1 },
		"MaxBody is -1":         func(c *Config) { c.MaxBody = -1 },
		"there is no token":     func(c *Config) { c.Tokens = nil },
		"the rate of Strangers": func(c *Config) { c.Strangers = token.Rate{PerSecond: -1} },
		"CAFile":                func(c *Config) { c.CAFile = "/nonexistent" },
		"the name must be":      one(func(k *Token) { k.Name = "a b" }),
		"it has no digest":      one(func(k *Token) { k.Digests = nil }),
		"not the token":         one(func(k *Token) { k.Digests = []string{testToken} }),
		"an empty token":        one(func(k *Token) { k.Digests = []string{token.Digest("")} }),
		`"a*b" is no method`:    one(func(k *Token) { k.Allow = []string{"a*b"} }),
		`"" is no method`:       one(func(k *Token) { k.Deny = []string{""} }),
		`"a..b" is no method`:   one(func(k *Token) { k.Exempt = []string{"a..b"} }),
		"nothing a second":      one(func(k *Token) { k.Rate = token.Rate{Burst: 1} }),
		"another token has the same name": func(c *Config) {
			c.Tokens = append(c.Tokens, Token{Name: "build", Digests: []string{token.Digest("x")}})
		},
		"one token cannot be two callers": func(c *Config) { c.Tokens = append(c.Tokens, Token{Name: "b", Digests: c.Tokens[0].Digests}) },
		"neither can be negative":         one(func(k *Token) { k.Rate = token.Rate{PerSecond: 1, Burst: -1} }),
	} {
		c := configured("http://127.0.0.1:1")
		change(&c)
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want something about %q", err, text)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), testToken) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

func TestEachCallIsOneLineWithoutWhatItHeld(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.QueryToken = true
	g := start(t, c)
	r := g.call(t, "user.whoami", "params=secret")
	r.URL.RawQuery = "token=" + testToken + "&api.token=secret"
	if got := g.send(t, r); got.status != 200 {
		t.Fatalf("answered %d", got.status)
	}
	r = g.call(t, "secret%2f..%2fb", "")
	want(t, "a path that is none", g.send(t, r), 404, codeCore)
	r = g.call(t, "user.whoami", "")
	r.Header.Set("X-Service-Token", otherToken)
	want(t, "a stranger", g.send(t, r), 401, codeAuth)

	type line struct {
		Method, Caller, From, Refused, Message string
		Status                                 int
		Sent, Received                         int64
		Took                                   *float64
	}
	g.Server.Close() // every line is written
	var lines []line
	for text := range strings.Lines(g.logged.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Took == nil {
			t.Errorf("no time in %s", text)
		}
		l.Took = nil
		if l.Status != 200 {
			if l.Sent == 0 {
				t.Errorf("nothing sent in %s", text)
			}
			l.Sent = 0
		}
		lines = append(lines, l)
	}
	expected := []line{
		{Method: "user.whoami", Caller: "build", From: "127.0.0.1", Status: 200, Sent: int64(len(pong)), Received: 13, Message: "call"},
		{Caller: "build", From: "127.0.0.1", Status: 404, Refused: codeCore, Message: "call"},
		{From: "127.0.0.1", Status: 401, Refused: codeAuth, Message: "call"},
	}
	if fmt.Sprint(lines) != fmt.Sprint(expected) {
		t.Errorf("lines %v\nwant  %v", lines, expected)
	}
}
