package phorge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestB24ServersAreToldApartByTheirVersion(t *testing.T) {
	for _, c := range []struct {
		text       string
		vendor     string
		skipLocked bool
		refused    string // part of the error
	}{
		{"10.5.1-MariaDB", "MariaDB", false, ""},
		{"5.5.5-10.5.12-MariaDB-log", "MariaDB", false, ""},
		{"10.6.0-MariaDB", "MariaDB", true, ""},
		{"10.11.6-MariaDB-0+deb12u1", "MariaDB", true, ""},
		{"11.4.2-MariaDB-ubu2404", "MariaDB", true, ""},
		{"8.0.0", "MySQL", false, ""},
		{"8.0.1-dmr", "MySQL", true, ""},
		{"8.4.3", "MySQL", true, ""},
		{"10.5.0-MariaDB", "", false, "MariaDB 10.5.0; MariaDB 10.5.1 or MySQL 8.0 is the oldest that works: upgrade it"},
		{"5.5.5-10.4.28-MariaDB", "", false, "MariaDB 10.4.28"},
		{"5.7.44-log", "", false, "MySQL 5.7.44; MariaDB 10.5.1 or MySQL 8.0 is the oldest that works: upgrade it"},
		{"5.5.5-m3", "", false, "MySQL 5.5.5"},
		{"PostgreSQL 16.1", "", false, "no version of MariaDB or MySQL"},
		{"", "", false, "no version of MariaDB or MySQL"},
	} {
		t.Run(fmt.Sprintf("%q", c.text), func(t *testing.T) {
			var i serverInfo
			err := i.setVersion(c.text)
			if c.refused != "" {
				if !contains(err, c.refused) {
					t.Errorf("error %v, want one that says %q", err, c.refused)
				}
				return
			}
			if err != nil || i.vendor != c.vendor || i.skipLocked != c.skipLocked {
				t.Errorf("%s with SKIP LOCKED: %t, %v; want %s, %t", i.vendor, i.skipLocked, err, c.vendor, c.skipLocked)
			}
		})
	}
}

// A server whose own version string and defaults are of the worst kind.
func TestB24SessionsAreTheSameWhateverTheServerAndTheDSNSay(t *testing.T) {
	server := start(t, "--autocommit=0", "--wait-timeout=3", "--transaction-isolation=SERIALIZABLE", "--sql-mode=",
		"--innodb-lock-wait-timeout=1000", "--innodb-autoinc-lock-mode=2", "--version=5.5.5-10.6.18-MariaDB-log")
	s := openOn(t, server, "?charset=latin1&clientFoundRows=false&interpolateParams=false&sql_mode=%27%27")
	for variable, want := range map[string]string{
		"@@autocommit": "1", "@@tx_isolation": "READ-COMMITTED", "@@sql_mode": "STRICT_ALL_TABLES",
		"@@innodb_lock_wait_timeout": "5", "@@lock_wait_timeout": "5", "@@wait_timeout": "60",
		"@@character_set_client": "utf8mb4", "@@character_set_connection": "utf8mb4", "@@character_set_results": "utf8mb4",
	} {
		var got string
		if err := s.db.QueryRow("SELECT " + variable).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", variable, got, err, want)
		}
	}
	// Each step would stay undone, or in a transaction, if the session were not
	// ours.
	enqueue(t, s, tasks.NewTask{Class: "A", Data: []byte(`"é🐘"`)})
	other := openOn(t, server, "")
	held := lease(t, other, storetest.Any(1))
	if len(held) != 1 || string(held[0].Data) != `"é🐘"` {
		t.Fatalf("leased %v", held)
	}
	var stored string
	if err := other.db.QueryRow("SELECT HEX(data) FROM worker_taskdata").Scan(&stored); err != nil || stored != "22C3A9F09F909822" {
		t.Errorf("the data is stored as %s, %v", stored, err)
	}
}

// start answers a server of its own for a test, with the namespace test.
func start(t testing.TB, args ...string) *scratch.MariaDB {
	t.Helper()
	server, err := scratch.Start(scratch.Options{Args: args, Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := harness.CreateNamespace(server, "test"); err != nil {
		t.Fatal(err)
	}
	return server
}

func openOn(t testing.TB, server *scratch.MariaDB, parameters string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Config{DSN: server.DSN("test_worker") + parameters})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const secret = "s3cr3t-p/w@rd"

// closedPort answers an address on which nobody listens.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestOpenNamesWhatIsWrongAndWhatToDo(t *testing.T) {
	q := newQueue(t)
	user := func(name, rights string) {
		q.exec(fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s'", name, secret))
		t.Cleanup(func() { q.exec("DROP USER " + name + "@'%'") })
		if rights != "" {
			var database string
			if err := q.db.QueryRow("SELECT DATABASE()").Scan(&database); err != nil {
				t.Fatal(err)
			}
			q.exec(fmt.Sprintf("GRANT %s ON `%s`.* TO %s@'%%'", rights, database, name))
		}
	}
	user("gt_full", "ALL")
	user("gt_none", "")
	user("gt_reader", "SELECT")
	as := func(user, password string) func(*mysql.Config) {
		return func(c *mysql.Config) { c.User, c.Passwd = user, password }
	}
	for _, c := range []struct {
		name    string
		change  func(*mysql.Config)
		sql     string // run before, in the database
		want    []string
		passing bool
	}{
		{"a wrong password", as("gt_full", "not-"+secret), "", []string{`as user "gt_full"`, "the user or the password is wrong", "bin/config get"}, false},
		{"no such user", as("gt_nobody", secret), "", []string{`as user "gt_nobody"`, "the user or the password is wrong"}, false},
		{"a user without rights", as("gt_none", secret), "", []string{"may not use the database", "grant it the rights"}, false},
		{"a user who may only read", as("gt_reader", secret), "", []string{"lacks a right on a table", "grant it the rights"}, false},
		{"a wrong namespace", func(c *mysql.Config) { c.DBName = "nowhere_worker" }, "", []string{`"nowhere_worker"`, "storage.default-namespace"}, false},
		{"no database", func(c *mysql.Config) { c.DBName = "" }, "", []string{"<namespace>_worker"}, false},
		{"a database of something else", func(c *mysql.Config) { c.DBName = "mysql" }, "", []string{`"mysql"`, "check the namespace"}, false},
		{"nobody listens", func(c *mysql.Config) { c.Net, c.Addr = "tcp", closedPort(t) }, "", []string{"cannot reach", "127.0.0.1:"}, true},
		{"no socket", func(c *mysql.Config) { c.Addr = "/nowhere/sock" }, "", []string{"cannot reach", "/nowhere/sock"}, true},
		{"a missing column", func(*mysql.Config) {}, "ALTER TABLE worker_archivetask DROP COLUMN archivedEpoch", []string{"archivedEpoch", "bin/storage upgrade"}, false},
		{"a missing table", func(*mysql.Config) {}, "DROP TABLE worker_activetask", []string{"worker_activetask", "bin/storage upgrade"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := mysql.ParseDSN(q.dsn)
			if err != nil {
				t.Fatal(err)
			}
			c.change(cfg)
			if c.sql != "" {
				q.exec(c.sql)
			}
			s, err := Open(t.Context(), Config{DSN: cfg.FormatDSN()})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			for _, want := range c.want {
				if !contains(err, want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds the password: %v", err)
			}
			if errors.Is(err, tasks.ErrUnavailable) != c.passing {
				t.Errorf("may pass: %t, want %t: %v", !c.passing, c.passing, err)
			}
		})
	}
}

func TestADSNThatCannotBeReadIsNotQuoted(t *testing.T) {
	for name, dsn := range map[string]string{
		"no slash":            "root:" + secret + "@tcp(host",
		"a wrong parameter":   "root:" + secret + "@tcp(host)/x_worker?readTimeout=" + secret,
		"an unknown protocol": "root:" + secret + "@tcp(" + secret + "/x_worker",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), Config{DSN: dsn})
			if !contains(err, "the DSN cannot be read; it has the form user:password@tcp(host:port)/namespace_worker") ||
				contains(err, secret) || contains(err, "s3cr3t") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A user like Phorge's own, whom read_only binds.
func TestAReadOnlyServerIsUnavailableUntilItCanBeWritten(t *testing.T) {
	server := start(t)
	root := openOn(t, server, "")
	exec := func(statement string) {
		t.Helper()
		if _, err := root.db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE USER phorge@localhost IDENTIFIED BY '" + secret + "'")
	exec("GRANT ALL ON test_worker.* TO phorge@localhost")
	cfg, err := mysql.ParseDSN(server.DSN("test_worker"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Passwd = "phorge", secret
	s, err := Open(t.Context(), Config{DSN: cfg.FormatDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids := enqueue(t, s, news(4, "A")...)
	held := lease(t, s, storetest.Any(1))

	exec("SET GLOBAL read_only = ON")
	unavailable := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, tasks.ErrUnavailable) || !contains(err, "the server is read-only; use the master, or wait until it is writable") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	_, err = Open(t.Context(), Config{DSN: cfg.FormatDSN()})
	unavailable("open", err)
	_, err = s.Enqueue(t.Context(), news(1, "A"))
	unavailable("enqueue", err)
	_, err = s.Lease(t.Context(), storetest.Any(1))
	unavailable("lease", err)
	settlement := []tasks.Settlement{{ID: held[0].ID, Lease: *held[0].Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}}
	_, err = s.Settle(t.Context(), settlement)
	unavailable("settle", err)
	_, err = s.Renew(t.Context(), []tasks.Renewal{{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: time.Hour}})
	unavailable("renew", err)
	_, err = s.Cancel(t.Context(), ids[3:])
	unavailable("cancel", err)
	if _, err := s.Get(t.Context(), ids[0]); err != nil {
		t.Errorf("looking needs no writable server: %v", err)
	}

	exec("SET GLOBAL read_only = OFF")
	if answers, err := s.Settle(t.Context(), settlement); err != nil || answers[0].Err != nil {
		t.Errorf("settle: %v, %v", answers, err)
	}
	if got := enqueue(t, s, news(1, "A")...); len(got) != 1 {
		t.Errorf("queued %v", got)
	}
	if got := lease(t, s, storetest.Any(10)); len(got) != 4 {
		t.Errorf("leased %d tasks, want 4", len(got))
	}
}

// A COMMIT has no context; without these it would wait as long as the kernel.
func TestAServerThatFallsSilentIsGivenUp(t *testing.T) {
	for parameters, want := range map[string]time.Duration{"": answerTimeout, "?readTimeout=3s&writeTimeout=3s&timeout=3s": 3 * time.Second} {
		cfg, err := configure("root@tcp(host)/x_worker" + parameters)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.ReadTimeout != want || cfg.WriteTimeout != want || cfg.Timeout == 0 {
			t.Errorf("%q: the timeouts are %s, %s and %s", parameters, cfg.ReadTimeout, cfg.WriteTimeout, cfg.Timeout)
		}
	}
}
