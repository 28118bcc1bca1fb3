package conduit

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestB42TheFormCarriesEveryCharacter(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	for _, class := range []string{"A+&=%20%", "Ä\u2028😀", `"\'<>`, "a\r\nb\tc", "params[x]=1&api.token=y", strings.Repeat("é", 32)} {
		task := p.leasedOf(class)
		task.Lease.Owner += "+&=%"
		p.locked(func() { p.leases[ref(task)] = true })
		want(t, execute(t, e, task), tasks.Succeeded, "")
		if p.executed[ref(task)] != 1 {
			t.Errorf("class %q did not arrive as it is", class)
		}
	}
}

func TestB42RequestsHaveTheFormThatPhorgeDecodes(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	execute(t, e, p.leased())
	for _, c := range p.calls {
		if c.Method != "POST" || c.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || c.URL.RawQuery != "" {
			t.Errorf("%s %s %s", c.Method, c.URL, c.Header)
		}
		if c.Header.Get("Cookie") != "phsid=A/gantry" {
			t.Errorf("cookie %q", c.Header.Get("Cookie"))
		}
		if c.ContentLength <= 0 {
			t.Errorf("content length %d", c.ContentLength)
		}
	}
}

func TestB42AnotherHostIsSentToTheAddress(t *testing.T) {
	p := newPhorge(t)
	p.host = "phorge.example.com"
	e, _ := startAny(t, configured(p))
	if problem := e.State().Problem; e.Ready("PhabricatorTestWorker") || !strings.Contains(problem, "Site Not Found") || !strings.Contains(problem, "set conduit_host to the one of its base-uri") {
		t.Errorf("problem %q", problem)
	}
	c := configured(p)
	c.Host = "phorge.example.com"
	e, _ = start(t, c)
	want(t, execute(t, e, p.leased()), tasks.Succeeded, "")
}

func TestB50GoEmitsIntegersAsIntegers(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	task := p.leased()
	task.ID = 4294967295
	p.locked(func() { p.leases[ref(task)] = true })
	want(t, execute(t, e, task), tasks.Succeeded, "")
	whole := regexp.MustCompile(`^[0-9]+$`)
	for _, c := range p.calls {
		var params struct{ Timestamp json.RawMessage }
		var body struct {
			Tasks []struct{ ID json.RawMessage }
		}
		if err := json.Unmarshal([]byte(c.PostForm.Get("params")), &params); err != nil || !whole.Match(params.Timestamp) {
			t.Errorf("timestamp %s, %v", params.Timestamp, err)
		}
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Error(err)
		}
		for _, task := range body.Tasks {
			if string(task.ID) != "4294967295" {
				t.Errorf("id %s", task.ID)
			}
		}
	}
}

func TestEveryRequestIsSignedForItself(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	nonces := map[string]bool{}
	failing := 3
	p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
		var params signature
		_ = json.Unmarshal([]byte(c.PostForm.Get("params")), &params)
		if nonces[params.Nonce] || !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(params.Nonce) {
			t.Errorf("nonce %q", params.Nonce)
		}
		nonces[params.Nonce] = true
		if failing--; failing > 0 {
			page(w, 503, "Busy")
			return true
		}
		return false
	})
	if _, err := e.Check(t.Context()); err != nil { // it repeats
		t.Error(err)
	}
	if len(nonces) != 3 {
		t.Errorf("%d requests", len(nonces))
	}
}

func TestNothingIsSentToWhereARedirectLeads(t *testing.T) {
	p := newPhorge(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was redirected") }))
	defer elsewhere.Close()
	p.setMeddle(func(c *conduitCall, w http.ResponseWriter) bool {
		http.Redirect(w, c.Request, elsewhere.URL, http.StatusPermanentRedirect)
		return true
	})
	e, _ := startAny(t, configured(p))
	if problem := e.State().Problem; !strings.Contains(problem, elsewhere.URL) {
		t.Errorf("problem %q", problem)
	}
}

func TestWhatWasNeverSentIsTriedAgain(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	address := p.Listener.Addr().String()
	handler := p.Config.Handler
	p.Close()
	e.client.close()
	server := httptest.NewUnstartedServer(handler)
	defer func() { server.Close() }()
	e.client.runs.RequestLogHook = func(_ retryablehttp.Logger, _ *http.Request, attempt int) {
		if attempt == 1 { // the server comes up after the first attempt
			listener, err := net.Listen("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			_ = server.Listener.Close()
			server.Listener = listener
			server.Start()
		}
	}
	want(t, execute(t, e, p.leased()), tasks.Succeeded, "")
}

func TestAServerThatIsAwayCostsNothing(t *testing.T) {
	p := newPhorge(t)
	e, buffer := start(t, configured(p))
	p.Close()
	e.client.close() // an idle connection could not tell what became of a request
	want(t, execute(t, e, p.leased()), tasks.Released, "connection refused")
	eventually(t, "it was asked for again", func() bool { return strings.Contains(e.State().Problem, "worker.capabilities") })
	if e.Ready("PhabricatorTestWorker") {
		t.Error("it is ready")
	}
	if n := strings.Count(buffer.String(), `"level":"warn"`); n != 1 {
		t.Errorf("%d warnings: %s", n, buffer)
	}
}

// secure answers a stub behind TLS and the file of its certificate.
func secure(t *testing.T) (p *phorge, server *httptest.Server, caFile string) {
	p = newPhorge(t)
	server = httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return p, server, caFile
}

func TestTLSWithAnAuthorityOfItsOwn(t *testing.T) {
	p, server, caFile := secure(t)
	c := configured(p)
	c.URL, c.CAFile = server.URL, caFile
	for _, name := range []struct {
		host, serverName, problem string
	}{
		{"", "", ""},
		{"example.com", "", ""}, // the certificate of httptest is for it
		{"other.test", "", "certificate is valid for"},
		{"other.test:443", "example.com", ""},
		{"", "other.test", "certificate is valid for"},
	} {
		t.Run(name.host+" "+name.serverName, func(t *testing.T) {
			c := c
			c.Host, c.ServerName = name.host, name.serverName
			e, _ := startAny(t, c)
			if problem := e.State().Problem; (name.problem == "") != (problem == "") || !strings.Contains(problem, name.problem) {
				t.Fatalf("problem %q", problem)
			}
			kind := tasks.Succeeded
			if name.problem != "" {
				kind = tasks.Released // nothing was sent
			}
			want(t, execute(t, e, p.leased()), kind, name.problem)
		})
	}
}

func TestACertificateOfNobodyIsNotTrusted(t *testing.T) {
	p, server, _ := secure(t)
	c := configured(p)
	c.URL = server.URL
	e, _ := startAny(t, c)
	if problem := e.State().Problem; !strings.Contains(problem, "certificate signed by unknown authority; name the file with the certificate of that authority with conduit_ca") {
		t.Errorf("problem %q", problem)
	}
	if len(p.calls) > 0 {
		t.Error("a request came through")
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "not.pem")
	if err := os.WriteFile(notPEM, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{URL: "https://phorge.example.com/", Namespace: "phorge", KeyID: "k", Key: testKey}
	for _, c := range []struct {
		name    string
		change  func(*Config)
		problem string // "" is accepted
	}{
		{"all is well", func(*Config) {}, ""},
		{"loopback by address", func(c *Config) { c.URL = "http://127.0.0.1:8080" }, ""},
		{"loopback by name", func(c *Config) { c.URL = "http://localhost" }, ""},
		{"loopback in IPv6", func(c *Config) { c.URL = "http://[::1]:81/" }, ""},
		{"plain http elsewhere", func(c *Config) { c.URL = "http://phorge.example.com" }, "use https"},
		{"plain http to what only looks like loopback", func(c *Config) { c.URL = "http://127.0.0.1.example.com" }, "use https"},
		{"no URL", func(c *Config) { c.URL = "" }, "https://phorge.example.com/"},
		{"no scheme", func(c *Config) { c.URL = "phorge.example.com" }, "https://phorge.example.com/"},
		{"another scheme", func(c *Config) { c.URL = "ftp://phorge.example.com" }, "https://phorge.example.com/"},
		{"a user in the URL", func(c *Config) { c.URL = "https://me:hunter22@phorge.example.com" }, "leave it out"},
		{"a URL that cannot be read", func(c *Config) { c.URL = "https://me:hunter22@phorge.example.com:x%" }, "cannot be read"},
		{"a query", func(c *Config) { c.URL = "https://phorge.example.com/?a=b" }, "query"},
		{"no namespace", func(c *Config) { c.Namespace = "" }, "storage.default-namespace"},
		{"a namespace of two lines", func(c *Config) { c.Namespace = "a\nb" }, "line breaks"},
		{"no key id", func(c *Config) { c.KeyID = "" }, "KeyID"},
		{"a key id that Phorge does not take", func(c *Config) { c.KeyID = "my key" }, "KeyID"},
		{"a short key", func(c *Config) { c.Key = "short" }, "at least 32 bytes"},
		{"too many tasks", func(c *Config) { c.TasksPerCall = 65 }, "1 to 64"},
		{"fewer than no connections", func(c *Config) { c.Connections = -1 }, "positive"},
		{"a host that is a URL", func(c *Config) { c.Host = "https://x/" }, "host name"},
		{"no such CAFile", func(c *Config) { c.CAFile = "/nonexistent" }, "conduit_ca: open /nonexistent"},
		{"a CAFile without certificates", func(c *Config) { c.CAFile = notPEM }, "conduit_ca: " + notPEM + " has no certificate in PEM form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := good
			c.change(&config)
			_, err := New(config)
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("error %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), testKey)) {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

func TestTheSecretPrintsAsAPlaceholder(t *testing.T) {
	c := Config{URL: "https://phorge.example.com", Namespace: "phorge", KeyID: testKeyID, Key: testKey}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := json.Marshal(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(c.Key), fmt.Sprintf("%s %q %v %x %d %+v %#v", c.Key, c.Key, c.Key, c.Key, c.Key, c.Key, c.Key),
		fmt.Sprintf("%v %+v %#v", c, c, c), fmt.Sprintf("%+v", &c), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", *e.client),
		string(inJSON),
	} {
		if strings.Contains(text, testKey) || strings.Contains(text, fmt.Sprintf("%x", testKey)) {
			t.Errorf("%s", text)
		}
	}
}

// The value was computed with `openssl dgst -sha256 -hmac`.
func TestTheSignatureIsTheOneOfTheCanonicalString(t *testing.T) {
	got := Secret(testKey).sign("worker.execute", "phorge", testKeyID, "00112233445566778899aabbccddeeff", `{"mode":"run","tasks":[]}`, time.Unix(1900000000, 5))
	if want := "8485a9dfd00686f3920de1c35e4ada7c2e316e9ad0082211e3ff06e287cbc0b9"; got.Signature != want {
		t.Errorf("signature %s, not %s", got.Signature, want)
	}
}

func TestCheckSaysWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct{ name, result, problem string }{
		{"another protocol", `{"protocol":2,"namespace":"phorge","maxTasks":64}`, "protocol 2"},
		{"another namespace", `{"protocol":1,"namespace":"other","maxTasks":64}`, `"other"`},
		{"no room for tasks", `{"protocol":1,"namespace":"phorge","maxTasks":0}`, "maxTasks"},
		{"not an object", `"ok"`, "cannot be read"},
		{"an empty allowlist as a map", `{"protocol":1,"namespace":"phorge","maxTasks":"64","taskClasses":{}}`, ""},
	} {
		p := newPhorge(t)
		p.setMeddle(func(call *conduitCall, w http.ResponseWriter) bool {
			call.answer(w, c.result)
			return true
		})
		e, err := New(configured(p))
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Check(t.Context())
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v", c.name, err)
		}
		_ = e.Close()
	}
}

func TestCheckAnswersTheCapabilities(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	got, err := e.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Namespace != "phorge" || got.Phorge != "1f" || got.PHP != "8.2.1" || got.MaxTasks != 64 || got.MaxBody != 65536 ||
		got.DatabaseTime == 0 || !slices.Equal(got.KeyIDs, []string{testKeyID}) || !slices.Equal(got.Publishers, []string{"DoorkeeperJIRAFeedWorker"}) || !slices.Equal(got.TaskClasses, p.classes) {
		t.Errorf("capabilities %+v", got)
	}
}

func TestThePasswordsOfPagesAreNotRead(t *testing.T) {
	_, err := parseEnvelope(500, http.Header{"Content-Type": {"text/html"}}, []byte("<title>Oops</title> hunter22 at line 5"))
	if err == nil || strings.Contains(err.Error(), "hunter22") || !strings.Contains(err.Error(), "Oops") {
		t.Errorf("error %v", err)
	}
}
