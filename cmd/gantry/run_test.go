package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

// queued is a queue with some tasks of a class.
func queued(t *testing.T, count int, class string) memory {
	t.Helper()
	m := newMemory()
	for range count {
		if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: class, Data: []byte(`{}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestRunUntilEmptyRunsWhatItCanAndTellsWhatItDid(t *testing.T) {
	t.Setenv(role, "good")
	plugins := "--plugins=" + manifest(t, binary(t), "AcmeWorker")

	m := queued(t, 7, "AcmeWorker")
	if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: "OtherWorker", Data: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	got := command(t, m, "", "run", "--until-empty", plugins)
	if want := "7 tasks leased: 7 succeeded, 0 yielded, 0 to be tried again, 0 failed, 0 crashed, 0 given back, 0 lost\n"; got.out != want || got.code != exitOK {
		t.Errorf("exit code %d, %s%s\nwant %s", got.code, got.out, got.err, want)
	}
	for _, want := range []string{`"classes":["AcmeWorker"]`, `"message":"serving"`, `"taskClass":"OtherWorker","queued":1`} {
		if strings.Count(got.err, want) != 1 {
			t.Errorf("the log is\n%s\nand does not say %s once", got.err, want)
		}
	}
	if record, err := m.Get(t.Context(), 8); err != nil || record.Archive != nil || record.Owner != nil {
		t.Errorf("the task that nothing here runs is %+v, %v", record, err)
	}

	got = command(t, queued(t, 2, "AcmeWorker"), "", "run", "--until-empty", "--output=json", plugins)
	expect(t, result{got.code, got.out, ""}, exitOK,
		`{"leased":2,"succeeded":2,"yielded":0,"retried":0,"failed":0,"crashed":0,"released":0,"lost":0}`+"\n", "")
}

func TestRunUntilEmptyFailsWhenAHandlerDoesNotRun(t *testing.T) {
	t.Setenv(role, "good")
	unpinned := writeFile(t, "plugins.yaml", "plugins:\n  - path: "+binary(t)+"\n    classes: {AcmeWorker: {}}\n", 0o600)
	m := queued(t, 1, "AcmeWorker")
	got := command(t, m, "", "run", "--until-empty", "--plugins="+unpinned)
	if got.code != exitFailed || !strings.Contains(got.err, "class AcmeWorker cannot run, so its tasks stay in the queue") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

// enqueue queues a task of AcmeWorker.
func enqueue(t *testing.T, m memory, data string) {
	t.Helper()
	if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: "AcmeWorker", Data: []byte(data)}}); err != nil {
		t.Fatal(err)
	}
}

func TestRunUntilEmptyWaitsForAHandlerThatIsStartedAgain(t *testing.T) {
	t.Setenv(role, "breaks")
	m := newMemory()
	enqueue(t, m, fmt.Sprintf(`{"ExitOnce":%q}`, filepath.Join(t.TempDir(), "exited")))
	enqueue(t, m, `{}`)
	enqueue(t, m, `{}`)
	got := command(t, m, "", "run", "--until-empty", "--plugins="+manifestOf(t, binary(t), "AcmeWorker", "{slots: 1}"))
	if want := "3 tasks leased: 2 succeeded, 0 yielded, 0 to be tried again, 0 failed, 1 crashed"; got.code != exitOK || !strings.HasPrefix(got.out, want) {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestRunUntilEmptyFailsWhenTasksWentBack(t *testing.T) {
	t.Setenv(role, "breaks")
	m := newMemory()
	enqueue(t, m, `{"Decline":"not mine"}`)
	enqueue(t, m, `{}`)
	got := command(t, m, "", "run", "--until-empty", "--plugins="+manifestOf(t, binary(t), "AcmeWorker", "{}"))
	if got.code != exitFailed || !strings.Contains(got.err, "gantry: 1 task was given back and must wait") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestOnlyOneStartIsWaitedForAndOnlyOfWhatIsDown(t *testing.T) {
	status := func(name string, state host.State, restarts int) host.Status {
		return host.Status{Name: name, State: state, Restarts: restarts}
	}
	alone := status("a (alone)", host.Backoff, 0)
	for _, c := range []struct {
		name string
		then [][]host.Status
		want bool
	}{
		{"all run", [][]host.Status{{status("a", host.Ready, 3)}}, false},
		{"one starts", [][]host.Status{{status("a", host.Starting, 1)}, {status("a", host.Ready, 1)}}, true},
		{"one comes back", [][]host.Status{{status("a", host.Draining, 0)}, {status("a", host.Backoff, 0)}, {status("a", host.Starting, 1)}, {status("a", host.Ready, 1)}}, true},
		{"one fails again", [][]host.Status{{status("a", host.Backoff, 4)}, {status("a", host.Starting, 5)}, {status("a", host.Backoff, 5)}}, false},
		{"one fails again, the other comes back", [][]host.Status{
			{status("a", host.Backoff, 0), status("b", host.Backoff, 0)},
			{status("a", host.Backoff, 1), status("b", host.Starting, 1)},
			{status("a", host.Backoff, 1), status("b", host.Ready, 1)}}, true},
		{"the one for suspects comes back", [][]host.Status{
			{{Name: "a", State: host.Ready, Alone: &alone}},
			{{Name: "a", State: host.Ready, Alone: new(status("a (alone)", host.Ready, 1))}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			list := func() []host.Status {
				calls++
				return c.then[min(calls, len(c.then))-1]
			}
			if got := restarted(t.Context(), list); got != c.want {
				t.Errorf("it answers %v, want %v", got, c.want)
			}
		})
	}
}

func TestRunNeedsSomethingThatRunsTasks(t *testing.T) {
	got := command(t, newMemory(), "", "run")
	if got.code != exitUsage || !strings.Contains(got.err, "there is nothing to run: no manifest of handler binaries is named (--plugins), and PHP does not run, because neither phorge nor conduit is set") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func TestSettingsOfAClassGoOverTheManifestButSlotsOnlyDown(t *testing.T) {
	h, err := host.New(host.Config{Manifest: &host.Manifest{Plugins: []host.Plugin{{Classes: map[string]host.Class{
		"Plain":   {},
		"Limited": {Slots: 4, Lease: time.Minute, Deadline: time.Hour},
		"Raised":  {Slots: 4},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &config{PickupDelay: time.Second, Classes: map[string]classConfig{
		"Limited": {Slots: new(2), Lease: new(2 * time.Minute), Deadline: new(time.Minute), PickupDelay: new(time.Duration(0)), MaxCrashes: new(1)},
		"Raised":  {Slots: new(9)},
		"Unknown": {},
	}}
	var log strings.Builder
	got, others := classesToRun(c, h, &phpRoute{}, zerolog.New(&log))
	want := map[string]runtime.Class{
		"Plain":   {Route: "plugin", PickupDelay: time.Second},
		"Limited": {Route: "plugin", Slots: 2, LeaseTime: 2 * time.Minute, Deadline: time.Minute, MaxCrashes: 1},
		"Raised":  {Route: "plugin", Slots: 4, PickupDelay: time.Second},
	}
	if others != nil {
		t.Errorf("without PHP, other classes run as %+v", others)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(runtime.Class{}, "Executor")); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	for name, class := range got {
		if class.Executor != tasks.Executor(h) {
			t.Errorf("%s does not run in the host", name)
		}
	}
	if !strings.Contains(log.String(), `"taskClass":"Unknown"`) {
		t.Errorf("settings for a class that nothing takes were not logged: %s", log.String())
	}
}

func TestSumsOfPassesMissNoCount(t *testing.T) {
	one := runtime.Stats{Leased: 1, Started: 2, Succeeded: 3, Yielded: 4, Retried: 5, Failed: 6, Crashed: 7, Released: 8, Lost: 9, Revived: 10}
	two := runtime.Stats{Leased: 2, Started: 4, Succeeded: 6, Yielded: 8, Retried: 10, Failed: 12, Crashed: 14, Released: 16, Lost: 18, Revived: 20}
	if got := add(one, one); got != two {
		t.Errorf("sum is %+v", got)
	}
}
