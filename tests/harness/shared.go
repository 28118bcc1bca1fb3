// Package harness gives tests and benchmarks the real things to talk to: a
// private MariaDB with Phorge's worker tables, and, where a Phorge is installed,
// a live Phorge with its own storage.
//
// A test binary that uses it has
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// and shares one server among its tests, each in a namespace of its own.
package harness

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

// shared is the server of this test binary, started on first use.
var shared struct {
	sync.Mutex
	main       bool // Main runs, so that somebody will stop the server
	server     *scratch.MariaDB
	err        error
	namespaces int
	ends       []func() error
}

// AtEnd has something done when the tests of this binary are over, before what
// they shared ends.
func AtEnd(f func() error) {
	shared.Lock()
	defer shared.Unlock()
	shared.ends = append(shared.ends, f)
}

// Main is the body of a TestMain. It runs the tests, ends what they shared and
// exits.
func Main(m *testing.M) {
	shared.main = true
	code := m.Run()
	var err error
	for _, end := range slices.Backward(shared.ends) {
		err = errors.Join(err, end())
	}
	err = errors.Join(err, endLive())
	if shared.server != nil {
		err = errors.Join(err, shared.server.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness: end what the tests shared:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared answers the server of this test binary. A machine without MariaDB
// fails the test: nothing here is proven without a real one.
func Shared(t testing.TB) *scratch.MariaDB {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		t.Fatal("this test binary needs func TestMain(m *testing.M) { harness.Main(m) }")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = scratch.Start(scratch.Options{Memory: true})
	}
	if shared.err != nil {
		t.Fatalf("start the shared server: %v", shared.err)
	}
	return shared.server
}

// Namespace makes a namespace on the shared server, dropped when the test
// ends, and answers the DSN of its worker database.
func Namespace(t testing.TB) (dsn string) {
	t.Helper()
	m := Shared(t)
	shared.Lock()
	shared.namespaces++
	ns := fmt.Sprintf("test%d", shared.namespaces)
	shared.Unlock()
	if err := CreateNamespace(m, ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := DropNamespace(m, ns); err != nil {
			t.Error(err)
		}
	})
	return m.DSN(ns + "_worker")
}

// Open answers a pool of connections, closed when the test ends.
func Open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Eventually waits until a condition holds and fails the test when it does not
// within two minutes. The condition is asked often, so it should be cheap.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not within two minutes: %s", what)
		case <-tick.C:
		}
	}
}
