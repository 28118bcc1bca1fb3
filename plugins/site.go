package plugins

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Site is the Phorge that a process of handlers works for. Gantry tells it
// after the process has started, over their private connection; a test makes
// its own. It holds passwords, so printing it shows none of its fields.
//
// A site keeps few connections, whatever its handlers do: at most
// MaxConnections for each database, of which two stay for half a minute after
// the last use, and one for all the locks together. A shadow run has its own,
// one for each database that it uses, and closes them; no more than four
// shadow runs are under way at once.
type Site struct {
	// Namespace is storage.default-namespace.
	Namespace string

	// DSNs holds, by application, where its database is: a DSN of
	// go-sql-driver/mysql with the database <namespace>_<application>. See
	// Handler.Needs for which it must have.
	DSNs map[string]string `json:"-"`

	// Options is what conf/local/local.json says about the options that the
	// handlers read. One that is not in it was not set there.
	Options map[string]json.RawMessage `json:"-"`

	mu      sync.Mutex
	closed  bool
	pools   map[string]*sql.DB
	locks   *locks
	shadows chan struct{}              // held by each shadow run
	others  map[string]map[string]bool // by application: the other databases of its server
}

// MaxConnections is how many connections a process has to each database at
// once. A task that needs another waits; see DB for why that always ends.
const MaxConnections = 8

// The applications whose databases the SDK itself uses: PhabricatorGlobalLock
// takes its locks on the server of the repositories, "somewhat arbitrarily".
const (
	configApplication = "config"
	lockApplication   = "repository"
)

const (
	idleConnections = 2
	idleTime        = 30 * time.Second
	maxShadows      = 4

	dialTimeout = 10 * time.Second

	// silence is how long a server may say nothing. Statements of handlers
	// may take their time, as PHP's may on the command line, but a COMMIT,
	// which no context can interrupt, must not wait for a dead network as long
	// as the kernel does.
	silence = 5 * time.Minute
)

// errNoSite is what a task answers that is run without a Phorge.
var errNoSite = errors.New("there is no Phorge to reach: the task runs without a site (see Handler.ExecuteAt)")

var errSiteClosed = errors.New("the connections to the Phorge are closed")

// Format shows what may be shown: the passwords are not.
func (s *Site) Format(f fmt.State, _ rune) {
	if s == nil {
		io.WriteString(f, "no Phorge")
		return
	}
	fmt.Fprintf(f, "Phorge %q with the databases of %s", s.Namespace, strings.Join(slices.Sorted(maps.Keys(s.DSNs)), ", "))
}

// Close ends the connections, and with them the locks. Nothing can be reached
// through the site afterwards. The error is always nil: what the driver has to
// say is that a connection had ended already.
func (s *Site) Close() error {
	s.mu.Lock()
	s.closed = true
	pools, l := s.pools, s.locks
	s.pools, s.locks = nil, nil
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	for _, pool := range pools {
		pool.Close()
	}
	return nil
}

// connector answers what connects to the database of an application.
func (s *Site) connector(application string) (driver.Connector, error) {
	if s == nil {
		return nil, errNoSite
	}
	dsn, ok := s.DSNs[application]
	if !ok {
		return nil, fmt.Errorf("the site does not say where the database of the application %s is", application)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err == nil {
		err = cfg.Apply(mysql.Charset("utf8mb4", "")) // as AphrontMySQLiDatabaseConnection
	}
	if err != nil {
		// Not wrapped: the driver quotes from the DSN, and so from the password.
		return nil, fmt.Errorf("the DSN of the application %s cannot be read", application)
	}
	cfg.Logger = &mysql.NopLogger{} // it would say once more, on stderr, what errors say
	cfg.Timeout = cmp.Or(cfg.Timeout, dialTimeout)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, silence)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, silence)
	cfg.InterpolateParams = true // one trip for a statement instead of three
	cfg.ClientFoundRows = false  // rows changed, as PHP counts
	cfg.MultiStatements = false  // one call is one statement: see permit
	cfg.AllowAllFiles = false
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("the DSN of the application %s cannot be used", application)
	}
	return connector, nil
}

// pool answers the connections to the database of an application.
func (s *Site) pool(application string) (*sql.DB, error) {
	if s == nil {
		return nil, errNoSite
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errSiteClosed
	}
	if pool := s.pools[application]; pool != nil {
		return pool, nil
	}
	connector, err := s.connector(application)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(MaxConnections)
	pool.SetMaxIdleConns(idleConnections)
	pool.SetConnMaxIdleTime(idleTime)
	if s.pools == nil {
		s.pools = map[string]*sql.DB{}
	}
	s.pools[application] = pool
	return pool, nil
}

// within answers an error when a statement names another database than the
// application's. That would work only where both happen to be on one server,
// and a shadow run would note the wrong one.
func (s *Site) within(ctx context.Context, application string, on querier, statement statement) error {
	if len(statement.qualifiers) == 0 {
		return nil
	}
	others, err := s.otherDatabases(ctx, application, on)
	if err != nil {
		return err
	}
	for _, name := range statement.qualifiers {
		if others[name] {
			return fmt.Errorf("the statement names the database %s, and may name tables of %s_%s only; use Task.DB for each database", name, s.Namespace, application)
		}
	}
	return nil
}

// otherDatabases answers, in small letters, which other databases the server
// of an application has. It asks once.
func (s *Site) otherDatabases(ctx context.Context, application string, on querier) (map[string]bool, error) {
	s.mu.Lock()
	others := s.others[application]
	s.mu.Unlock()
	if others != nil {
		return others, nil
	}
	rows, err := on.QueryContext(ctx, "SHOW DATABASES")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	others = map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		others[strings.ToLower(name)] = true
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	delete(others, strings.ToLower(s.Namespace+"_"+application))
	delete(others, "information_schema") // cannot be written
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others == nil {
		s.others = map[string]map[string]bool{}
	}
	s.others[application] = others
	return others, nil
}
