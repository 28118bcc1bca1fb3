// Package phorge is the task store on Phorge's own tables: worker_activetask,
// worker_archivetask, worker_taskdata and lisk_counter of the database
// <namespace>_worker, on MariaDB 10.5.1 and later and MySQL 8. Phorge needs no
// patch: bin/worker, the console and stock taskmasters keep working beside it.
//
// The story of a task in SQL: enqueue.go writes its data row and its task row
// in one transaction, under an id of the counter row PHP uses as well
// (ids.go). lease.go finds due tasks with reads of bounded cost and takes
// them with a conditional write under a new fence (fence.go). renew.go keeps
// the leases alive, settle.go ends them: every settlement names the owner it
// holds the row under, and a row that carries another owner is left alone.
// inspect.go and operate.go are what a person does to the queue, service.go and
// inbox.go what callers of the HTTP API need beside.
//
// Failed attempts are kept in a database of Gantry's own, where there is one
// (gantry.go, attempts.go), and the trace contexts of tasks (traces.go);
// upgrade.go creates it. heartbeat.go tells Phorge
// that somebody drains the queue, and site.go reads from Phorge's configuration
// where all of this is.
//
// Everything that writes runs through transact (tx.go), which repeats a
// transaction that lost a deadlock and tells when the answer of a COMMIT was
// lost. Rows are always locked in one order: active tasks by ascending id,
// then the archive, then data, then follow-ups.
package phorge

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Config says which queue a Store works on.
type Config struct {
	// DSN names the server and the worker database, in the form of
	// go-sql-driver/mysql: user:password@unix(/run/mysqld.sock)/phabricator_worker.
	// ReadPhorge makes one from the configuration of a Phorge. Parameters of
	// the session are the store's to choose; it overrides them.
	DSN string

	// Host stands in owner strings, for people who ask who holds a task.
	// Default: the host name.
	Host string

	// MaxConns bounds the connections to the server. Default 8.
	MaxConns int

	// Traces keeps the trace contexts of tasks, in the database
	// <namespace>_gantry. It costs a read for each batch that is leased and a
	// statement for each that is archived.
	Traces bool

	// Repeated is told each time that a transaction has to be tried again, and
	// why: it lost a deadlock, waited for a lock in vain (lock_wait), or lost its
	// connection while it was being committed. It must be quick. Nil: nobody is
	// told.
	Repeated func(reason string)

	// WithoutSkipLocked leases by conditional writes alone, as on servers that
	// have no SKIP LOCKED. It is for tests: servers without it are recognised.
	WithoutSkipLocked bool
}

// Store is the queue of one Phorge. It implements tasks.Service, and
// with it tasks.Store and tasks.Operator, and is safe for concurrent use.
type Store struct {
	db     *sql.DB
	server serverInfo
	nonce  string // tells this handle from every other in owner strings
	host   string
	ids    idBlock
	leaser leaser
	gantry *gantry

	repeated func(reason string)
}

var _ tasks.Service = (*Store)(nil)

// Open connects, checks that the server and its tables can be worked with, and
// repairs the task counter. Its errors wrap tasks.ErrUnavailable when trying
// again later may help.
func Open(ctx context.Context, c Config) (*Store, error) {
	cfg, err := configure(c.DSN)
	if err != nil {
		return nil, err
	}
	if c.Host == "" {
		if c.Host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("ask for the host name: %w", err)
		}
	}
	if c.MaxConns == 0 {
		c.MaxConns = 8
	}
	server, err := inspectServer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	server.skipLocked = server.skipLocked && !server.statementBinlog && !c.WithoutSkipLocked
	db, err := server.open(cfg)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(c.MaxConns)
	db.SetMaxIdleConns(c.MaxConns)
	db.SetConnMaxIdleTime(idleTime)
	s := &Store{
		db:     db,
		server: server,
		nonce:  strings.ToLower(rand.Text()[:8]),
		host:   c.Host,
		ids:    idBlock{now: time.Now},
		gantry: newGantry(cfg.DBName, time.Now),
	}
	s.gantry.traces.wanted = c.Traces
	if s.repeated = c.Repeated; s.repeated == nil {
		s.repeated = func(string) {}
	}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Close ends the connections. Leases stay as they are.
func (s *Store) Close() error { return s.db.Close() }

// writableSQL changes nothing, and fails where nothing can be changed.
const writableSQL = `UPDATE lisk_counter SET counterValue = counterValue WHERE counterName = ''`

// check reads every column the store uses, so that a database which is not the
// worker database of a Phorge of today is refused before anything is written,
// and finds out whether anything can be.
func (s *Store) check(ctx context.Context) error {
	for _, columns := range []string{
		activeColumns + " FROM worker_activetask",
		archiveColumns + " FROM worker_archivetask",
		"id, data FROM worker_taskdata",
		"counterName, counterValue FROM lisk_counter",
	} {
		rows, err := s.db.QueryContext(ctx, "SELECT "+columns+" LIMIT 0")
		if err != nil {
			return s.server.explain(err)
		}
		rows.Close()
	}
	if _, err := s.db.ExecContext(ctx, writableSQL); err != nil {
		return s.server.explain(err)
	}
	// The queue works without it; Store.Gantry says why it is not there.
	_ = s.gantry.check(ctx, s.db)
	s.checkTraces(ctx)
	return s.repairCounter(ctx)
}

// ownerFor is the leaseOwner of tasks leased under a fence, for a caller of that
// name or, when it is empty, for this Gantry.
func (s *Store) ownerFor(name string, fence int64, crashes int) string {
	if name != "" {
		return tasks.Caller{Name: name, Fence: fence}.String()
	}
	return tasks.Owner{Fence: fence, Crashes: crashes, Nonce: s.nonce, Host: s.host}.String()
}
