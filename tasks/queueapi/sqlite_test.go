package queueapi_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
)

// openSQLite answers a queue in one file.
func openSQLite(t testing.TB) subject {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	store, err := embedded.Open(t.Context(), embedded.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return subject{Service: store, backend: "sqlite", hands: file{db}, close: func() {
		db.Close()
		store.Close()
	}}
}

// file is another program's hand on the file.
type file struct{ db *sql.DB }

func (f file) Insert(task tasks.Task) (id int64, err error) {
	if err := f.db.QueryRow("UPDATE queue SET lastID = lastID + 1 RETURNING lastID").Scan(&id); err != nil {
		return 0, err
	}
	if _, err := f.db.Exec("INSERT INTO data (id, data) VALUES (?, ?)", id, string(task.Data)); err != nil {
		return 0, err
	}
	_, err = f.db.Exec(`INSERT INTO task (id, taskClass, failureCount, priority, dateCreated, dateModified) VALUES (?,?,?,?,?,?)`,
		id, task.Class, task.FailureCount, task.Priority, task.DateCreated, task.DateModified)
	return id, err
}

func (f file) Place(id int64, place tasks.Place) error {
	_, err := f.db.Exec("UPDATE task SET leaseOwner = ?, leaseExpires = ? WHERE id = ?", place.Owner, place.Expires, id)
	return err
}

func (f file) Age(seconds int64) error {
	_, err := f.db.Exec("UPDATE task SET leaseExpires = max(leaseExpires - ?, 0)", seconds)
	return err
}
