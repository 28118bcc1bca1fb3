package phorge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestServiceConformance(t *testing.T) {
	defer phorge.ReadWhole()()
	for _, variant := range []struct {
		name   string
		config phorge.Config
	}{
		{name: "SkipLocked", config: phorge.Config{Traces: true}},
		{name: "WithoutSkipLocked", config: phorge.Config{WithoutSkipLocked: true, Traces: true}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			storetest.RunService(t, func(t *testing.T, clock storetest.Clock) storetest.Subject {
				return open(t, harness.Shared(t), variant.config, nil, clock, true)
			})
		})
	}
}

func TestWithoutItsOwnDatabaseKeysCannotBeKept(t *testing.T) {
	subject := open(t, harness.Shared(t), phorge.Config{}, nil, storetest.Running, false)
	defer subject.Close()
	_, _, err := subject.Store.(tasks.Service).EnqueueOnce(t.Context(), tasks.Once{Key: "k", Keep: time.Hour},
		[]tasks.NewTask{{Class: "A", Data: []byte("[]")}})
	if !errors.Is(err, tasks.ErrNoKeys) {
		t.Fatalf("EnqueueOnce answered %v", err)
	}
	if records, err := subject.Rows.All(); err != nil || len(records) != 0 {
		t.Fatalf("%d tasks were queued all the same (%v)", len(records), err)
	}
}

func TestAServerThatRefusesWritesIsNotReady(t *testing.T) {
	subject := open(t, harness.Shared(t), phorge.Config{}, nil, storetest.Running, false)
	defer subject.Close()
	db := subject.Rows.(rows).db
	for _, damage := range []string{
		"ALTER TABLE worker_archivetask DROP COLUMN result",
		"DROP TABLE worker_archivetask",
		"DROP TABLE worker_activetask",
	} {
		service := subject.Store.(tasks.Service)
		if damage == "ALTER TABLE worker_archivetask DROP COLUMN result" {
			if err := service.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Exec(damage); err != nil {
			t.Fatal(err)
		}
		if err := service.Ready(t.Context()); err == nil {
			t.Errorf("ready after %s", damage)
		}
	}
}
