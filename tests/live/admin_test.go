package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The admin's path of the README: check, run, look, with the pool and then with
// a key of one's own over Conduit.
func TestTheBinaryLeadsAnAdministratorThroughBothRoutes(t *testing.T) {
	g := newGround(t)
	a := newAdmin(t)

	a.says(t, "config check --phorge "+g.Root(), "ok       storage:", "ok       php: the pool's processes start with the library")
	a.queue(t, g)
	a.says(t, "tasks list --phorge "+g.Root(), "PhabricatorTestWorker       2       0        0        0  pool")
	a.says(t, "run --until-empty --phorge "+g.Root(), "2 tasks leased: 1 succeeded", "1 failed")
	a.says(t, "tasks show --archived --min-priority 1 --phorge "+g.Root(), "pool on ", "permanent: PhabricatorWorkerPermanentFailureException")

	keys := filepath.Join(a.dir, "keys.json")
	a.says(t, "keys new --conduit-key-file "+keys, "bin/config set gantry.key-file "+keys)
	file, err := json.Marshal(map[string]any{
		"dsn": g.DSN(), "conduit": g.web.URL(), "conduit_key_file": keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(a.dir, "gantry.yaml")
	if err := os.WriteFile(config, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := a.gantry("config check --config " + config); err == nil || !strings.Contains(out, "ERR-GANTRY-CREDENTIAL") {
		t.Errorf("before Phorge knows the key, the check says: %v\n%s", err, out)
	}
	g.configured(t, map[string]any{"gantry.key-file": keys}, func() {
		a.says(t, "config check --config "+config, "ok       php: worker.execute answers at "+g.web.URL())
		a.queue(t, g)
		a.says(t, "run --until-empty --config "+config, "2 tasks leased: 1 succeeded", "1 failed")
		a.says(t, "tasks show --archived --min-priority 1 --config "+config, "conduit on ", "permanent: PhabricatorWorkerPermanentFailureException")
		a.says(t, "keys new --conduit-key-file "+keys, "Key ")
		a.says(t, "config check --config "+config, " and ") // the ids of both keys
	})

	secrets := map[string]string{}
	content, err := os.ReadFile(keys)
	if err = errors.Join(err, json.Unmarshal(content, &secrets)); err != nil || len(secrets) != 2 {
		t.Fatalf("the file holds %d keys, %v", len(secrets), err)
	}
	for id, secret := range secrets {
		if strings.Contains(a.said.String(), secret) {
			t.Errorf("the secret of key %s was shown", id)
		}
	}
}

// admin runs the built program.
type admin struct {
	dir  string
	said bytes.Buffer // all of it
}

func newAdmin(t *testing.T) *admin {
	t.Helper()
	a := &admin{dir: t.TempDir()}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", a.dir, module+"cmd/gantry").CombinedOutput(); err != nil {
		t.Fatalf("build gantry: %v\n%s", err, out)
	}
	return a
}

// gantry runs a command line to its end and answers what it said.
func (a *admin) gantry(line string) (string, error) {
	cmd := exec.CommandContext(context.Background(), filepath.Join(a.dir, "gantry"), strings.Fields(line)...)
	out, err := cmd.CombinedOutput()
	a.said.Write(out)
	return string(out), err
}

// says checks that a command line succeeds and says all of this.
func (a *admin) says(t *testing.T, line string, wants ...string) {
	t.Helper()
	out, err := a.gantry(line)
	if err != nil {
		t.Fatalf("gantry %s: %v\n%s", line, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("gantry %s says\n%s\nand not %q", line, out, want)
		}
	}
}

// queue queues a task that succeeds and one that fails for good.
func (a *admin) queue(t *testing.T, g *ground) {
	t.Helper()
	for _, data := range []string{`{}`, `{"doWork":"fail-permanent"}`} {
		a.says(t, "tasks enqueue --class PhabricatorTestWorker --data "+data+" --phorge "+g.Root(), "was queued")
	}
}
