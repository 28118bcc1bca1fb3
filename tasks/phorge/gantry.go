package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tasks"
)

// gantry is the database <namespace>_gantry, which holds what Phorge's own
// tables have no column for. It stands on the server of the worker database, so
// that one transaction can write to both. Without it the queue works, minus
// what is kept there.
type gantry struct {
	database string // empty: the worker database does not tell the namespace
	now      func() time.Time

	mu      sync.Mutex
	problem error     // why it cannot be used, nil when it can
	checked time.Time // when that was found out

	attempts, keys trimming
	traces         traceTable
}

// trimming tells when old rows of a table are deleted.
type trimming struct {
	mu      sync.Mutex
	written int       // rows since the old ones were last deleted
	last    time.Time // when that was
}

// recheck is how often a database that cannot be used is looked for again: it
// may be created, or granted, while Gantry runs.
const recheck = time.Minute

const (
	workerSuffix = "_worker"
	gantrySuffix = "_gantry"
)

func newGantry(workerDatabase string, now func() time.Time) *gantry {
	g := &gantry{now: now}
	if namespace, ok := strings.CutSuffix(workerDatabase, workerSuffix); ok && namespace != "" {
		g.database = namespace + gantrySuffix
	}
	return g
}

// table answers the quoted name of a table.
func (g *gantry) table(name string) string { return quoted(g.database) + "." + quoted(name) }

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// check finds out whether attempts can be read and written.
func (g *gantry) check(ctx context.Context, db *sql.DB) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checked = g.now()
	if g.database == "" {
		g.problem = fmt.Errorf("%w: the worker database is not called <namespace>_worker, so the name of Gantry's own database is unknown", tasks.ErrNoAttempts)
		return g.problem
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf(probeAttemptsSQL, g.table("attempts")))
	g.problem = g.explain(err)
	return g.problem
}

// usable answers nil, or why the database cannot be used. It looks again when
// the last look was long ago.
func (g *gantry) usable(ctx context.Context, db *sql.DB) error {
	g.mu.Lock()
	problem, old := g.problem, g.now().Sub(g.checked) >= recheck
	g.mu.Unlock()
	if problem != nil && old {
		return g.check(ctx, db)
	}
	return problem
}

// failed notes that a statement on it was refused.
func (g *gantry) failed(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problem, g.checked = g.explain(err), g.now()
}

// explain says what a person can do about an error.
func (g *gantry) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("database %s: %w; %s: %w", g.database, tasks.ErrNoAttempts, remedyOf(err), err)
}

// remedyOf says what a person can do about a refusal of the server.
func remedyOf(err error) string {
	var refusal *mysql.MySQLError
	if !errors.As(err, &refusal) {
		return "look at the database"
	}
	switch refusal.Number {
	case 1049, 1146:
		return "create it with `gantry storage upgrade`, or with Phorge's `bin/storage upgrade` once the library is installed"
	case 1044, 1142:
		return "grant this user SELECT, INSERT, UPDATE and DELETE on it, or create it with `gantry storage upgrade` if it is not there"
	case 1054:
		return "it is older than this Gantry; run `gantry storage upgrade`"
	}
	return "look at the database"
}

// Gantry answers nil, or why the database <namespace>_gantry cannot be used and
// what to do about it. The queue works without it; what is missing are the
// attempts and, where they are wanted, the trace contexts.
func (s *Store) Gantry() error {
	g := s.gantry
	g.mu.Lock()
	defer g.mu.Unlock()
	g.traces.mu.Lock()
	defer g.traces.mu.Unlock()
	return errors.Join(g.problem, g.traces.problem)
}
