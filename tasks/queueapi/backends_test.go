package queueapi_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// backends are the stores that the API is served on, and the model of them.
var backends = []struct {
	name string
	open func(testing.TB) subject
}{{"Memory", openMemory}, {"MariaDB", openMariaDB}, {"SQLite", openSQLite}, {"Redis", openRedis}}

// openMemory answers the model. Its clock is far from the host's.
func openMemory(testing.TB) subject {
	m := storetest.NewMemory(func() int64 { return 2_000_000_000 })
	return subject{Service: m, backend: "memory", hands: m, close: func() {}}
}

var namespaces int

// openMariaDB answers a queue on Phorge's tables.
func openMariaDB(t testing.TB) subject {
	t.Helper()
	return openMariaDBOn(t, harness.Shared(t))
}

func openMariaDBOn(t testing.TB, server *scratch.MariaDB) subject {
	t.Helper()
	namespaces++
	namespace := fmt.Sprintf("queueapi%d", namespaces)
	if err := harness.CreateNamespace(server, namespace); err != nil {
		t.Fatal(err)
	}
	cfg, err := mysql.ParseDSN(server.DSN(namespace + "_worker"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := phorge.UpgradeStorage(t.Context(), cfg.FormatDSN(), php.Library); err != nil {
		t.Fatal(err)
	}
	store, err := phorge.Open(t.Context(), phorge.Config{DSN: cfg.FormatDSN()})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	return subject{Service: store, backend: "mysql", hands: tables{t, db}, close: func() {
		store.Close()
		if _, err := db.Exec("DROP DATABASE " + namespace + "_gantry"); err != nil {
			t.Error(err)
		}
		db.Close()
		if err := harness.DropNamespace(server, namespace); err != nil {
			t.Error(err)
		}
	}}
}

// tables is another program's hand on the tables.
type tables struct {
	t  testing.TB
	db *sql.DB
}

func (h tables) exec(statement string, args ...any) (sql.Result, error) {
	h.t.Helper()
	return h.db.Exec(statement, args...)
}

func (h tables) Insert(task tasks.Task) (int64, error) {
	result, err := h.exec("INSERT INTO worker_taskdata (data) VALUES (?)", string(task.Data))
	if err != nil {
		return 0, err
	}
	dataID, err := result.LastInsertId()
	if err != nil {
		return 0, err
	}
	result, err = h.exec(`INSERT INTO lisk_counter VALUES ('worker_activetask', LAST_INSERT_ID(1))
ON DUPLICATE KEY UPDATE counterValue = LAST_INSERT_ID(counterValue + 1)`)
	if err != nil {
		return 0, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return 0, err
	}
	_, err = h.exec(`INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified)
VALUES (?,?,?,?,?,?,?)`, id, task.Class, task.FailureCount, dataID, task.Priority, task.DateCreated, task.DateModified)
	return id, err
}

func (h tables) Place(id int64, place tasks.Place) error {
	_, err := h.exec("UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = ? WHERE id = ?", place.Owner, place.Expires, id)
	return err
}

func (h tables) Age(seconds int64) error {
	_, err := h.exec("UPDATE worker_activetask SET leaseExpires = leaseExpires - LEAST(leaseExpires, ?)", seconds)
	return err
}
