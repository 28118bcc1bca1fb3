package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

// Config says where a Stage works.
type Config struct {
	// DSN names a server where databases may be made, emptied and dropped:
	// never a production server. Without database name. A MariaDB that runs with
	// --userstat=1, as those of contract/scratch do, tells which tables were
	// written; of any other server, all are read in every case, which takes long in
	// the namespace of a whole Phorge.
	// Nothing of the server's own settings is changed. Required.
	DSN string

	// Namespace is storage.default-namespace of the scratch Phorge, or of what
	// Prepare makes. Small letters, digits and underscores. Required.
	Namespace string

	// Log receives what the stage itself has to say, which is little.
	Log zerolog.Logger
}

// Stage runs cases, one at a time.
type Stage struct {
	config Config
	names  rows.Namespace
	dsn    *mysql.Config

	mu        sync.Mutex
	db        *sql.DB
	store     *phorge.Store
	tables    map[string]*rows.Table // as they were found, by database.table
	phids     map[string]bool        // in their rows
	columns   map[string][]column
	counts    bool          // the server counts written rows
	timeout   time.Duration // of a run; 0: that of its class
	settled   tally         // when everything had been put back last
	receivers *receivers
	made      databases
}

var namespacePattern = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

// Open connects to the server and reads what the namespace holds. A namespace
// without tables is one for Prepare.
func Open(ctx context.Context, c Config) (*Stage, error) {
	if !namespacePattern.MatchString(c.Namespace) {
		return nil, fmt.Errorf("stage: the namespace %q must be small letters, digits and underscores", c.Namespace)
	}
	dsn, err := mysql.ParseDSN(c.DSN)
	if err != nil {
		// Not wrapped: the driver quotes from the DSN, and so from the password.
		return nil, errors.New("stage: the DSN cannot be read; it has the form user:password@tcp(host:port)/")
	}
	s := &Stage{config: c, names: rows.Namespace(c.Namespace), dsn: dsn, columns: map[string][]column{}, receivers: newReceivers()}
	if s.db, err = rows.Open(dsn); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the stage %s: %w", c.Namespace, err), s.Close())
	}
	return s, nil
}

// load reads the namespace, and opens the queue when there is one.
func (s *Stage) load(ctx context.Context) error {
	s.counts = countsWritten(ctx, s.db)
	var err error
	if s.tables, err = s.names.ReadAll(ctx, s.db); err != nil {
		return err
	}
	if s.tables[activeTable] == nil {
		return nil
	}
	s.phids = phidsIn(s.tables)
	if err := s.raiseCounters(ctx); err != nil {
		return err
	}
	if s.settled, err = s.tally(ctx); err != nil {
		return err
	}
	dsn := s.dsn.Clone()
	dsn.DBName = s.names.Database("worker")
	s.store, err = phorge.Open(ctx, phorge.Config{DSN: dsn.FormatDSN(), Host: "stage", MaxConns: 2})
	return err
}

// DSN answers a go-sql-driver DSN for the database of an application. It holds
// the password.
func (s *Stage) DSN(application string) string {
	dsn := s.dsn.Clone()
	dsn.DBName = s.names.Database(application)
	return dsn.FormatDSN()
}

// Namespace answers Config.Namespace.
func (s *Stage) Namespace() string { return s.config.Namespace }

// Close drops what Prepare made and ends the connections and the receivers.
func (s *Stage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.receivers.Close()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return errors.Join(err, s.made.drop(s.db), s.db.Close())
}
