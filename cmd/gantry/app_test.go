package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(role); role != "" {
		play(role)
	}
	harness.Main(m)
}

// noon is the clock of the queues in these tests.
const noon = 1800014400 // 2027-01-15 12:00:00Z

// memory makes the reference model a store that can be closed.
type memory struct{ *storetest.Memory }

func (memory) Close() error { return nil }

func (memory) Gantry() error { return nil }

func (memory) MissingStorage(context.Context, fs.FS) ([]string, error) { return nil, nil }

// Attempts answers those of task 4, whatever the model keeps.
func (memory) Attempts(_ context.Context, task int64, limit int) ([]tasks.Attempt, error) {
	if task != 4 {
		return nil, nil
	}
	attempts := []tasks.Attempt{
		{TaskID: 4, Class: "PhabricatorTestWorker", Number: 2, Route: "pool", Category: "crash", Reason: "exit status 255\n\x1b[2J", Host: "web1", Owner: "gantry:2", Duration: 1500, Epoch: noon - 10},
		{TaskID: 4, Class: "PhabricatorTestWorker", Number: 1, Route: "plugin", Category: "temporary", Reason: "no ink", Host: "web1", Owner: "gantry:1", Duration: 7, Epoch: noon - 400},
	}
	return attempts[:min(limit, len(attempts))], nil
}

func newMemory() memory {
	return memory{storetest.NewMemory(func() int64 { return noon })}
}

// result is what a command did.
type result struct {
	code     int
	out, err string
}

// command runs a command line on a queue, in an environment of its own.
func command(t *testing.T, s store, stdin string, args ...string) result {
	t.Helper()
	return commandOf(t, s, stdin, startPHP, args...)
}

func commandOf(t *testing.T, s store, stdin string, php func(context.Context, *config, zerolog.Logger) (*phpRoute, error), args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{
		in: strings.NewReader(stdin), out: &out, err: &err,
		configFile: filepath.Join(t.TempDir(), "none.yaml"),
		open: func(context.Context, *config) (store, error) {
			if s == nil {
				return nil, errors.New("no store in this test")
			}
			return s, nil
		},
		php: php,
	}
	code := a.main(args)
	return result{code, out.String(), err.String()}
}

// expect compares what a command did with what it should have done.
func expect(t *testing.T, got result, code int, out, err string) {
	t.Helper()
	if diff := cmp.Diff(result{code, out, err}, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

// seed is a queue with a task in every state that a listing tells apart.
func seed(t *testing.T) memory {
	t.Helper()
	m := newMemory()
	at := func(owner string, expires int64) tasks.Place { return tasks.Place{Owner: &owner, Expires: &expires} }
	lease := tasks.Owner{Fence: 7, Crashes: 1, Nonce: "abc", Host: "web1"}.String()
	object := "PHID-TASK-object"
	for _, task := range []tasks.Task{
		{ID: 1, Class: "PhabricatorSearchWorker", Data: []byte(`{"a":9007199254740993,"b":"<&>"}`), Priority: 3500, ObjectPHID: &object},
		{ID: 2, Class: "PhabricatorTestWorker", Data: []byte(`{}`), Place: at(lease, noon+40)},
		{ID: 3, Class: "PhabricatorTestWorker", Data: []byte(`{}`), Place: at(tasks.YieldOwner, noon+15)},
		{ID: 4, Class: "PhabricatorTestWorker", Data: []byte("\x1b[2J\xff"), FailureCount: 2, FailureTime: new(int64(noon - 10)),
			Place: at(tasks.RetryOwner(6, 1), noon+290)},
		{ID: 5, Class: "PhabricatorTestWorker", Place: tasks.Place{Expires: new(int64(noon + 3600))}},
		{ID: 6, Class: "PhabricatorTestWorker", Data: []byte(`3`), Place: at("4711:1800000000:db1:9", noon-60)},
		{ID: 7, Class: "PhabricatorTestWorker", Data: []byte(`3`), Place: tasks.Place{Owner: new("someone")}},
		{ID: 8, Class: "PhabricatorMetaMTAWorker", Data: []byte(`17`)},
	} {
		if task.Priority == 0 {
			task.Priority = tasks.PriorityDefault
		}
		task.DateCreated, task.DateModified = noon-100, noon-50
		if id, err := m.Insert(task); err != nil || id != task.ID {
			t.Fatalf("task %d got the id %d, %v", task.ID, id, err)
		}
	}
	archive(t, m, tasks.NewTask{Class: "PhabricatorMetaMTAWorker", Data: []byte(`18`)}, tasks.Succeeded) // 9
	archive(t, m, tasks.NewTask{Class: "PhabricatorMetaMTAWorker", Data: []byte(`19`)}, tasks.Failed)    // 10
	return m
}

// archive queues a task and runs it to an end.
func archive(t *testing.T, m memory, task tasks.NewTask, kind tasks.Kind) {
	t.Helper()
	task.Priority = new(1) // before all others
	if _, err := m.Enqueue(t.Context(), []tasks.NewTask{task}); err != nil {
		t.Fatal(err)
	}
	leased, err := m.Lease(t.Context(), tasks.LeaseRequest{Limit: 1, Classes: map[string]tasks.ClassRequest{
		task.Class: {Limit: 1, LeaseTime: 60e9},
	}})
	if err != nil || len(leased) != 1 {
		t.Fatalf("leased %v, %v", leased, err)
	}
	settled, err := m.Settle(t.Context(), []tasks.Settlement{{
		ID: leased[0].ID, Lease: *leased[0].Lease, Outcome: tasks.Outcome{Kind: kind, Duration: 1500e3},
	}})
	if err != nil || settled[0].Err != nil {
		t.Fatalf("settled %v, %v", settled, err)
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	want := command(t, nil, "", "version")
	expect(t, command(t, nil, "", "--version"), exitOK, want.out, "")
}
