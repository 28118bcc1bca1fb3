package scratch

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"
)

const (
	// startTime and stopTime are far more than a loaded machine needs, crash
	// recovery included.
	startTime = 60 * time.Second
	stopTime  = 60 * time.Second

	// maxSocket is what sockaddr_un holds, less its final zero.
	maxSocket = 107
)

// Options of a private server.
type Options struct {
	Args []string // further mariadbd arguments; they win over those of Start

	// Memory keeps the data in memory where there is room for it, which outlives
	// the server, but not the machine. Tests need not wait for a disk.
	Memory bool
}

// room is what there must be of memory for the data of a server, in bytes.
const room = 2 << 30

// place answers the directory in which the one of a server is made, "" for that
// of all temporary files.
func (o Options) place() string {
	const memory = "/dev/shm"
	var stat unix.Statfs_t
	if !o.Memory || unix.Statfs(memory, &stat) != nil || stat.Bavail*uint64(stat.Bsize) < room {
		return ""
	}
	return memory
}

// MariaDB is a private server: its data, its socket and its log are in one
// temporary directory. The user root has no password and the port is open on
// the loopback interface only.
//
// Its methods are not safe for use at the same time, except DSN, Socket and
// Port.
type MariaDB struct {
	dir    string
	port   int
	args   []string
	run    *Process
	reaper *Reaper
}

// Start makes a data directory and starts a server on it. Call Stop when it is
// no longer needed; should this process die first, the server dies with it, and
// the directory goes too.
func Start(o Options) (*MariaDB, error) {
	install, err := program("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.place(), "gantry-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a private MariaDB: %w", err)
	}
	m := &MariaDB{dir: dir, args: o.Args}
	if m.reaper, err = StartReaper(m.dataArg(), firstArg, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := m.create(install); err != nil {
		return nil, errors.Join(err, m.reaper.Reap())
	}
	return m, nil
}

func (m *MariaDB) create(install string) error {
	if n := len(m.Socket()); n > maxSocket {
		return fmt.Errorf("the socket path %s has %d bytes and a socket takes %d; set TMPDIR to a shorter directory",
			m.Socket(), n, maxSocket)
	}
	if err := os.Mkdir(m.temp(), 0o700); err != nil {
		return fmt.Errorf("make a directory for a private MariaDB: %w", err)
	}
	args := append([]string{
		firstArg, m.dataArg(), "--tmpdir=" + m.temp(), "--skip-name-resolve", "--skip-test-db",
		"--auth-root-authentication-method=normal"}, asRoot()...)
	if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("make a data directory with %s: %w\n%s", install, err, out)
	}
	for try := 1; ; try++ {
		port, err := FreePort()
		if err != nil {
			return err
		}
		m.port = port
		err = m.start()
		// Another process may have taken the port in the meantime.
		if err != nil && try < 3 && strings.Contains(err.Error(), "Address already in use") {
			continue
		}
		return err
	}
}

// DSN answers a go-sql-driver DSN for a database of the server, which may be
// empty. It stays the same through Restart.
func (m *MariaDB) DSN(database string) string {
	return m.config(database).FormatDSN()
}

func (m *MariaDB) config(database string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "unix", m.Socket(), database
	c.Logger = &mysql.NopLogger{} // a server that is not up yet is no news
	return c
}

// Socket answers the path of the unix socket.
func (m *MariaDB) Socket() string { return filepath.Join(m.dir, "sock") }

// Port answers the TCP port on 127.0.0.1.
func (m *MariaDB) Port() int { return m.port }

// PID answers the process id of the running server.
func (m *MariaDB) PID() int { return m.run.PID() }

// Kill ends the server with SIGKILL, as a crash would. Its data stays.
func (m *MariaDB) Kill() error { return m.run.Kill() }

// Restart starts the server again on the same data, socket and port. A server
// that still runs is shut down first.
func (m *MariaDB) Restart() error {
	if err := m.run.End(syscall.SIGTERM, stopTime); err != nil {
		return fmt.Errorf("stop mariadbd: %w\n%s", err, m.logTail())
	}
	return m.start()
}

// Stop ends the server and removes everything it left.
func (m *MariaDB) Stop() error {
	return errors.Join(m.Kill(), m.reaper.Reap())
}

func (m *MariaDB) start() error {
	mariadbd, err := program("mariadbd")
	if err != nil {
		return err
	}
	log, err := os.Create(m.log())
	if err != nil {
		return fmt.Errorf("make the log of a private MariaDB: %w", err)
	}
	defer log.Close()
	args := append([]string{
		firstArg, m.dataArg(), "--tmpdir=" + m.temp(), "--socket=" + m.Socket(),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(m.port), "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=1", "--sql-mode=STRICT_ALL_TABLES",
		"--userstat=1", // contract/stage reads the tables that were written, and would read all
	}, asRoot()...)
	cmd := exec.Command(mariadbd, append(args, m.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own keeps Ctrl-C on a terminal from reaching the server
	// before those who still use it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if m.run, err = Spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", mariadbd, err)
	}
	if err := m.run.AwaitUp(startTime, func(ctx context.Context) error { return m.Exec(ctx, "", "DO 1") }); err != nil {
		return errors.Join(fmt.Errorf("start mariadbd: %w\n%s", err, m.logTail()), m.Kill())
	}
	return nil
}

// Exec runs statements in a database of the server, which may be empty, on a
// connection of its own, so that no pool outlives the call: tests look for
// leaked goroutines.
func (m *MariaDB) Exec(ctx context.Context, database, statements string) error {
	c := m.config(database)
	c.MultiStatements = true
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statements)
	return errors.Join(err, db.Close())
}

// firstArg and dataArg begin every command line of the server. The reaper knows
// it by them.
const firstArg = "--no-defaults"

func (m *MariaDB) dataArg() string { return "--datadir=" + filepath.Join(m.dir, "data") }

// temp is for temporary tables. A server that starts deletes those it finds,
// so two servers with one directory take them away from each other.
func (m *MariaDB) temp() string { return filepath.Join(m.dir, "tmp") }

func (m *MariaDB) log() string { return filepath.Join(m.dir, "log") }

// logTail answers the last lines of the server's log.
func (m *MariaDB) logTail() string {
	text, err := os.ReadFile(m.log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

// program finds a MariaDB program. Debian puts the server where an ordinary
// user's PATH does not look.
func program(name string) (string, error) {
	for _, try := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(try); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is neither in PATH nor in /usr/sbin; on Debian and Ubuntu: apt-get install mariadb-server-core", name)
}

// asRoot answers the argument without which MariaDB refuses to run as root.
func asRoot() []string {
	if os.Getuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}

// FreePort answers a TCP port of the loopback interface that nobody listens on
// just now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
