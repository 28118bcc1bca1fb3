package live

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/gateway"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestB42AGatewayStandsBeforeAPhorge calls a real Phorge, which knows one host
// name, through a gateway that is reached by another.
func TestB42AGatewayStandsBeforeAPhorge(t *testing.T) {
	g := newGround(t)
	secret, digest := token.New()
	gate, err := gateway.New(gateway.Config{
		URL: g.web.URL(), Log: quiet(t),
		Tokens: []gateway.Token{{Name: "live", Digests: []string{digest}, Allow: []string{"user.*", "worker.*"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = gate.Server()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Service-Token", secret)
		gate.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(func() { server.Close(); _ = gate.Close() })

	params, err := json.Marshal(map[string]any{"__conduit__": map[string]string{"token": g.world.Alice.Token}})
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"params": {string(params)}, "output": {"json"}, "__conduit__": {"1"}}.Encode()
	answers := map[string]string{}
	for name, address := range map[string]string{"straight": g.web.URL(), "through": server.URL} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/api/user.whoami", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Cookie", "phsid=A/live")
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v\n%s", name, answer.Status, err, text)
		}
		answers[name] = string(text)
	}
	if answers["through"] != answers["straight"] || !strings.Contains(answers["through"], g.world.Alice.PHID) {
		t.Errorf("straight %s\nthrough  %s", answers["straight"], answers["through"])
	}

	// The library lets signed calls in over TLS only, once they have come through
	// anything. Without it, it says so, through the gateway as well.
	e, err := conduit.New(conduit.Config{
		URL: server.URL, Namespace: g.Namespace(), KeyID: g.keys[0].ID, Key: conduit.Secret(g.keys[0].Secret), Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if problem := e.State().Problem; !strings.Contains(problem, "ERR-GANTRY-TLS") {
		t.Errorf("problem %q, want the refusal of a call without TLS", problem)
	}

	// With TLS they pass.
	g.believeForwarded(t)
	secure := httptest.NewUnstartedServer(nil)
	secure.Config = gate.Server()
	secure.Config.Handler = server.Config.Handler
	secure.StartTLS()
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := conduit.New(conduit.Config{
		URL: secure.URL, CAFile: authority, ServerName: "example.com",
		Namespace: g.Namespace(), KeyID: g.keys[0].ID, Key: conduit.Secret(g.keys[0].Secret), Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.Ready(harness.LiveWorker) {
		t.Fatalf("not ready: %s", s.State().Problem)
	}
	task := g.lease(t, nil)
	outcome := s.Execute(t.Context(), tasks.Task{ID: task.ID, Class: harness.LiveWorker, Lease: &tasks.Lease{Owner: task.Owner}}, nil)
	if outcome.Kind != tasks.Succeeded || g.ran(t, task.ID) != 1 {
		t.Errorf("the task came to %s, %q, and ran %d times", outcome.Kind, outcome.Reason, g.ran(t, task.ID))
	}
}

// believeForwarded has PHP believe a proxy that says that it was called over TLS,
// as Phorge's guide has it, until the test ends.
func (g *ground) believeForwarded(t *testing.T) {
	t.Helper()
	preamble := filepath.Join(g.Root(), "support", "preamble.php")
	text := "<?php if (@$_SERVER['HTTP_X_FORWARDED_PROTO'] == 'https') { $_SERVER['HTTPS'] = 'on'; }"
	if err := os.WriteFile(preamble, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(preamble) })
}

// trusting answers a client that trusts an authority and no other.
func trusting(t *testing.T, authority string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}
