package live

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// What the tests of php/ say of the stand-ins for Phorge's classes must hold for
// the classes of a Phorge.
func TestThePHPSuiteHoldsForARealPhorge(t *testing.T) {
	phpunit(t, harness.Live(t), "engine", "pool")
}

// Every task runs twice, by PhabricatorWorkerActiveTask and by
// GantryTaskEngine, and what the first left in the tables is what the second
// says.
func TestTheEngineSaysWhatAStockTaskmasterWrites(t *testing.T) {
	phpunit(t, harness.Live(t), "live/GantryStockComparison.php")
}

func TestB35ATaskAfterAnIdleTimeFindsAConnection(t *testing.T) {
	phpunit(t, harness.Live(t), "live/GantryIdleConnections.php")
}

func phpunit(t *testing.T, p *harness.Phorge, paths ...string) {
	t.Helper()
	library, err := filepath.Abs("../../php")
	if err != nil {
		t.Fatal(err)
	}
	reset, err := p.Override(map[string]any{"load-libraries": []string{
		filepath.Join(library, "src"), filepath.Join(library, "tests", "library", "src"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reset(); err != nil {
			t.Error(err)
		}
	})
	for _, path := range paths {
		cmd := exec.Command("phpunit", "--colors=never", path)
		cmd.Dir = filepath.Join(library, "tests")
		cmd.Env = append(os.Environ(), "GANTRY_TEST_PHORGE="+p.Root())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "OK (") {
			t.Errorf("phpunit %s: %v\n%s", path, err, out)
		}
	}
}
