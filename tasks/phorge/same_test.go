package phorge

import (
	"testing"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestTwoStoresAreTheSameOnTheSameTablesOfTheSameServer(t *testing.T) {
	server, far := start(t), start(t)
	if err := harness.CreateNamespace(server, "other"); err != nil {
		t.Fatal(err)
	}
	at := func(server *scratch.MariaDB, database string) *Store {
		s, err := Open(t.Context(), Config{DSN: server.DSN(database)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one := at(server, "test_worker")
	for _, c := range []struct {
		name  string
		other *Store
		want  bool
	}{
		{"another handle", at(server, "test_worker"), true},
		{"another Phorge", at(server, "other_worker"), false},
		{"another server", at(far, "test_worker"), false},
	} {
		for range 2 {
			if same, err := one.Same(t.Context(), c.other); err != nil || same != c.want {
				t.Errorf("%s: %v, %v; want %v", c.name, same, err, c.want)
			}
		}
	}
}
