package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestInstalled runs the built programs as an administrator does, against a
// real server.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	for _, c := range []struct {
		name string
		test func(s *site)
	}{
		{"run drains what flood queued", runDrainsWhatFloodQueued},
		{"the first signal lets running tasks end and gives the others back", firstSignalDrains},
		{"the second signal stops at once", secondSignalStops},
		{"a closed terminal drains too, however often it tells", hangupDrains},
		{"run --until-empty ends by itself", untilEmptyEnds},
		{"the first signal ends run --until-empty after the pass", firstSignalEndsPasses},
		{"a running Gantry answers on its socket", socketAnswers},
		{"commands work on a real queue", commandsWork},
		{"a store that cannot be worked with is explained", badStores},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newSite(t, dir)) })
	}
}

// programs are the built ones, in a directory that the tests share.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "gantry-programs-"); err != nil {
		return "", err
	}
	harness.AtEnd(func() error { return os.RemoveAll(dir) })
	if out, err := exec.Command("go", "build", "-o", dir, ".", "../handler-testworker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

// build puts the built programs into a directory.
func build(t *testing.T, dir string) {
	t.Helper()
	from, err := programs()
	for _, name := range []string{"gantry", "handler-testworker"} {
		if err == nil {
			err = os.Link(filepath.Join(from, name), filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatalf("build the programs: %v", err)
	}
}

// site is an installed Gantry: the built programs, a configuration, and a
// queue on a real server.
type site struct {
	t   *testing.T
	dir string // of the programs
	dsn string
	db  *sql.DB
	env []string
}

func newSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{t: t, dir: dir, dsn: harness.Namespace(t)}
	db, err := sql.Open("mysql", s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	t.Cleanup(func() { s.db.Close() })
	plugins := manifestOf(t, filepath.Join(dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	config := writeFile(t, "gantry.yaml", "plugins: "+plugins+"\nslots: 8\n", 0o600)
	s.env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "GANTRY_CONFIG=" + config, "GANTRY_DSN=" + s.dsn}
	if got := s.gantry("storage", "upgrade"); got.code != exitOK {
		t.Fatalf("storage upgrade: exit code %d, %s", got.code, got.err)
	}
	return s
}

// gantry runs the built program to its end.
func (s *site) gantry(args ...string) result {
	s.t.Helper()
	r := s.start(args...)
	return r.wait()
}

// running is a gantry that was started.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err harness.Buffer
	done     chan struct{}
	failure  error
}

func (s *site) start(args ...string) *running {
	s.t.Helper()
	r := &running{t: s.t, done: make(chan struct{})}
	r.cmd = exec.Command(filepath.Join(s.dir, "gantry"), args...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = s.env, &r.out, &r.err
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		r.failure = r.cmd.Wait()
		close(r.done)
	}()
	s.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // an error means that it has ended
		<-r.done
		if s.t.Failed() {
			s.t.Logf("gantry %s wrote\n%s%s", strings.Join(args, " "), r.out.String(), r.err.String())
		}
	})
	return r
}

func (r *running) wait() result {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		r.t.Fatalf("gantry did not end within two minutes; it wrote\n%s%s", r.out.String(), r.err.String())
	}
	return result{r.cmd.ProcessState.ExitCode(), r.out.String(), r.err.String()}
}

func (r *running) signal() { r.send(syscall.SIGTERM) }

func (r *running) send(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// count answers the number that a query selects.
func (s *site) count(query string) (n int) {
	s.t.Helper()
	if err := s.db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

const (
	leasedByUs    = "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner LIKE 'gantry:%'"
	inTheirPlace  = "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner IS NULL AND failureCount = 0"
	active        = "SELECT COUNT(*) FROM worker_activetask"
	succeeded     = "SELECT COUNT(*) FROM worker_archivetask WHERE result = 0"
	archivedTasks = "SELECT COUNT(*) FROM worker_archivetask"
)

func runDrainsWhatFloodQueued(s *site) {
	t := s.t
	expect(t, s.gantry("tasks", "flood", "--count=2000"), exitOK,
		"2000 tasks of class PhabricatorTestWorker were queued, ids 1 to 2000.\n", "")
	run := s.start("run", "--output=json")
	harness.Eventually(t, "2000 tasks are archived", func() bool { return s.count(succeeded) == 2000 })
	run.signal()
	got := run.wait()
	if want := `{"leased":2000,"succeeded":2000,"yielded":0,"retried":0,"failed":0,"crashed":0,"released":0,"lost":0}` + "\n"; got.code != exitOK || got.out != want {
		t.Errorf("exit code %d, %s", got.code, got.out)
	}
	if s.count(active) != 0 || s.count(archivedTasks) != 2000 {
		t.Errorf("%d tasks are active, %d archived", s.count(active), s.count(archivedTasks))
	}
	for _, line := range strings.Split(strings.TrimSpace(got.err), "\n") {
		if !strings.HasPrefix(line, `{"level":"info"`) {
			t.Errorf("the log has a line that is no news of a good run: %s", line)
		}
	}
}

// floodTelling queues tasks that tell when they have begun: each requires a
// lease of two hours, and its work begins when the store has it.
func (s *site) floodTelling(count int, duration string) {
	s.t.Helper()
	s.gantry("tasks", "flood", fmt.Sprintf("--count=%d", count))
	if _, err := s.db.Exec("UPDATE worker_taskdata SET data = ?", `{"duration":`+duration+`,"getRequiredLeaseTime":7200}`); err != nil {
		s.t.Fatal(err)
	}
}

const begun = "SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner LIKE 'gantry:%' AND leaseExpires > UNIX_TIMESTAMP() + 3600"

func firstSignalDrains(s *site) {
	t := s.t
	s.floodTelling(20, "0.5")
	run := s.start("run", "--slots=2")
	harness.Eventually(t, "a task runs", func() bool { return s.count(begun) >= 1 })
	run.signal()
	if got := run.wait(); got.code != exitOK {
		t.Errorf("exit code %d", got.code)
	}
	ended, back := s.count(succeeded), s.count(inTheirPlace)
	if ended < 1 || s.count(leasedByUs) != 0 || ended+back != 20 {
		t.Errorf("%d tasks succeeded, %d are where they were, %d are still leased", ended, back, s.count(leasedByUs))
	}
}

func hangupDrains(s *site) {
	if signal.Ignored(syscall.SIGHUP) {
		s.t.Skip("SIGHUP is ignored here, as under nohup, and so it is in what the test starts")
	}
	t := s.t
	s.floodTelling(2, "1")
	run := s.start("run", "--slots=2")
	harness.Eventually(t, "two tasks run", func() bool { return s.count(begun) == 2 })
	run.send(syscall.SIGHUP)
	harness.Eventually(t, "it drains", func() bool { return strings.Contains(run.err.String(), "stopping; a second signal") })
	run.send(syscall.SIGHUP)
	if got := run.wait(); got.code != exitOK || s.count(succeeded) != 2 {
		t.Errorf("exit code %d, %d of 2 tasks succeeded", got.code, s.count(succeeded))
	}
}

func secondSignalStops(s *site) {
	t := s.t
	s.floodTelling(4, "3600")
	s.env = append(s.env, "GANTRY_SOCKET="+filepath.Join(t.TempDir(), "s"))
	run := s.start("run", "--drain-timeout=1h")
	harness.Eventually(t, "four tasks run", func() bool { return s.count(begun) == 4 })
	run.signal()
	harness.Eventually(t, "it drains", func() bool { return strings.Contains(run.err.String(), "stopping; a second signal") })
	if got := s.gantry("pool", "status"); got.code != exitFailed || got.err != "gantry: stopping, 4 tasks still run\n" {
		t.Errorf("while it drains: exit code %d, %s", got.code, got.err)
	}
	run.signal()
	if got := run.wait(); got.code != exitOK {
		t.Errorf("exit code %d", got.code)
	}
	if back := s.count(inTheirPlace); back != 4 {
		t.Errorf("%d of 4 tasks are where they were", back)
	}
}

func untilEmptyEnds(s *site) {
	t := s.t
	s.gantry("tasks", "flood", "--count=100")
	s.gantry("tasks", "enqueue", "--class=PhabricatorTestWorker", `--data={"doWork":"fail-permanent"}`)
	got := s.gantry("run", "--until-empty", "--pickup-delay=100ms") // a task's age is not known at first
	if got.code != exitOK || !strings.Contains(got.out, "101 tasks leased: 100 succeeded") || !strings.Contains(got.out, "1 failed") {
		t.Errorf("exit code %d, %s", got.code, got.out)
	}
	if got := s.gantry("tasks", "show", "--archived", "--class=PhabricatorTestWorker"); !strings.Contains(got.out, "  attempt 1      ") || !strings.Contains(got.out, "plugin on ") {
		t.Errorf("show does not tell why it failed: %s%s", got.out, got.err)
	}
}

func firstSignalEndsPasses(s *site) {
	t := s.t
	s.floodTelling(20, "0.5")
	run := s.start("run", "--until-empty", "--slots=2")
	harness.Eventually(t, "two tasks run", func() bool { return s.count(begun) == 2 })
	run.signal()
	got := run.wait()
	if got.code != exitFailed || !strings.Contains(got.err, "gantry: interrupted") {
		t.Errorf("exit code %d", got.code)
	}
	if ended, back := s.count(succeeded), s.count(inTheirPlace); ended < 2 || ended+back != 20 {
		t.Errorf("%d tasks succeeded and %d are where they were", ended, back)
	}
}

func commandsWork(s *site) {
	t := s.t
	expect(t, s.gantry("tasks", "enqueue", "--class=PhabricatorTestWorker", `--data={"n":9007199254740993}`), exitOK, "Task 1 (PhabricatorTestWorker) was queued.\n", "")
	expect(t, s.gantry("tasks", "list"), exitOK, `
CLASS                  QUEUED  LEASED  WAITING  FAILING  RUNS HERE
PhabricatorTestWorker       1       0        0        0  plugin
`[1:], "")
	if got := s.gantry("tasks", "show", "--id=1"); !strings.HasSuffix(got.out, "22 bytes:\n{\"n\":9007199254740993}\n") {
		t.Errorf("show says %s%s", got.out, got.err)
	}
	expect(t, s.gantry("storage", "upgrade"), exitOK, "Nothing was missing.\n", "")
	expect(t, s.gantry("storage", "upgrade", "--output=json"), exitOK, `{"created":[]}`+"\n", "")
	expect(t, s.gantry("tasks", "priority", "--id=1", "--priority=5"), exitOK, "Task 1 (PhabricatorTestWorker) has priority 5 now.\nChanged 1 of 1 selected tasks.\n", "")
	if got := s.gantry("tasks", "delay", "--id=1", "--until=2 hours"); got.code != exitOK {
		t.Errorf("delay: %+v", got)
	}
	expect(t, s.gantry("tasks", "free", "--id=1"), exitOK, "Task 1 (PhabricatorTestWorker) was freed from its lease.\nChanged 1 of 1 selected tasks.\n", "")
	expect(t, s.gantry("tasks", "cancel", "--max-priority=5"), exitOK, "Task 1 (PhabricatorTestWorker) was cancelled.\nChanged 1 of 1 selected tasks.\n", "")
	expect(t, s.gantry("tasks", "cancel", "--id=1"), exitNothing, "", "warning: task 1 (PhabricatorTestWorker) was left as it is: it is in the archive\ngantry: nothing was changed\n")
	expect(t, s.gantry("tasks", "retry", "--id=1"), exitOK, "Task 1 (PhabricatorTestWorker) was queued again.\nChanged 1 of 1 selected tasks.\n", "")
	expect(t, s.gantry("tasks", "awaken", "--id=1", "--output=json"), exitNothing, `{"selected":1,"awakened":0}`+"\n", "gantry: nothing was changed: only tasks that yielded and never failed can be awakened\n")
	if n := s.count("SELECT COUNT(*) FROM worker_activetask WHERE id = 1 AND priority = 5 AND leaseOwner IS NULL AND leaseExpires = 0"); n != 1 {
		t.Error("task 1 is not in the state that Phorge's retry leaves")
	}
}

func socketAnswers(s *site) {
	t := s.t
	socket := filepath.Join(t.TempDir(), "s")
	namespace := namespaceIn(s.dsn)
	s.env = append(s.env, "GANTRY_DSN=", "GANTRY_PHORGE="+phorgeWith(t, namespace), "GANTRY_SOCKET="+socket,
		"GANTRY_PHP_PROCESSES=2", "GANTRY_PHP_BINARY="+fakePHP(t, namespace, "PhabricatorSearchWorker"))
	s.daemonLog(namespace)
	run := s.start("run")
	var got result
	harness.Eventually(t, "it answers", func() bool {
		got = s.gantry("pool", "status")
		return got.code == exitOK
	})
	for _, want := range []string{"The pool is ready: 2 to 2 processes, 0 tasks wait for one. Phorge 07c1a513, PHP 8.2.36", "idle"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it says\n%s\nand not %s", got.out, want)
		}
	}
	harness.Eventually(t, "Phorge is told that its queue is drained", func() bool { return s.count(beats("run", namespace)) == 1 })
	if got := s.gantry("run"); got.code != exitUsage || !strings.Contains(got.err, "another Gantry answers on it") || strings.Contains(got.err, `"serving"`) {
		t.Errorf("a second Gantry with the same socket: exit code %d, %s", got.code, got.err)
	}
	run.signal()
	if got := run.wait(); got.code != exitOK || s.count(beats("exit", namespace)) != 1 {
		t.Errorf("exit code %d, Phorge is told of %d clean ends", got.code, s.count(beats("exit", namespace)))
	}
	if got := s.gantry("pool", "status"); got.code != exitFailed || !strings.Contains(got.err, "no Gantry listens on "+socket) {
		t.Errorf("after its end: exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func namespaceIn(dsn string) string {
	return strings.TrimSuffix(dsn[strings.LastIndexByte(dsn, '/')+1:], "_worker")
}

// phorgeWith is a Phorge with a namespace of the shared server, which loads
// Gantry's library.
func phorgeWith(t *testing.T, namespace string) (dir string) {
	t.Helper()
	options, err := json.Marshal(map[string]any{
		"mysql.host": "127.0.0.1", "mysql.port": harness.Shared(t).Port(), "storage.default-namespace": namespace,
		"load-libraries": []string{library(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return phorgeDir(t, string(options))
}

// daemonLog makes the table that Phorge's daemons report to.
func (s *site) daemonLog(namespace string) {
	s.t.Helper()
	for _, statement := range []string{
		"CREATE DATABASE " + namespace + "_daemon",
		"CREATE TABLE " + namespace + `_daemon.daemon_log (id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, daemon varchar(255),
			host varchar(255), pid int unsigned, argv longtext, explicitArgv longtext, dateCreated int unsigned, dateModified int unsigned,
			status varchar(8), runningAsUser varchar(255), daemonID varchar(64) NOT NULL, UNIQUE KEY (daemonID))`,
	} {
		if _, err := s.db.ExecContext(s.t.Context(), statement); err != nil {
			s.t.Fatal(err)
		}
	}
}

func beats(status, namespace string) string {
	return "SELECT COUNT(*) FROM " + namespace + "_daemon.daemon_log WHERE daemon = 'PhabricatorTaskmasterDaemon' AND status = '" + status + "'"
}

func badStores(s *site) {
	server := harness.Shared(s.t)
	for _, statement := range []string{
		"CREATE DATABASE empty_worker",
		"CREATE USER reader@localhost IDENTIFIED BY 'hunter2'",
		"GRANT ALL ON *.* TO reader@localhost",
		"REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM reader@localhost",
	} {
		if _, err := s.db.ExecContext(s.t.Context(), statement); err != nil {
			s.t.Fatal(err)
		}
	}
	at := "@unix(" + server.Socket() + ")/"
	database := s.dsn[strings.LastIndexByte(s.dsn, '/')+1:]
	for _, c := range []struct{ name, dsn, want string }{
		{"wrong credentials", "reader:hunter3" + at + database, "reader"},
		{"missing tables", "root" + at + "empty_worker", "worker_activetask"},
		{"wrong namespace", "root" + at + "phabricatr_worker", "phabricatr_worker"},
		{"no server", "root@unix(/nonexistent/sock)/" + database, "/nonexistent/sock"},
		{"no DSN", "hunter2", "DSN"},
		{"a read-only server", "reader:hunter2" + at + database, "read"},
	} {
		s.t.Run(c.name, func(t *testing.T) {
			s := &site{t: t, dir: s.dir, db: s.db, env: append(slices.Clip(s.env), "GANTRY_DSN="+c.dsn)}
			if c.name == "a read-only server" {
				s.readOnly()
			}
			for _, command := range []string{"tasks enqueue --class A --data {}", "run", "config check"} {
				got := s.gantry(strings.Fields(command)...)
				code := exitUnavailable
				if command == "config check" {
					code = exitFailed
				}
				if said := got.out + got.err; got.code != code || !strings.Contains(said, c.want) || strings.Contains(said, "hunter") {
					t.Errorf("gantry %s: exit code %d\n%s\nwant code %d and %q", command, got.code, said, code, c.want)
				}
			}
		})
	}
}

// readOnly makes the server read-only until the test ends.
func (s *site) readOnly() {
	s.t.Helper()
	set := func(value string) {
		if _, err := s.db.ExecContext(context.Background(), "SET GLOBAL read_only = "+value); err != nil {
			s.t.Fatal(err)
		}
	}
	set("1")
	s.t.Cleanup(func() { set("0") })
}
