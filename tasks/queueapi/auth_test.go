package queueapi_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tasks/token"
)

// secrets are tokens by name; each has the right of its name.
var secrets = map[string]string{"enqueue": "secret-e", "work": "secret-w", "operate": "secret-o", "read": "secret-r"}

func withTokens(c *queueapi.Config) {
	for name, secret := range secrets {
		c.Tokens = append(c.Tokens, queueapi.Token{Name: name, Digest: token.Digest(secret), Instance: "main", Rights: []queueapi.Right{queueapi.Right(name)}})
	}
}

func TestATokenIsNeededAndGivesItsRightsOnly(t *testing.T) {
	s := serve(t, openMemory(t), withTokens)
	for _, c := range []struct{ method, path, right string }{
		{"POST", "enqueue", "enqueue"}, {"POST", "lease", "work"}, {"POST", "complete", "work"}, {"POST", "fail", "work"},
		{"POST", "yield", "work"}, {"POST", "renew", "work"}, {"POST", "settle", "work"}, {"POST", "cancel", "operate"},
		{"POST", "awaken", "operate"}, {"GET", "stats", "read"}, {"GET", "tasks", "read"}, {"GET", "tasks/1", "read"},
	} {
		path := "/api/queue/" + c.path
		for _, h := range []header{{}, {"X-Service-Token", "secret"}, {"X-Service-Token", token.Digest(secrets[c.right])}, {"Authorization", "Basic " + secrets[c.right]}} {
			if h[0] == "" {
				h = header{"X-Other", "x"}
			}
			s.refused(s.send(c.method, path, "", h), http.StatusUnauthorized, "ERR_UNAUTHORIZED")
		}
		s.refused(s.send(c.method, path+"?token="+secrets[c.right], ""), http.StatusUnauthorized, "ERR_UNAUTHORIZED")
		for name, secret := range secrets {
			for _, h := range []header{{"X-Service-Token", secret}, {"Authorization", "bearer " + secret}} {
				r := s.send(c.method, path, "", h)
				if allowed := r.status != http.StatusForbidden && r.status != http.StatusUnauthorized; allowed != (name == c.right) {
					t.Errorf("%s %s with the right %s answered %d", c.method, path, name, r.status)
				}
			}
		}
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/api/queue/openapi.yaml"} {
		if r := s.send("GET", path, ""); r.status != http.StatusOK {
			t.Errorf("%s without a token answered %d", path, r.status)
		}
	}
	logs := s.logs.String()
	for _, secret := range secrets {
		if strings.Contains(logs, secret) {
			t.Errorf("the token %s is in the log", secret)
		}
	}
	if !strings.Contains(logs, `"token":"work"`) {
		t.Error("the log does not name the caller")
	}
}

func TestATokenInTheQueryIsTakenWhereConfiguredAndNeverLogged(t *testing.T) {
	s := serve(t, openMemory(t), withTokens, func(c *queueapi.Config) { c.QueryToken = true })
	s.ok(s.get("stats?token=secret-r"))
	s.ok(s.get("tasks?limit=1&token=secret-r"))
	s.refused(s.get("stats?token=secret-x"), http.StatusUnauthorized, "ERR_UNAUTHORIZED")
	if strings.Contains(s.logs.String(), "secret-") {
		t.Errorf("the log has a token: %s", s.logs)
	}
}

// The same id in two instances is two tasks.
func TestATokenReachesItsInstanceOnly(t *testing.T) {
	one, two := openMemory(t), openMemory(t)
	s := serve(t, one, func(c *queueapi.Config) {
		c.Instances = map[string]queueapi.Instance{"one": {Store: one.Service}, "two": {Store: two.Service}}
		for _, name := range []string{"one", "two"} {
			c.Tokens = append(c.Tokens, queueapi.Token{Name: name, Digest: token.Digest(name), Instance: name,
				Rights: []queueapi.Right{queueapi.Enqueue, queueapi.Work, queueapi.Operate, queueapi.Read}})
		}
	})
	first, second := header{"X-Service-Token", "one"}, header{"X-Service-Token", "two"}
	key := header{"Idempotency-Key", "k"}
	a := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"1"}`, first, key))
	b := s.post("enqueue", `{"taskClass":"B","data":"2"}`, second, key)
	s.same("ids", []any{a.ID, read[task](s, b).ID, b.Duplicate}, []any{1, 1, false})
	leased := read[[]task](s, s.post("lease", `{"limit":9}`, first, owner("w")))
	s.same("leased", []any{len(leased), leased[0].TaskClass}, []any{1, "A"})
	s.refused(s.post("complete", held(leased[0]), second, owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
	s.ok(s.post("complete", held(leased[0]), first, owner("w")))
	for _, body := range []string{`{"taskClass":"A","data":"1","instance":"two"}`} {
		s.refused(s.post("enqueue", body, first), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}
}

func TestB44ATokenThatCallsTooOftenIsToldWhenToComeBack(t *testing.T) {
	s := serve(t, openMemory(t), func(c *queueapi.Config) {
		for _, name := range []string{"busy", "calm"} {
			c.Tokens = append(c.Tokens, queueapi.Token{Name: name, Digest: token.Digest(name), Instance: "main", Rights: []queueapi.Right{queueapi.Read}, Rate: 0.001, Burst: 2})
		}
	})
	busy := header{"X-Service-Token", "busy"}
	for range 2 {
		s.ok(s.send("GET", "/api/queue/stats", "", busy))
	}
	for range 3 { // being refused costs nothing
		r := s.send("GET", "/api/queue/stats", "", busy)
		s.refused(r, http.StatusTooManyRequests, "ERR_UNAVAILABLE")
		if after := r.header.Get("Retry-After"); after != "1000" {
			t.Errorf("Retry-After is %q, want the 1000 seconds that one call takes", after)
		}
	}
	s.ok(s.send("GET", "/api/queue/stats", "", header{"X-Service-Token", "calm"}))
}

func TestB42WithoutATokenOnlyThisMachineIsServedAndUnderItsOwnName(t *testing.T) {
	m := storetest.NewMemory(func() int64 { return 1 })
	api, err := queueapi.New(queueapi.Config{Instances: map[string]queueapi.Instance{"main": {Store: m}}})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for _, c := range []struct {
		remote, host, forwarded string
		served                  bool
	}{
		{"127.0.0.1:999", "127.0.0.1:8090", "", true},
		{"[::1]:999", "[::1]:8090", "", true},
		{"127.0.0.1:999", "localhost:8090", "", true},
		{"127.0.0.1:999", "localhost", "203.0.113.9", true},
		{"203.0.113.9:999", "127.0.0.1:8090", "127.0.0.1", false},
		{"127.0.0.1:999", "attacker.example:8090", "", false},
		{"127.0.0.1:999", "127.0.0.1.attacker.example", "", false},
	} {
		r := httptest.NewRequest("GET", "/api/queue/stats", nil)
		r.RemoteAddr, r.Host = c.remote, c.host
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if served := w.Code == http.StatusOK; served != c.served || !served && w.Code != http.StatusForbidden {
			t.Errorf("%+v was answered %d", c, w.Code)
		}
	}
}

// A browser asks nobody before it sends a call without a body for some page.
func TestB42WithoutATokenAPageOfAnotherSiteTakesNoTask(t *testing.T) {
	s := serve(t, openMemory(t))
	id := s.queue("[]")
	for _, h := range []header{
		{"Origin", "https://attacker.example"}, {"Origin", "null"}, {"Origin", "http://localhost:1"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		for _, path := range []string{"lease", "awaken", "settle", "enqueue"} {
			s.refused(s.post(path, "", h), http.StatusForbidden, "ERR_UNAUTHORIZED")
		}
	}
	s.same("the task", s.task(id).LeaseOwner, nil)
	leased := read[[]task](s, s.post("lease", "", header{"Origin", s.url}, header{"Sec-Fetch-Site", "same-origin"}))
	s.same("leased", idsOf(leased), []int64{id})
}

func TestB42WhoLeasesWithoutANameIsItsAddressNotWhatItClaims(t *testing.T) {
	s := serve(t, openMemory(t))
	id := s.queue("[]")
	leased := read[[]task](s, s.post("lease", "{}", header{"X-Forwarded-For", "203.0.113.9"}))
	s.same("leased", []any{leased[0].ID, leased[0].LeaseOwner}, []any{id, "127.0.0.1"})
	s.ok(s.post("complete", held(leased[0])))
}

func TestNamesThatDoNotFitAreRefused(t *testing.T) {
	s := serve(t, openMemory(t))
	s.queue("[]")
	for _, name := range []string{strings.Repeat("x", tasks.MaxCaller+1), "(yield)", "gantry:1:0:n:h", "é"} {
		for _, path := range []string{"lease", "complete", "renew", "settle"} {
			body := map[string]string{"lease": "{}", "settle": `{"settlements":[]}`}[path]
			if body == "" {
				body = `{"taskID":1}`
			}
			s.refused(s.post(path, body, owner(name)), http.StatusBadRequest, "ERR_BAD_REQUEST")
		}
	}
	name := strings.Repeat("x", tasks.MaxCaller)
	s.same("the longest", s.lease(name, 1)[0].LeaseOwner, name)
}

func TestConfigurationsThatWouldServeTheWrongPeopleAreRefused(t *testing.T) {
	m := storetest.NewMemory(func() int64 { return 1 })
	instances := map[string]queueapi.Instance{"a": {Store: m}, "b": {Store: m}}
	good := queueapi.Token{Name: "t", Digest: token.Digest("x"), Instance: "a", Rights: []queueapi.Right{queueapi.Read}}
	with := func(change func(*queueapi.Token)) queueapi.Config {
		t := good
		change(&t)
		return queueapi.Config{Instances: instances, Tokens: []queueapi.Token{t}}
	}
	for want, c := range map[string]queueapi.Config{
		"no instance":  {},
		"need tokens":  {Instances: instances},
		"no store":     {Instances: map[string]queueapi.Instance{"a": {}}},
		"two tokens":   {Instances: instances, Tokens: []queueapi.Token{good, good}},
		"no name":      with(func(t *queueapi.Token) { t.Name = "" }),
		"digest":       with(func(t *queueapi.Token) { t.Digest = "secret" }),
		"instance \"c": with(func(t *queueapi.Token) { t.Instance = "c" }),
		"no rights":    with(func(t *queueapi.Token) { t.Rights = nil }),
		"right \"all":  with(func(t *queueapi.Token) { t.Rights = []queueapi.Right{"all"} }),
		"rate":         with(func(t *queueapi.Token) { t.Rate = -1 }),
		"at least one": {Instances: instances, Tokens: []queueapi.Token{good}, LeaseTime: 1},
		"negative":     {Instances: instances, Tokens: []queueapi.Token{good}, MaxWaiters: -1},
	} {
		_, err := queueapi.New(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has what stood in the place of a digest: %v", err)
		}
	}
}

func TestWithoutATokenItListensOnThisMachineOnlyAndSaysSo(t *testing.T) {
	s := serve(t, openMemory(t))
	for _, address := range []string{":0", "127.0.0.1:0", "localhost:0", "[::1]:0"} {
		listener, err := s.api.Listen(address)
		if err != nil {
			if address == "[::1]:0" {
				continue // no IPv6 here
			}
			t.Fatal(err)
		}
		if ip := listener.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%s listens on %s", address, ip)
		}
		listener.Close()
	}
	if !strings.Contains(s.logs.String(), "no token is configured") {
		t.Error("the log does not say it")
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "example.com:1", "8090"} {
		if listener, err := s.api.Listen(address); err == nil {
			listener.Close()
			t.Errorf("it listens on %s", address)
		}
	}
	open := serve(t, openMemory(t), withTokens)
	listener, err := open.api.Listen(":0")
	if err != nil || listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Fatalf("with a token it listens on %v (%v)", listener, err)
	}
	listener.Close()
}

func TestRequestIDsAreTakenWhenTheyAreSane(t *testing.T) {
	s := serve(t, openMemory(t))
	for id, taken := range map[string]bool{"abc-1_2.3:4": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "a b": false, `a"b`: false, "": false} {
		r := s.send("GET", "/healthz", "", header{"X-Request-Id", id})
		got := r.header.Get("X-Request-Id")
		if got == "" || (got == id) != taken {
			t.Errorf("%q was answered with %q", id, got)
		}
	}
	s.get("tasks/4000000?token=hush")
	line := s.logs.String()
	for _, want := range []string{`"method":"GET"`, `"path":"/api/queue/tasks/4000000"`, `"status":404`, `"instance":"main"`, `"requestID":"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if strings.Contains(line, "hush") {
		t.Error("the log has the query")
	}
}

var errSecret = errors.New("SELECT data FROM worker_taskdata on db.internal /var/lib/mysql")

// hidden fails a test when an answer shows what only the log may have.
func (s *scene) hidden(r reply) {
	s.Helper()
	for _, word := range []string{"SELECT", "db.internal", "/var/lib"} {
		if strings.Contains(r.body, word) {
			s.Errorf("the answer has %s: %s", word, r.body)
		}
	}
}
