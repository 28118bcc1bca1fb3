// Package recorded holds handlers against the cases that were recorded of PHP, in
// the process of a test. The test binary runs under harness.Main.
package recorded

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// Open answers the cases of a folder, and a stage with their tables, which is gone
// when the test ends.
func Open(t testing.TB, dir string) (*contract.Folder, *stage.Stage) {
	t.Helper()
	folder, err := contract.LoadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := folder.Schema()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stage.Open(t.Context(), stage.Config{DSN: harness.Shared(t).DSN(""), Namespace: filepath.Base(dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return folder, s
}

// Named answers a case of a folder.
func Named(t testing.TB, folder *contract.Folder, name string) contract.Case {
	t.Helper()
	for _, c := range folder.Cases {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s in %s", name, folder.Dir)
	return contract.Case{}
}

// Verify holds a side against what PHP did, and in cases with a deviation against
// what is declared; and a shadow run against the real one. Each case is a test.
func Verify(t *testing.T, folder *contract.Folder, s *stage.Stage, side stage.Shadower) {
	for _, c := range folder.Cases {
		t.Run(c.Name, func(t *testing.T) {
			report, err := s.Verify(t.Context(), stage.Suite{Folder: folder, Cases: []contract.Case{c}}, side)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK() {
				return
			}
			var text strings.Builder
			if err := report.Text(&text, false); err != nil {
				t.Fatal(err)
			}
			t.Error(text.String())
		})
	}
}
