package live

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// The way of the README: a token, a gateway with a certificate, and a Gantry that
// runs PHP through it.
func TestTheBinaryStandsBeforeAPhorgeAndRunsTasksThroughItself(t *testing.T) {
	g := newGround(t)
	g.believeForwarded(t)
	a := newAdmin(t)
	in := func(name string) string { return filepath.Join(a.dir, name) }
	write := func(name string, content any) {
		t.Helper()
		text, isText := content.(string)
		if !isText {
			encoded, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			text = string(encoded)
		}
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	out, err := a.gantry("tokens new live --allow conduit.*,worker.* --output json --tokens " + in("tokens.yaml"))
	var made struct{ Token string }
	if err != nil || json.Unmarshal([]byte(out), &made) != nil {
		t.Fatalf("tokens new: %v\n%s", err, out)
	}
	certificate, key := harness.Certificate(t)
	gate := startCommand(t, in("gantry"), "gateway", "--gateway", g.web.URL(), "--gateway-listen", "127.0.0.1:0",
		"--tokens", in("tokens.yaml"), "--gateway-certificate", certificate, "--gateway-certificate-key", key)
	var line struct{ Address string }
	harness.Eventually(t, "the gateway takes calls", func() bool {
		text, _, whole := strings.Cut(gate.log.String(), "\n")
		return whole && json.Unmarshal([]byte(text), &line) == nil && line.Address != ""
	})
	address := "https://" + line.Address + "/"
	write("token", made.Token+"\n")
	write("keys.json", map[string]string{g.keys[0].ID: g.keys[0].Secret})
	write("gantry.yaml", map[string]any{
		"dsn": g.DSN(), "conduit": address, "conduit_ca": certificate, "conduit_key_file": in("keys.json"),
		"conduit_token_file": in("token"), "gateway": g.web.URL(), "tokens": in("tokens.yaml"),
	})

	ping, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"api/conduit.ping", strings.NewReader("output=json"))
	if err != nil {
		t.Fatal(err)
	}
	ping.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	ping.Header.Set("X-Service-Token", made.Token)
	answer, err := trusting(t, certificate).Do(ping)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"error_code":null`) {
		t.Errorf("conduit.ping: %s, %s, %v", answer.Status, text, err)
	}

	a.says(t, "config check --config "+in("gantry.yaml"),
		"ok       php: worker.execute answers at "+address, "ok       gateway: "+g.web.URL()+" is a Phorge that answers")
	a.queue(t, g)
	a.says(t, "run --until-empty --config "+in("gantry.yaml"), "2 tasks leased: 1 succeeded", "1 failed")
	if err := gate.stop(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if said := gate.log.String(); !strings.Contains(said, `"method":"worker.execute","caller":"live","status":200`) || strings.Contains(said, made.Token) {
		t.Errorf("the gateway logged\n%s", said)
	}
	if strings.Contains(a.said.String(), g.keys[0].Secret) {
		t.Error("the secret of the key was shown")
	}
}
