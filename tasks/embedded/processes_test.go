package embedded

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestMain(m *testing.M) {
	is, err := storetest.Work(false, func(path, name string) (tasks.Store, error) {
		return Open(context.Background(), Config{Path: path, Host: name})
	})
	if is {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The race detector makes SQLite, which is Go here, ten times slower, and
	// one goroutine at a time works on these histories.
	if flag.Parse(); raceEnabled && flag.Lookup("rapid.checks").Value.String() == "100" {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestKillsOfSeveralProcessesLoseAndDoubleNothing(t *testing.T) {
	path := filepath.Join(quickDir(t), "queue.db") // kill -9 spares what the system has
	store := open(t, Config{Path: path})
	file := rows{openFile(t, path)}
	storetest.KillWorkers(t, storetest.Killing{
		Slots: 3, Kills: 6, Place: path, Subject: storetest.Subject{Store: store, Operator: store, Rows: file},
	})
	sound(t, file.db)
}
