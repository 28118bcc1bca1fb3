package live

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// What `plugins new` writes goes its whole way: PHP is recorded with its cases,
// the script for CI is content, and the test that draws cases runs as it is.
func TestANewPluginIsRecordedAndVerified(t *testing.T) {
	harness.Live(t) // skips without a Phorge
	from, err := harness.FindPhorge()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	phorge := scratch.Checkouts{} // that the module's own test finds
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GANTRY_CONFIG="+os.DevNull,
			"PHORGE_ROOT="+phorge.Phorge, "ARCANIST_ROOT="+phorge.Arcanist)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	root := filepath.Join("..", "..")
	run(root, "go", "build", "-o", bin, "./cmd/gantry")
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	gantry := filepath.Join(bin, "gantry")
	dir := filepath.Join(t.TempDir(), "handler-acme")
	run(".", gantry, "plugins", "new", dir, "--class=FeedPublisherWorker", "--class=HeraldWebhookWorker", "--gantry="+checkout)
	out := run(dir, gantry, "contract", "record", "--cases=cases", "--phorge="+from.Phorge, "--arcanist="+from.Arcanist)
	if !strings.Contains(out, "2 new, 0 the same, 0 updated, 0 kept, 0 failed") {
		t.Errorf("record says\n%s", out)
	}
	if out := run(dir, "./ci.sh"); !strings.Contains(out, "2 cases, 2 equal") {
		t.Errorf("ci.sh says\n%s", out)
	}
	phorge = from
	out = run(dir, "go", "test", "-count=1", "-v", "-run=Property", ".", "-rapid.checks=20")
	if strings.Count(out, "the handler came to map[declined:20]") != 2 || strings.Contains(out, "SKIP") {
		t.Errorf("the test that draws cases says\n%s", out)
	}
}
