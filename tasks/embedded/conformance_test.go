package embedded

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// epoch is what a standing clock shows, in 2033: far from the host's clock.
const epoch = 2_000_000_000

func TestConformance(t *testing.T) { storetest.Run(t, subject) }

func TestConformanceOfTheService(t *testing.T) { storetest.RunService(t, subject) }

func subject(t *testing.T, clock storetest.Clock) storetest.Subject {
	c := Config{Path: filepath.Join(quickDir(t), "queue.db")}
	if clock == storetest.Standing {
		c.Clock = func() time.Time { return time.Unix(epoch, 0) }
	}
	one, other := open(t, c), open(t, c)
	db := openFile(t, c.Path)
	return storetest.Subject{
		Store: one, Other: other, Operator: one, Rows: rows{db},
		Close: func() {
			sound(t, db)
			one.Close()
			other.Close()
			db.Close()
		},
	}
}

// quickDir answers a directory in memory where there is such a thing: waiting
// for a disk proves nothing here.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "gantry-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	c.Host = "test"
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openFile opens the file as the sqlite3 shell does, with a wait for others.
func openFile(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, []string{"busy_timeout(10000)", "synchronous(OFF)"}))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// rows is another program's hand on the file.
type rows struct{ db *sql.DB }

func (r rows) Insert(task tasks.Task) (id int64, err error) {
	if err := r.db.QueryRow("UPDATE queue SET lastID = lastID + 1 RETURNING lastID").Scan(&id); err != nil {
		return 0, err
	}
	if task.Data != nil {
		if _, err := r.db.Exec("INSERT INTO data (id, data) VALUES (?, ?)", id, string(task.Data)); err != nil {
			return 0, err
		}
	}
	_, err = r.db.Exec(`INSERT INTO task (id, taskClass, leaseOwner, leaseExpires, failureCount, failureTime, priority,
objectPHID, containerPHID, dateCreated, dateModified) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		id, task.Class, task.Owner, task.Expires, task.FailureCount, task.FailureTime, task.Priority,
		task.ObjectPHID, task.ContainerPHID, task.DateCreated, task.DateModified)
	return id, err
}

func (r rows) Place(id int64, place tasks.Place) error {
	_, err := r.db.Exec("UPDATE task SET leaseOwner = ?, leaseExpires = ? WHERE id = ?", place.Owner, place.Expires, id)
	return err
}

func (r rows) Age(seconds int64) error {
	_, err := r.db.Exec("UPDATE task SET leaseExpires = max(leaseExpires - ?, 0) WHERE leaseExpires > 0", seconds)
	return err
}

func (r rows) All() ([]tasks.Record, error) {
	found, err := r.db.Query(`SELECT t.*, data FROM (` + activeRecords + ` UNION ALL ` + archivedRecords + `) t
LEFT JOIN data d ON d.id = t.id ORDER BY t.id`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var all []tasks.Record
	for found.Next() {
		var r tasks.Record
		var result, duration, archivedEpoch *int64
		if err := found.Scan(append(fields(&r.Task), &result, &duration, &archivedEpoch, &r.Data)...); err != nil {
			return nil, err
		}
		if result != nil {
			r.Archive = &tasks.Archive{Result: int(*result), Duration: *duration, Epoch: *archivedEpoch}
		}
		all = append(all, r)
	}
	return all, found.Err()
}

// sound fails the test when the file is damaged, or its counters are wrong.
func sound(t testing.TB, db *sql.DB) {
	t.Helper()
	var problem string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&problem); err != nil || problem != "ok" {
		t.Errorf("the file is damaged: %s (%v)", problem, err)
	}
	var archived, counted int
	if err := db.QueryRow("SELECT archived, (SELECT COUNT(*) FROM archive) FROM queue").Scan(&archived, &counted); err != nil || archived != counted {
		t.Errorf("%d rows are archived and %d counted (%v)", counted, archived, err)
	}
}
