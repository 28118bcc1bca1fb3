package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/rs/zerolog"
)

// library is a directory that looks like Gantry's PHP library.
func library(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"src", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/pool-host.php"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "src")
}

func TestTheRouteOfPHPIsChosen(t *testing.T) {
	const url = "https://phorge.example.com/"
	without := phorgeDir(t, `{}`)
	ours := library(t)
	loads, err := json.Marshal(map[string]any{"load-libraries": []string{"/srv/other/src", ours}})
	if err != nil {
		t.Fatal(err)
	}
	with := phorgeDir(t, string(loads))
	for _, c := range []struct {
		name            string
		c               config
		route, why, err string
	}{
		{"nothing is set", config{PHP: "auto"}, "", "neither phorge nor conduit is set", ""},
		{"a Phorge that loads the library", config{PHP: "auto", Phorge: with}, "pool", "", ""},
		{"a Phorge that does not", config{PHP: "auto", Phorge: without}, "", "does not load Gantry's PHP library: add its directory php/src to load-libraries", ""},
		{"a library is named", config{PHP: "auto", Phorge: without, Library: ours}, "pool", "", ""},
		{"what is named is no library", config{PHP: "auto", Phorge: with, Library: without}, "", "", "is not the PHP library of Gantry"},
		{"a Conduit", config{PHP: "auto", Phorge: with, Conduit: url, ConduitKeyFile: "k"}, "conduit", "", ""},
		{"a Conduit without a key", config{PHP: "auto", Conduit: url}, "", "", "set conduit_key_file"},
		{"the pool, asked for by name", config{PHP: "pool", Phorge: with, Conduit: url}, "pool", "", ""},
		{"the pool without the library", config{PHP: "pool", Phorge: without}, "", "", "does not load Gantry's PHP library"},
		{"the pool without a Phorge", config{PHP: "pool"}, "", "", "name it with --phorge"},
		{"Conduit without a URL", config{PHP: "conduit", Phorge: with, ConduitKeyFile: "k"}, "", "", "set conduit to its URL"},
		{"off", config{PHP: "off", Phorge: with, Conduit: url}, "", "php is off", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			route, why, err := c.c.chooseRoute()
			if err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err) || exitCode(err) != exitUsage) {
				t.Fatalf("it answers %v, exit code %d", err, exitCode(err))
			}
			if err == nil && (c.err != "" || route != c.route || !strings.Contains(why, c.why) || (why == "") != (c.route != "")) {
				t.Errorf("the route is %q, because %q; want %q, because %q, or %q", route, why, c.route, c.why, c.err)
			}
		})
	}
}

// standIn is PHP of two slots that does nothing with tasks.
type standIn struct {
	up    atomic.Bool
	run   func(tasks.Task) tasks.Outcome
	close func() error
}

func (s *standIn) Ready(string) bool { return s.up.Load() }

func (s *standIn) Execute(_ context.Context, task tasks.Task, _ func(time.Duration)) tasks.Outcome {
	if s.run != nil {
		return s.run(task)
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}

func (s *standIn) route() *phpRoute {
	return &phpRoute{
		name: "pool", Executor: s, limit: &runtime.Limit{Slots: func() int { return 2 }}, close: s.close,
		state: func() phpState { return phpState{ready: s.up.Load(), problem: "PHP is ill"} },
	}
}

// commandWith runs a command line where PHP is a stand-in.
func commandWith(t *testing.T, php *standIn, s store, args ...string) result {
	t.Helper()
	return commandOf(t, s, "", func(context.Context, *config, zerolog.Logger) (*phpRoute, error) { return php.route(), nil }, args...)
}

func TestPHPRunsEveryClassWithoutAPlugin(t *testing.T) {
	t.Setenv(role, "good")
	m := queued(t, 3, "AcmeWorker")
	for _, class := range []string{"PhabricatorSearchWorker", "PhabricatorMetaMTAWorker"} {
		if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: class, Data: []byte(`{}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	var inPHP atomic.Int32
	php := &standIn{run: func(task tasks.Task) tasks.Outcome {
		if task.Class == "AcmeWorker" {
			t.Errorf("task %d of a plugin's class ran in PHP", task.ID)
		}
		inPHP.Add(1)
		return tasks.Outcome{Kind: tasks.Succeeded}
	}}
	php.up.Store(true)
	got := commandWith(t, php, m, "run", "--until-empty", "--php-pickup-delay=0s", "--plugins="+manifestOf(t, binary(t), "AcmeWorker", "{}"))
	if got.code != exitOK || !strings.HasPrefix(got.out, "5 tasks leased: 5 succeeded") || inPHP.Load() != 2 {
		t.Errorf("exit code %d, %d in PHP, %s%s", got.code, inPHP.Load(), got.out, got.err)
	}
	if !strings.Contains(got.err, `"others":"pool"`) || strings.Contains(got.err, "nothing here runs this class") {
		t.Errorf("the log is %s", got.err)
	}
}

// asked is a queue that remembers what it was asked for.
type asked struct {
	memory
	wants []tasks.LeaseRequest
}

func (a *asked) Lease(ctx context.Context, want tasks.LeaseRequest) ([]tasks.Task, error) {
	a.wants = append(a.wants, want)
	return a.memory.Lease(ctx, want)
}

func TestOfConduitOnlyTheClassesThatItAllowsAreAskedFor(t *testing.T) {
	keys := writeFile(t, "keys.json", `{"a":"hunter2-hunter2-hunter2-hunter2-hunter2"}`, 0o600)
	a := &asked{memory: queued(t, 3, "NotAllowed")}
	got := commandOf(t, a, "", startPHP, "run", "--until-empty", "--php-pickup-delay=0s", "--dsn=u@/ns_worker",
		"--conduit="+capabilities(t, time.Now(), "Allowed", "AllowedToo").URL, "--conduit-key-file="+keys)
	if got.code != exitOK || !strings.HasPrefix(got.out, "0 tasks leased") || len(a.wants) == 0 {
		t.Fatalf("exit code %d, asked %d times, %s%s", got.code, len(a.wants), got.out, got.err)
	}
	if strings.Count(got.err, "nothing here runs this class") != 1 || !strings.Contains(got.err, `"taskClass":"NotAllowed","queued":3`) {
		t.Errorf("the log is %s", got.err)
	}
	for _, want := range a.wants {
		if len(want.Classes) != 2 || want.Want("Allowed").Limit == 0 || want.Want("AllowedToo").Limit == 0 || want.Others.Limit != 0 {
			t.Errorf("asked for %+v", want)
		}
	}
}

func TestOfClassesThatNothingRunsNoMoreAreLoggedThanAPersonReads(t *testing.T) {
	m := newMemory()
	for i := range maxUnknown + 50 {
		if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: fmt.Sprint("Bogus", i), Data: []byte(`{}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	keys := writeFile(t, "keys.json", `{"a":"hunter2-hunter2-hunter2-hunter2-hunter2"}`, 0o600)
	got := commandOf(t, m, "", startPHP, "run", "--until-empty", "--php-pickup-delay=0s", "--dsn=u@/ns_worker",
		"--conduit="+capabilities(t, time.Now(), "Allowed").URL, "--conduit-key-file="+keys)
	if n := strings.Count(got.err, "nothing here runs this class"); got.code != exitOK || n != maxUnknown {
		t.Errorf("exit code %d, %d classes are logged", got.code, n)
	}
}

func TestAClassFallsBackToPHPOnlyWhenItSaysSo(t *testing.T) {
	h, err := host.New(host.Config{Manifest: &host.Manifest{Plugins: []host.Plugin{{Classes: map[string]host.Class{
		"Held":  {Fallback: host.Hold},
		"Falls": {Fallback: host.PHP},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	php := (&standIn{}).route()
	c := &config{PickupDelay: time.Minute, PHPPickupDelay: time.Second, Classes: map[string]classConfig{
		"Slow": {Slots: new(1), Deadline: new(time.Hour)},
	}}
	classes, others := classesToRun(c, h, php, zerolog.Nop())
	want := map[string]runtime.Class{
		"Held":  {Executor: h, Route: "plugin", PickupDelay: time.Minute},
		"Falls": {Executor: h, Route: "plugin", PickupDelay: time.Minute, Fallback: php.Executor, FallbackRoute: "pool"},
		"Slow":  {Executor: php.Executor, Route: "pool", Limit: php.limit, Slots: 1, Deadline: time.Hour, PickupDelay: time.Second},
	}
	same := cmp.Options{cmp.Comparer(func(a, b tasks.Executor) bool { return a == b }), cmp.Comparer(func(a, b *runtime.Limit) bool { return a == b })}
	if diff := cmp.Diff(want, classes, same); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&runtime.Class{Executor: php.Executor, Route: "pool", Limit: php.limit, PickupDelay: time.Second}, others, same); diff != "" {
		t.Errorf("other classes (-want +got):\n%s", diff)
	}
}

func TestRunUntilEmptyWaitsForPHPThatWorked(t *testing.T) {
	m := queued(t, 2, "PhabricatorSearchWorker")
	php := &standIn{}
	php.up.Store(true)
	php.run = func(task tasks.Task) tasks.Outcome {
		if task.ID == 1 && php.up.CompareAndSwap(true, false) {
			time.AfterFunc(50*time.Millisecond, func() { php.up.Store(true) })
			return tasks.Outcome{Kind: tasks.Crashed, Wait: tasks.DefaultWait}
		}
		return tasks.Outcome{Kind: tasks.Succeeded}
	}
	got := commandWith(t, php, m, "run", "--until-empty", "--php-pickup-delay=0s")
	if got.code != exitOK || !strings.Contains(got.out, ": 1 succeeded") || !strings.Contains(got.out, "1 crashed") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestRunUntilEmptyFailsAtOnceWhenPHPNeverWorked(t *testing.T) {
	got := commandWith(t, &standIn{}, queued(t, 2, "PhabricatorSearchWorker"), "run", "--until-empty")
	if got.code != exitFailed || !strings.Contains(got.err, "PHP cannot run, so the tasks of its classes stay in the queue: PHP is ill") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestAPhorgeWithoutTheLibraryIsToldOf(t *testing.T) {
	t.Setenv(role, "good")
	got := command(t, newMemory(), "", "run", "--until-empty", "--phorge="+phorgeDir(t, `{}`), "--plugins="+manifestOf(t, binary(t), "AcmeWorker", "{}"))
	if want := "nothing runs PHP here, so classes without a plugin stay in the queue"; got.code != exitOK || strings.Count(got.err, want) != 1 {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	got = command(t, newMemory(), "", "run", "--until-empty", "--php=off", "--phorge="+phorgeDir(t, `{}`), "--plugins="+manifestOf(t, binary(t), "AcmeWorker", "{}"))
	if got.code != exitOK || strings.Contains(got.err, "warn") {
		t.Errorf("an admin who wants plugins alone is warned: exit code %d, %s", got.code, got.err)
	}
}

func TestB33PHPThatDoesNotRunShowsInReadiness(t *testing.T) {
	h, err := host.New(host.Config{Manifest: &host.Manifest{}})
	if err != nil {
		t.Fatal(err)
	}
	php := &standIn{}
	classes, others := classesToRun(&config{}, h, php.route(), zerolog.Nop())
	m := newMemory()
	rt, err := runtime.New(runtime.Config{Store: m, Classes: classes, Others: others})
	if err == nil {
		err = rt.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	w := newWatch(newApp(), zerolog.Nop(), m, h, php.route())
	for _, up := range []bool{true, false, true} {
		php.up.Store(up)
		if up {
			harness.Eventually(t, "all that is to run here does", func() bool { return w.ready(rt) == nil })
		} else if err := w.ready(rt); err == nil || !strings.Contains(err.Error(), "PHP is ill") {
			t.Errorf("while PHP does not run, readiness is %v", err)
		}
		if report := w.status(rt); report.Ready != up || up != (report.Problem == "") {
			t.Errorf("while PHP runs is %v, the status is %+v", up, report)
		}
	}
}

func TestAClassThatFallsBackToPHPRunsWithoutItsHandler(t *testing.T) {
	unpinned := func(fallback string) string {
		return "--plugins=" + writeFile(t, "plugins.yaml", "plugins:\n  - path: /bin/true\n    classes: {AcmeWorker: {fallback: "+fallback+"}}\n", 0o600)
	}
	php := &standIn{}
	php.up.Store(true)
	got := commandWith(t, php, queued(t, 2, "AcmeWorker"), "run", "--until-empty", unpinned("php"))
	if got.code != exitOK || !strings.HasPrefix(got.out, "2 tasks leased: 2 succeeded") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	got = commandWith(t, php, queued(t, 2, "AcmeWorker"), "run", "--until-empty", unpinned("hold"))
	if got.code != exitFailed || !strings.Contains(got.err, "class AcmeWorker cannot run, so its tasks stay in the queue") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestStoppingDoesNotWaitForPHPThatCannotBeStopped(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		timeout string
	}{
		{"what runs has had its time", []syscall.Signal{syscall.SIGTERM}, "--drain-timeout=10ms"},
		{"a second signal", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, "--drain-timeout=1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed := make(chan struct{})
			php := &standIn{
				run: func(tasks.Task) tasks.Outcome {
					for _, signal := range c.signals {
						if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
							t.Error(err)
						}
					}
					<-closed
					return tasks.Outcome{Kind: tasks.Lost}
				},
				close: sync.OnceValue(func() error { close(closed); return nil }),
			}
			php.up.Store(true)
			m := queued(t, 1, "PhabricatorTestWorker")
			got := commandWith(t, php, m, "run", "--until-empty", "--php-pickup-delay=0s", c.timeout)
			if got.code != exitFailed || !strings.HasPrefix(got.out, "1 task leased: 0 succeeded") || !strings.Contains(got.out, "1 lost") {
				t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
			}
			if record, err := m.Get(t.Context(), 1); err != nil || record.Owner == nil || tasks.Nobody(*record.Owner) {
				t.Errorf("the task that may still run is %+v, %v", record, err)
			}
		})
	}
}
