package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// conduitStub is a Conduit: conduit.ping answers at once, user.slow once it is
// told to. It keeps what it was sent.
type conduitStub struct {
	*httptest.Server
	slow    atomic.Int32 // calls that wait
	release chan struct{}
	heard   atomic.Pointer[http.Request]
}

const pong = `{"result":"stub","error_code":null,"error_info":null}`

func newConduitStub(t *testing.T) *conduitStub {
	stub := &conduitStub{release: make(chan struct{})}
	stub.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody would notice that the caller left
		stub.heard.Store(r)
		if r.URL.Path == "/api/user.slow" {
			stub.slow.Add(1)
			select {
			case <-stub.release:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, pong)
	}))
	t.Cleanup(stub.Close)
	return stub
}

// gatewaySite is a built gantry, with a Conduit to stand in front of.
type gatewaySite struct {
	site
	stub   *conduitStub
	tokens string // the file
	token  string // of the caller "build"
}

// TestGateway runs the built program in front of a Conduit.
func TestGateway(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	for _, c := range []struct {
		name string
		test func(*gatewaySite)
	}{
		{"callers are let in by their tokens and each call is logged", gatewayLetsIn},
		{"the first signal lets calls end", gatewayDrains},
		{"the second signal cuts calls off", gatewayStops},
		{"it speaks TLS", gatewaySpeaksTLS},
		{"calls are counted", gatewayCounts},
		{"what is wrong is said before it starts", gatewayRefuses},
		{"config check asks the Phorge", gatewayIsChecked},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &gatewaySite{site: site{t: t, dir: dir}, stub: newConduitStub(t), tokens: filepath.Join(t.TempDir(), "tokens.yaml")}
			s.env = []string{"PATH=/nonexistent", "GANTRY_CONFIG=" + writeFile(t, "gantry.yaml", "", 0o600),
				"GANTRY_TOKENS=" + s.tokens, "GANTRY_GATEWAY=" + s.stub.URL, "GANTRY_GATEWAY_LISTEN=127.0.0.1:0"}
			var made tokenReport
			got := s.gantry("tokens", "new", "build", "--allow=conduit.ping,user.*", "--output=json")
			if err := json.Unmarshal([]byte(got.out), &made); err != nil || got.code != exitOK || made.Token == "" {
				t.Fatalf("a token: %v, exit code %d, %s%s", err, got.code, got.out, got.err)
			}
			s.token = made.Token
			c.test(s)
		})
	}
}

// begin starts a gateway and answers its address.
func (s *gatewaySite) begin(args ...string) (*running, string) {
	s.t.Helper()
	run := s.start(append([]string{"gateway"}, args...)...)
	var line struct{ Address string }
	harness.Eventually(s.t, "it takes calls", func() bool {
		for text := range strings.Lines(run.err.String()) {
			if strings.Contains(text, "taking calls") && json.Unmarshal([]byte(text), &line) == nil {
				return true
			}
		}
		return false
	})
	return run, line.Address
}

// call calls a method and answers the status and the body.
func (s *gatewaySite) call(client *http.Client, url, method string, header ...string) (int, string, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url+"/api/"+method, strings.NewReader("output=json"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func gatewayLetsIn(s *gatewaySite) {
	t := s.t
	shy, digest := token.New()
	file := fmt.Sprintf("tokens:\n- name: build\n  allow: [conduit.ping, user.*]\n  digest: %s\n"+
		"- name: shy\n  allow: [\"*\"]\n  deny: [user.*]\n  exempt: [conduit.ping]\n  digest: %s\n  rate: 0.001\n  burst: 1\n",
		token.Digest(s.token), digest)
	if err := os.WriteFile(s.tokens, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, s.gantry("tokens", "list"), exitOK, "NAME   INSTANCE  RIGHTS  METHODS\nbuild  -         -       conduit.ping, user.*\nshy    -         -       *\n", "")

	run, address := s.begin("--gateway-host=phorge.example.com")
	for _, c := range []struct {
		what, method, header, value string
		status                      int
		code                        string
	}{
		{"a caller", "conduit.ping", "X-Service-Token", s.token, 200, ""},
		{"the same by another header", "user.whoami", "Authorization", "Bearer " + s.token, 200, ""},
		{"a method that it may not call", "differential.query", "X-Service-Token", s.token, 403, "ERR-CONDUIT-AUTH"},
		{"no token", "conduit.ping", "X-Other", "x", 401, "ERR-CONDUIT-AUTH"},
		{"a token for the digest", "conduit.ping", "X-Service-Token", digest, 401, "ERR-CONDUIT-AUTH"},
		{"a method that is denied", "user.whoami", "X-Service-Token", shy, 403, "ERR-CONDUIT-AUTH"},
		{"the one call of a rate", "file.info", "X-Service-Token", shy, 200, ""},
		{"one too many", "file.info", "X-Service-Token", shy, 429, "ERR-RATE-LIMIT"},
		{"one that is not counted", "conduit.ping", "X-Service-Token", shy, 200, ""},
	} {
		status, body, err := s.call(http.DefaultClient, "http://"+address, c.method, c.header, c.value)
		var envelope struct {
			Code string `json:"error_code"`
		}
		if json.Unmarshal([]byte(body), &envelope) != nil || err != nil || status != c.status || envelope.Code != c.code || status == 200 && body != pong {
			t.Errorf("%s: %d, %s, %v", c.what, status, body, err)
		}
	}
	if heard := s.stub.heard.Load(); heard.Host != "phorge.example.com" || heard.Header.Get("X-Service-Token") != "" || heard.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the Conduit hears Host %s, %v", heard.Host, heard.Header)
	}
	run.signal()
	got := run.wait()
	if got.code != exitOK || got.out != "" {
		t.Errorf("exit code %d, %s", got.code, got.out)
	}
	calls := 0
	for line := range strings.Lines(got.err) {
		if strings.Contains(line, `"message":"call"`) {
			calls++
		}
	}
	if want := `"method":"differential.query","caller":"build","status":403,`; calls != 9 || !strings.Contains(got.err, want) {
		t.Errorf("%d of 9 calls are logged, or not %s", calls, want)
	}
	for _, secret := range []string{s.token, shy} {
		if strings.Contains(got.err, secret) {
			t.Errorf("the log has a token: %s", got.err)
		}
	}
}

func gatewayCounts(s *gatewaySite) {
	run, address := s.begin("--metrics=127.0.0.1:0")
	counts := client{s.t, "http://" + s.metricsAt(run), ""}
	for _, method := range []string{"user.whoami", "user.query", "differential.query"} {
		if _, _, err := s.call(http.DefaultClient, "http://"+address, method, "X-Service-Token", s.token); err != nil {
			s.t.Fatal(err)
		}
	}
	var page string
	harness.Eventually(s.t, "all are counted", func() bool {
		_, page = counts.metrics()
		return strings.Contains(page, `gantry_gateway_calls_total{application="differential",status="403"} 1`)
	})
	if want := `gantry_gateway_calls_total{application="user",status="200"} 2`; !strings.Contains(page, want) {
		s.t.Errorf("the metrics lack %s:\n%s", want, page)
	}
	run.signal()
	if got := run.wait(); got.code != exitOK {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

// slowCall has a call under way, and answers how it ends.
func (s *gatewaySite) slowCall(address string) <-chan string {
	ended := make(chan string, 1)
	go func() {
		status, body, err := s.call(&http.Client{Transport: &http.Transport{}}, "http://"+address, "user.slow", "X-Service-Token", s.token)
		ended <- fmt.Sprintf("%d %s %t", status, body, err != nil)
	}()
	harness.Eventually(s.t, "a call is under way", func() bool { return s.stub.slow.Load() == 1 })
	return ended
}

func gatewayDrains(s *gatewaySite) {
	run, address := s.begin()
	ended := s.slowCall(address)
	run.signal()
	harness.Eventually(s.t, "nobody is let in any more", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(s.stub.release)
	if got := <-ended; got != "200 "+pong+" false" {
		s.t.Errorf("the call ended with %s", got)
	}
	if got := run.wait(); got.code != exitOK {
		s.t.Errorf("exit code %d", got.code)
	}
}

func gatewayStops(s *gatewaySite) {
	run, address := s.begin("--drain-timeout=1h")
	ended := s.slowCall(address)
	run.signal()
	harness.Eventually(s.t, "it drains", func() bool { return strings.Contains(run.err.String(), "stopping; a second signal") })
	run.signal()
	if got := run.wait(); got.code != exitOK {
		s.t.Errorf("exit code %d", got.code)
	}
	if got := <-ended; !strings.HasSuffix(got, "true") {
		s.t.Errorf("the call ended with %s", got)
	}
}

func gatewaySpeaksTLS(s *gatewaySite) {
	file, key := harness.Certificate(s.t)
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	_, address := s.begin("--gateway-certificate", file, "--gateway-certificate-key", key)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	if status, body, err := s.call(client, "https://"+address, "conduit.ping", "X-Service-Token", s.token); status != 200 || body != pong {
		s.t.Errorf("%d, %s, %v", status, body, err)
	}
	if heard := s.stub.heard.Load(); heard.Header.Get("X-Forwarded-Proto") != "https" {
		s.t.Errorf("the Conduit hears %v", heard.Header)
	}
	if status, _, err := s.call(http.DefaultClient, "http://"+address, "conduit.ping", "X-Service-Token", s.token); status == 200 {
		s.t.Errorf("plain HTTP: %d, %v", status, err)
	}
}

func gatewayRefuses(s *gatewaySite) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer taken.Close()
	forQueue := writeFile(s.t, "tokens.yaml", "tokens:\n  - {name: a, instance: b, rights: [read], digest: "+token.Digest("x")+"}\n", 0o600)
	for _, c := range []struct{ args, want string }{
		{"--tokens=" + forQueue, "gantry tokens new NAME --allow METHODS"},
		{"--tokens=/nonexistent/tokens.yaml", "/nonexistent/tokens.yaml"},
		{"--gateway-listen=" + taken.Addr().String(), "address already in use"},
		{"--gateway-listen=8150", "host and a port"},
		{"--gateway-certificate=" + forQueue, "go together"},
		{"--gateway-certificate=" + forQueue + " --gateway-certificate-key=" + forQueue, "gateway_certificate: tls: failed to find any PEM data"},
		{"--gateway-ca=" + forQueue, "has no certificate in PEM form"},
		{"--gateway=https://user:hunter2@phorge/", "has a user name"},
	} {
		got := s.gantry(append([]string{"gateway"}, strings.Fields(c.args)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "hunter2") || strings.Contains(got.err, "taking calls") {
			s.t.Errorf("%s: exit code %d, %s", c.args, got.code, got.err)
		}
	}
	s.env = append(s.env, "GANTRY_GATEWAY=")
	if got := s.gantry("gateway"); got.code != exitUsage || !strings.Contains(got.err, "name the Phorge with --gateway") {
		s.t.Errorf("in front of nothing: exit code %d, %s", got.code, got.err)
	}
}

func gatewayIsChecked(s *gatewaySite) {
	s.env = append(s.env, "GANTRY_SQLITE="+filepath.Join(s.t.TempDir(), "queue.db"))
	if got := s.gantry("config", "check"); got.code != exitOK || !strings.Contains(got.out, "gateway: "+s.stub.URL+" is a Phorge that answers") || strings.Contains(got.out, "tokens:") {
		s.t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	s.stub.Close()
	if got := s.gantry("config", "check"); got.code != exitFailed || !strings.Contains(got.out, "gateway: call conduit.ping at "+s.stub.URL) {
		s.t.Errorf("without a Phorge: exit code %d, %s%s", got.code, got.out, got.err)
	}
	s.tokens = "/nonexistent/tokens.yaml"
	s.env = append(s.env, "GANTRY_TOKENS="+s.tokens)
	if got := s.gantry("config", "check"); got.code != exitFailed || !strings.Contains(got.out, s.tokens) {
		s.t.Errorf("without tokens: exit code %d, %s%s", got.code, got.out, got.err)
	}
}
