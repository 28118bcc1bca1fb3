package harness

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// live is the Phorge of this test binary, installed on first use.
var live struct {
	phorge  *Phorge
	bare    func() error // makes its configuration what it was installed with
	err     error
	skipped []string // names of the tests that did not run
	why     string   // the reason of the latest
}

// Live answers the Phorge of this test binary with an empty queue and the
// configuration that it was installed with. Where no Phorge is installed, and in
// short runs, the test is skipped, and Main says so at the end. Tests that use it
// cannot run in parallel.
func Live(t testing.TB) *Phorge {
	t.Helper()
	if testing.Short() {
		skipLive(t, "this is a short run. `make live` proves it.")
	}
	server := Shared(t)
	shared.Lock()
	defer shared.Unlock()
	if live.phorge == nil && live.err == nil {
		if live.phorge, live.err = InstallPhorge(server, "live"); live.err == nil {
			live.bare, live.err = live.phorge.Override(nil)
		}
	}
	if errors.Is(live.err, ErrNoPhorge) {
		skipLive(t, fmt.Sprintf("there is none: %v. %s", live.err, getPhorge))
	}
	if live.err != nil {
		t.Fatal(live.err)
	}
	if err := errors.Join(live.bare(), live.phorge.Reset()); err != nil {
		t.Fatal(err)
	}
	return live.phorge
}

func skipLive(t testing.TB, why string) {
	t.Helper()
	live.skipped, live.why = append(live.skipped, t.Name()), why
	t.Skip("NOT PROVEN against a real Phorge, because " + why)
}

const getPhorge = "Clone https://we.phorge.it/source/phorge.git and https://we.phorge.it/source/arcanist.git, " +
	"install php-cli, php-mysql, php-mbstring and php-curl, and name the two directories in PHORGE_ROOT and ARCANIST_ROOT."

// endLive removes the Phorge of this test binary, or says what was skipped.
func endLive() error {
	if live.skipped != nil {
		fmt.Fprintf(os.Stderr, "harness: SKIPPED, and so not proven: %d tests against a real Phorge (%s), because %s\n",
			len(live.skipped), live.skipped[0], live.why)
	}
	if live.phorge == nil {
		return nil
	}
	return live.phorge.Remove()
}
