package phorge

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	dialTimeout = 10 * time.Second

	// answerTimeout is how long a server may be silent. No statement of ours
	// takes so long, and a COMMIT, which no context can interrupt, would wait
	// for a network that vanished as long as the kernel does: a quarter of an
	// hour.
	answerTimeout = 30 * time.Second

	// idleTime is how long the pool keeps a connection that nobody uses.
	idleTime = 30 * time.Second
)

// configure reads a DSN. Timeouts that it names are kept.
func configure(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err == nil {
		// The text columns are utf8mb4, and PHP speaks it: with another character
		// set the server would convert the data on its way.
		err = cfg.Apply(mysql.Charset("utf8mb4", ""))
	}
	if err != nil {
		// Not wrapped: the driver quotes from the DSN, and so from the password.
		return nil, errors.New("the DSN cannot be read; it has the form user:password@tcp(host:port)/namespace_worker")
	}
	cfg.Logger = &mysql.NopLogger{} // it would say once more, on stderr, what errors say
	cfg.Timeout = cmp.Or(cfg.Timeout, dialTimeout)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, answerTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, answerTimeout)
	return cfg, nil
}

// serverInfo is what differs between the servers Phorge runs on.
type serverInfo struct {
	place           string // user, address and database, for messages
	vendor          string // MariaDB or MySQL
	version         version
	skipLocked      bool
	statementBinlog bool   // binlog_format=STATEMENT
	maxPacket       int    // max_allowed_packet
	isolation       string // name of the session variable
}

type version struct{ major, minor, patch int }

func (v version) atLeast(o version) bool {
	switch {
	case v.major != o.major:
		return v.major > o.major
	case v.minor != o.minor:
		return v.minor > o.minor
	}
	return v.patch >= o.patch
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

var versionPattern = regexp.MustCompile(`^(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)(.*)$`)

// parseVersion reads what VERSION() answers. MariaDB says so in its suffix, and
// puts 5.5.5- in front for old replication clients.
func parseVersion(text string) (vendor string, v version, err error) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return "", version{}, fmt.Errorf("the server calls itself %q, which is no version of MariaDB or MySQL", text)
	}
	v.major, _ = strconv.Atoi(m[1])
	v.minor, _ = strconv.Atoi(m[2])
	v.patch, _ = strconv.Atoi(m[3])
	if strings.Contains(strings.ToLower(m[4]), "mariadb") {
		return "MariaDB", v, nil
	}
	return "MySQL", v, nil
}

// setVersion refuses servers that Phorge's requirements refuse as well.
func (i *serverInfo) setVersion(text string) error {
	var err error
	if i.vendor, i.version, err = parseVersion(text); err != nil {
		return err
	}
	oldest, skipLocked := version{8, 0, 0}, version{8, 0, 1}
	if i.vendor == "MariaDB" {
		oldest, skipLocked = version{10, 5, 1}, version{10, 6, 0}
	}
	if !i.version.atLeast(oldest) {
		return fmt.Errorf("the server is %s %s; MariaDB 10.5.1 or MySQL 8.0 is the oldest that works: upgrade it", i.vendor, i.version)
	}
	i.skipLocked = i.version.atLeast(skipLocked)
	return nil
}

// inspectServer connects once and reads what the pool is set up by.
func inspectServer(ctx context.Context, cfg *mysql.Config) (serverInfo, error) {
	info := serverInfo{place: where(cfg)}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return info, fmt.Errorf("connect to %s: %w", info.place, err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SHOW VARIABLES WHERE Variable_name IN
('version', 'binlog_format', 'log_bin', 'max_allowed_packet', 'transaction_isolation', 'tx_isolation')`)
	if err != nil {
		return info, info.explain(err)
	}
	defer rows.Close()
	variables := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return info, info.explain(err)
		}
		variables[name] = value
	}
	if err := rows.Err(); err != nil {
		return info, info.explain(err)
	}
	return info, info.set(variables)
}

func (i *serverInfo) set(variables map[string]string) (err error) {
	i.statementBinlog = variables["log_bin"] == "ON" && variables["binlog_format"] == "STATEMENT"
	if i.maxPacket, err = strconv.Atoi(variables["max_allowed_packet"]); err != nil {
		return fmt.Errorf("%s: read max_allowed_packet: %w", i.place, err)
	}
	i.isolation = "tx_isolation" // MariaDB before 11.1
	if _, ok := variables["transaction_isolation"]; ok {
		i.isolation = "transaction_isolation"
	}
	return i.setVersion(variables["version"])
}

// open answers the pool that the store works with.
func (i *serverInfo) open(cfg *mysql.Config) (*sql.DB, error) {
	i.prepare(cfg)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", i.place, err)
	}
	return sql.OpenDB(connector), nil
}

// prepare makes every session of the pool the same, whatever the server's
// defaults are.
func (i *serverInfo) prepare(cfg *mysql.Config) {
	// Found rows, not changed ones: an update that changes nothing has still
	// found its row.
	cfg.ClientFoundRows = true
	// One round trip a statement instead of three.
	cfg.InterpolateParams = true
	cfg.MaxAllowedPacket = i.maxPacket
	params := map[string]string{}
	maps.Copy(params, cfg.Params)
	params["sql_mode"] = "'STRICT_ALL_TABLES'"
	params["autocommit"] = "1"
	// The defaults are 50 s, nearly a lease, and a day or more, for as long as
	// somebody has the tables locked.
	params["innodb_lock_wait_timeout"] = "5"
	params["lock_wait_timeout"] = "5"
	// A host that vanishes in the midst of a transaction leaves its rows locked
	// until the server gives the connection up: by default for eight hours.
	params["wait_timeout"] = fmt.Sprint(int(2 * idleTime / time.Second))
	// READ COMMITTED locks the rows it finds and no gaps between them. Servers
	// that log statements refuse to write under it (error 1665).
	params[i.isolation] = "'READ-COMMITTED'"
	if i.statementBinlog {
		params[i.isolation] = "'REPEATABLE-READ'"
	}
	cfg.Params = params
}

// where names user, address and database, and never the password.
func where(cfg *mysql.Config) string {
	return fmt.Sprintf("database %q at %s as user %q", cfg.DBName, cfg.Addr, cfg.User)
}
