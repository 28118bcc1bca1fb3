package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMissingCheckoutSaysWhereToGetIt(t *testing.T) {
	phorge := t.TempDir()
	path := filepath.Join(phorge, "scripts", "__init_script__.php")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		from  Checkouts
		names []string
	}{
		{"no Phorge", Checkouts{Phorge: "/no/phorge", Arcanist: "/no/arcanist"},
			[]string{"/no/phorge", "https://we.phorge.it/source/phorge.git"}},
		{"no Arcanist", Checkouts{Phorge: phorge, Arcanist: phorge},
			[]string{phorge, "https://we.phorge.it/source/arcanist.git"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Install(t.Context(), nil, "unused", c.from)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("answered %v, want one that wraps fs.ErrNotExist", err)
			}
			for _, name := range c.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%q does not name %s", err, name)
				}
			}
		})
	}
}
