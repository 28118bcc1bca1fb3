package live

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// contractCommand runs a command of gantry contract and answers what it printed and its
// exit code.
func contractCommand(t *testing.T, gantry string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(gantry, append([]string{"contract"}, args...)...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	cmd.Env = append(os.Environ(), "GANTRY_CONFIG=", "GANTRY_PHORGE=", "GANTRY_PLUGINS=")
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return both.String(), cmd.ProcessState.ExitCode()
}

// TestTheContractCommandsAgree records a folder, verifies it without the Phorge
// and runs it live.
func TestTheContractCommandsAgree(t *testing.T) {
	live := harness.Live(t)
	options, err := live.Options(t.Context())
	if err != nil || !slices.Contains(options, "phabricator.silent") || slices.Contains(options, "phabricator.slient") {
		t.Errorf("the options of the Phorge are %q, %v", options, err)
	}
	from, err := harness.FindPhorge()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/gantry", "../../cmd/handler-herald").CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	gantry, manifest, cases := filepath.Join(dir, "gantry"), filepath.Join(dir, "plugins.yaml"), filepath.Join(dir, "cases")
	text := "plugins:\n  - path: handler-herald\n    phorge: true\n    classes: {HeraldWebhookWorker: {}}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gantry, "plugins", "pin", "--plugins", manifest).CombinedOutput(); err != nil {
		t.Fatalf("pin the handler: %v\n%s", err, out)
	}
	sent, refused := webhookCase("http://{{receiver hook}}/x"), webhookCase("http://{{receiver hook}}/x", contract.Answer{Status: 500})
	sent.Name, refused.Name = "sent", "refused"
	content, err := contract.EncodeCases([]contract.Case{sent, refused})
	if err != nil {
		t.Fatal(err)
	}
	// What the handler reads beside what the cases name.
	world := "rows: {maniphest.maniphest_transaction: []}\n"
	for name, text := range map[string]string{"cases.yaml": string(content), "world.yaml": world} {
		if err := os.MkdirAll(cases, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cases, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	phorge := []string{"--cases", cases, "--phorge", from.Phorge, "--arcanist", from.Arcanist}

	out, code := contractCommand(t, gantry, append([]string{"record"}, phorge...)...)
	if code != 0 || !strings.Contains(out, "2 new, 0 the same, 0 updated, 0 kept, 0 failed") {
		t.Fatalf("record: exit code %d\n%s", code, out)
	}
	out, code = contractCommand(t, gantry, "verify", "--cases", cases, "--plugins", manifest)
	if code != 0 || !strings.Contains(out, "2 cases, 2 equal") {
		t.Errorf("verify: exit code %d\n%s", code, out)
	}
	golden := filepath.Join(cases, "golden", "sent.yaml")
	recorded, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(recorded), "after: sent", "after: failed", 1)
	if err := os.WriteFile(golden, []byte(wrong), 0o600); err != nil || wrong == string(recorded) {
		t.Fatalf("change what was recorded: %v\n%s", err, recorded)
	}
	mistyped := filepath.Join(cases, "mistyped.yaml")
	if err := os.WriteFile(mistyped, []byte("cases: [{name: mistyped, taskClass: HeraldWebhokWorker, data: '{}'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = contractCommand(t, gantry, append([]string{"record"}, phorge...)...)
	if _, err := os.Stat(filepath.Join(cases, "golden", "mistyped.yaml")); err == nil || !strings.Contains(out, "this Phorge has no class HeraldWebhokWorker") {
		t.Errorf("a class that nobody has was recorded\n%s", out)
	}
	if err := os.Remove(mistyped); err != nil {
		t.Fatal(err)
	}
	if code != 1 || !strings.Contains(out, "sent (PHP): kept") || !strings.Contains(out, ".status.after\n    - Recorded: \"failed\"\n    + Now:      \"sent\"\n") {
		t.Errorf("record over another record: exit code %d\n%s", code, out)
	}
	out, code = contractCommand(t, gantry, append([]string{"live", "--plugins", manifest}, phorge...)...)
	if code != 0 || !strings.Contains(out, "2 cases, 2 equal") {
		t.Errorf("live: exit code %d\n%s", code, out)
	}
}
