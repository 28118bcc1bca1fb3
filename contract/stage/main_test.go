package stage

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// The tables of an application that does not exist.
//
//go:embed testdata/schema.sql
var acmeTables string

var schema = harness.RecordedSchema(acmeTables)

func TestMain(m *testing.M) { harness.Main(m) }

var namespaces atomic.Int64

// newStage answers a stage in a namespace of its own, with the tables of the
// queue and of the application.
func newStage(t testing.TB) *Stage {
	t.Helper()
	s := openEmpty(t)
	if err := s.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return s
}

// acme opens the database of the application that does not exist.
func acme(t testing.TB, s *Stage) *sql.DB {
	t.Helper()
	return harness.Open(t, s.DSN("acme"))
}

// does answers the side of a handler of AcmeWorker that does something.
func does(s *Stage, do func(ctx context.Context, task *plugins.Task) error) Side {
	return s.Handlers(plugins.Handler{
		Class: "AcmeWorker", Handle: do,
		WaitBeforeRetry: func(*plugins.Task, error) time.Duration { return 90 * time.Second },
	})
}

// execute is a handler that runs statements.
func execute(t testing.TB, s *Stage, statements ...string) Side {
	db := acme(t, s)
	return does(s, func(ctx context.Context, _ *plugins.Task) error {
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func acmeCase(world contract.World) contract.Case {
	return contract.Case{Name: "acme", TaskClass: "AcmeWorker", Data: `{}`, World: world}
}

// run runs a case that can be run.
func run(t testing.TB, s *Stage, c contract.Case, side Side) contract.Observation {
	t.Helper()
	observed, err := s.Run(t.Context(), c, side)
	if err != nil {
		t.Fatal(err)
	}
	return observed
}

// all answers everything that the namespace holds.
func all(t testing.TB, s *Stage) map[string]*rows.Table {
	t.Helper()
	tables, err := s.names.ReadAll(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	delete(tables, countTable)
	for _, table := range tables {
		table.Next.Int64 = 0 // where a side or the stage begins, which is not put back everywhere
	}
	return tables
}

// changesOf answers the changes of the tables of the application.
func changesOf(o contract.Observation) []contract.Change {
	var changes []contract.Change
	for _, c := range o.Changes {
		if c.Table == "acme.acme_thing" || c.Table == "acme.acme_edge" {
			changes = append(changes, c)
		}
	}
	return changes
}

func ptr[T any](v T) *T { return &v }

// openEmpty answers a stage without tables.
func openEmpty(t testing.TB) *Stage {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: harness.Shared(t).DSN(""), Namespace: fmt.Sprintf("stage%d", namespaces.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
