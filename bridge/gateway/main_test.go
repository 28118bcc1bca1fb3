package gateway

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tokens of the tests. They must never be seen beyond the gateway.
const (
	testToken  = "correct-horse-battery-staple"
	otherToken = "another-horse-battery-staple"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

const pong = `{"result":"pong","error_code":null,"error_info":null}`

// phorge is a Phorge as far as HTTP goes. It keeps what it was sent.
type phorge struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	calls  []seen
	answer http.HandlerFunc
	serve  http.HandlerFunc // in the place of all this
}

// seen is a call as the Phorge saw it.
type seen struct {
	method, uri, host string
	header            http.Header
	chunked           bool
	length            int64
	body              string
}

func newPhorge(t *testing.T) *phorge {
	p := &phorge{t: t}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = io.WriteString(w, pong)
	}
	return p
}

func (p *phorge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	answer, serve := p.answer, p.serve
	p.mu.Unlock()
	if serve != nil {
		serve(w, r)
		return
	}
	var body strings.Builder
	_, _ = io.Copy(&body, r.Body)
	p.mu.Lock()
	p.calls = append(p.calls, seen{
		method: r.Method, uri: r.RequestURI, host: r.Host, header: r.Header,
		chunked: len(r.TransferEncoding) > 0, length: r.ContentLength, body: body.String(),
	})
	p.mu.Unlock()
	answer(w, r)
}

func (p *phorge) answers(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = h
}

// all answers the calls that came.
func (p *phorge) all() []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]seen(nil), p.calls...)
}

// only answers the one call that came since it was last asked.
func (p *phorge) only(t *testing.T) seen {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) != 1 {
		t.Fatalf("the Phorge got %d calls, want 1: %v", len(p.calls), p.calls)
	}
	call := p.calls[0]
	p.calls = nil
	return call
}

// gate is a gateway that listens.
type gate struct {
	*Gateway
	*httptest.Server
	logged *harness.Buffer
}

// configured answers the configuration in front of a Phorge, with one caller
// who may call everything.
func configured(url string) Config {
	return Config{
		URL:    url,
		Tokens: []Token{{Name: "build", Digests: []string{token.Digest(testToken)}, Allow: []string{"*"}}},
		Stall:  patience, Answer: patience, Connect: patience,
	}
}

func start(t *testing.T, c Config) *gate {
	t.Helper()
	logged := &harness.Buffer{}
	c.Log = zerolog.New(logged)
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	g.linger = 20 * time.Millisecond
	server := httptest.NewUnstartedServer(nil)
	server.Config = g.Server()
	server.Start()
	t.Cleanup(func() {
		server.Close()
		_ = g.Close()
		for _, secret := range []string{testToken, otherToken, "secret"} {
			if strings.Contains(logged.String(), secret) {
				t.Errorf("the log has %q: %s", secret, logged)
			}
		}
	})
	return &gate{g, server, logged}
}

// reply is what a caller got.
type reply struct {
	status int
	header http.Header
	body   string
	code   string // of the gateway's or Conduit's envelope
}

// send sends a call with the token, unless it has one.
func (g *gate) send(t *testing.T, r *http.Request) reply {
	t.Helper()
	if r.Header.Get("X-Service-Token") == "" && r.Header.Get("Authorization") == "" && !r.URL.Query().Has("token") {
		r.Header.Set("X-Service-Token", testToken)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, answer)
}

func read(t *testing.T, answer *http.Response) reply {
	t.Helper()
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("the answer broke off: %v", err)
	}
	var envelope struct {
		Code string `json:"error_code"`
	}
	_ = json.Unmarshal(text, &envelope) // not every answer is JSON
	return reply{answer.StatusCode, answer.Header, string(text), envelope.Code}
}

// call answers a call of a method, by POST when there is a body.
func (g *gate) call(t *testing.T, method, body string) *http.Request {
	t.Helper()
	verb, content := http.MethodGet, io.Reader(nil)
	if body != "" {
		verb, content = http.MethodPost, strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), verb, g.URL+"/api/"+method, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// raw sends bytes as they are, and answers what comes back, until the end.
func (g *gate) raw(t *testing.T, text string) (*bufio.Reader, net.Conn) {
	t.Helper()
	connection, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(connection), connection
}

func readRaw(t *testing.T, from *bufio.Reader) reply {
	t.Helper()
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, answer)
}

// want fails the test unless a reply is a refusal of the gateway.
func want(t *testing.T, what string, got reply, status int, code string) {
	t.Helper()
	if got.status != status || got.code != code {
		t.Errorf("%s: answered %d %s; want %d %s", what, got.status, got.body, status, code)
	}
	var envelope map[string]any
	if err := json.Unmarshal([]byte(got.body), &envelope); err != nil || len(envelope) != 3 || envelope["result"] != nil || envelope["error_info"] == "" {
		t.Errorf("%s: %q is not Conduit's envelope: %v", what, got.body, err)
	}
}
