package scratch

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"
)

// asVictim makes the test binary start a server, say its pid and directory,
// and wait to be killed.
const asVictim = "GANTRY_SCRATCH_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(asVictim) != "" {
		victim()
	}
	os.Exit(m.Run())
}

func victim() {
	m, err := Start(Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(m.PID(), m.dir)
	select {}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func query(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	var value string
	if err := db.QueryRow(statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

func TestCommittedRowsSurviveAKill(t *testing.T) {
	m, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := m.Exec(t.Context(), "", "CREATE DATABASE killed; CREATE TABLE killed.kept (v INT); INSERT INTO killed.kept VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		name string
		end  func() error
	}{
		{"after SIGKILL", m.Kill},
		{"after a shutdown", func() error { return nil }},
	} {
		t.Run(end.name, func(t *testing.T) {
			before := m.PID()
			if err := end.end(); err != nil {
				t.Fatal(err)
			}
			if err := m.Restart(); err != nil {
				t.Fatal(err)
			}
			if m.PID() == before {
				t.Errorf("the server still is process %d", before)
			}
			if got := query(t, open(t, m.DSN("killed")), "SELECT v FROM kept"); got != "7" {
				t.Errorf("the row says %s, want 7", got)
			}
		})
	}
}

func TestStopLeavesNothing(t *testing.T) {
	m, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := m.PID()
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	if _, err := os.Stat(m.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", m.dir, err)
	}
}

func TestServerDiesWithTheProcessThatStartedIt(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asVictim+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the victim said nothing: %v", err)
	}
	number, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	server, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("server %d does not run: %v", pid, err)
	}
	defer unix.Close(server)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	ended := []unix.PollFd{{Fd: int32(server), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, int(stopTime.Milliseconds())); n != 1 || err != nil {
		t.Errorf("server %d outlives its parent: %v", pid, err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(stopTime); ; {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s outlives the process that made it", dir)
		}
	}
}

func TestServerIsDurableAndStrictAndReachedThroughItsPort(t *testing.T) {
	m, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr = "root", "tcp", fmt.Sprintf("127.0.0.1:%d", m.Port())
	db := open(t, c.FormatDSN())
	for variable, want := range map[string]string{
		"innodb_flush_log_at_trx_commit": "1",
		"sql_mode":                       "STRICT_ALL_TABLES",
		"socket":                         m.Socket(),
	} {
		if got := query(t, db, "SELECT @@"+variable); got != want {
			t.Errorf("%s is %q, want %q", variable, got, want)
		}
	}
}

func TestArgumentsReachTheServerAndAWrongOneIsNamed(t *testing.T) {
	m, err := Start(Options{Args: []string{"--max-connections=42"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Stop() })
	if got := query(t, open(t, m.DSN("")), "SELECT @@max_connections"); got != "42" {
		t.Errorf("max_connections is %s, want 42", got)
	}
	if _, err := Start(Options{Args: []string{"--no-such-option"}}); err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("Start answered %v, want the server's complaint about no-such-option", err)
	}
}

// A server that starts deletes the temporary tables it finds, so servers that
// start at the same time must not share a directory for them.
func TestServersStartAtTheSameTime(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			m, err := Start(Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMissingServerNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := program("no-such-mariadbd")
	if err == nil || !strings.Contains(err.Error(), "apt-get install mariadb-server-core") {
		t.Errorf("program answered %v, want the command that installs the server", err)
	}
}

func TestLongTemporaryDirectoryIsExplained(t *testing.T) {
	long := t.TempDir() + "/" + strings.Repeat("x", 100)
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	if _, err := Start(Options{}); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("Start answered %v, want an error that names TMPDIR", err)
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}
