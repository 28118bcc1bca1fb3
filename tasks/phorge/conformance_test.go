package phorge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// epoch is what a standing clock shows, in 2033: far from the host's clock, so
// that a store which reads that one fails.
const epoch = 2_000_000_000

func TestConformance(t *testing.T) {
	defer phorge.ReadWhole()()
	statement, err := scratch.Start(scratch.Options{Args: []string{"--log-bin", "--binlog-format=STATEMENT", "--server-id=1"}, Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer statement.Stop()
	if mode := ask(t, statement, "SELECT @@binlog_format FROM DUAL WHERE @@log_bin"); mode != "STATEMENT" {
		t.Fatalf("the server that should log statements is set to %s", mode)
	}
	for _, variant := range []struct {
		name   string
		server *scratch.MariaDB
		config phorge.Config
		params map[string]string
		zone   *time.Location // of this process
		gantry bool           // with <namespace>_gantry
	}{
		{name: "SkipLocked", server: harness.Shared(t), gantry: true},
		{name: "B24WithoutSkipLocked", server: harness.Shared(t), config: phorge.Config{WithoutSkipLocked: true}},
		{name: "StatementBinlog", server: statement},
		{
			name: "B28OtherTimeZones", server: harness.Shared(t),
			params: map[string]string{"time_zone": "'+08:00'"}, zone: time.FixedZone("", -11*3600),
		},
	} {
		t.Run(variant.name, func(t *testing.T) {
			if variant.zone != nil {
				defer func(before *time.Location) { time.Local = before }(time.Local)
				time.Local = variant.zone
			}
			storetest.Run(t, func(t *testing.T, clock storetest.Clock) storetest.Subject {
				return open(t, variant.server, variant.config, variant.params, clock, variant.gantry)
			})
		})
	}
}

func ask(t *testing.T, server *scratch.MariaDB, question string) (answer string) {
	t.Helper()
	db, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(question).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return answer
}

// namespaces numbers the queues of this test binary.
var namespaces int

// open answers an empty queue on a server. A standing clock is the session
// variable timestamp, which UNIX_TIMESTAMP() follows.
func open(t *testing.T, server *scratch.MariaDB, c phorge.Config, params map[string]string, clock storetest.Clock, gantry bool) storetest.Subject {
	t.Helper()
	namespaces++
	namespace := fmt.Sprintf("conform%d", namespaces)
	if err := harness.CreateNamespace(server, namespace); err != nil {
		t.Fatal(err)
	}
	cfg, err := mysql.ParseDSN(server.DSN(namespace + "_worker"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Params = map[string]string{}
	for name, value := range params {
		cfg.Params[name] = value
	}
	if clock == storetest.Standing {
		cfg.Params["timestamp"] = fmt.Sprint(epoch)
	}
	c.DSN = cfg.FormatDSN()
	db, err := sql.Open("mysql", c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	if gantry {
		if _, err := phorge.UpgradeStorage(t.Context(), c.DSN, php.Library); err != nil {
			t.Fatal(err)
		}
	}
	one, other := openStore(t, c), openStore(t, c)
	if err := one.Gantry(); gantry != (err == nil) {
		t.Fatalf("with its own database: %t; %v", gantry, err)
	}
	if now, err := one.Now(t.Context()); err != nil || clock == storetest.Standing && now != epoch {
		t.Fatalf("the clock shows %d (%v)", now, err)
	}
	return storetest.Subject{
		Store: one, Other: other, Operator: one, Rows: rows{db},
		Close: func() {
			one.Close()
			other.Close()
			if gantry {
				if _, err := db.Exec("DROP DATABASE " + namespace + "_gantry"); err != nil {
					t.Error(err)
				}
			}
			db.Close()
			if err := harness.DropNamespace(server, namespace); err != nil {
				t.Error(err)
			}
		},
	}
}

func openStore(t *testing.T, c phorge.Config) *phorge.Store {
	t.Helper()
	s, err := phorge.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rows is another program's hand on the tables.
type rows struct{ db *sql.DB }

// Insert takes the id, then writes the data and then the task, each on its
// own, as PHP does.
func (r rows) Insert(task tasks.Task) (int64, error) {
	id, err := r.insert(`INSERT INTO lisk_counter VALUES ('worker_activetask', LAST_INSERT_ID(1))
ON DUPLICATE KEY UPDATE counterValue = LAST_INSERT_ID(counterValue + 1)`)
	if err != nil {
		return 0, err
	}
	dataID := int64(0) // no row has it
	if task.Data != nil {
		if dataID, err = r.insert("INSERT INTO worker_taskdata (data) VALUES (?)", string(task.Data)); err != nil {
			return 0, err
		}
	}
	_, err = r.db.Exec(`INSERT INTO worker_activetask (id, taskClass, leaseOwner, leaseExpires, failureCount, dataID,
failureTime, priority, objectPHID, containerPHID, dateCreated, dateModified) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`,
		id, task.Class, task.Owner, task.Expires, task.FailureCount, dataID,
		task.FailureTime, task.Priority, task.ObjectPHID, task.ContainerPHID, task.DateCreated, task.DateModified)
	return id, err
}

func (r rows) insert(statement string, args ...any) (int64, error) {
	result, err := r.db.Exec(statement, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (r rows) Place(id int64, place tasks.Place) error {
	_, err := r.db.Exec("UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = ? WHERE id = ?", place.Owner, place.Expires, id)
	return err
}

// Age locks rows in an order of its own, as the sweep of phd start does, so it
// loses deadlocks now and then.
func (r rows) Age(seconds int64) error {
	for {
		_, err := r.db.Exec("UPDATE worker_activetask SET leaseExpires = leaseExpires - LEAST(leaseExpires, ?)", seconds)
		if e := (*mysql.MySQLError)(nil); !errors.As(err, &e) || e.Number != 1213 {
			return err
		}
	}
}

func (r rows) All() ([]tasks.Record, error) {
	found, err := r.db.Query(`SELECT t.id, taskClass, leaseOwner, leaseExpires, failureCount, failureTime, priority, objectPHID,
containerPHID, dateCreated, dateModified, result, duration, archivedEpoch, data FROM (
SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, failureTime, priority, objectPHID, containerPHID,
dateCreated, dateModified, NULL AS result, NULL AS duration, NULL AS archivedEpoch, dataID FROM worker_activetask
UNION ALL SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, NULL, priority, objectPHID, containerPHID,
dateCreated, dateModified, result, duration, archivedEpoch, dataID FROM worker_archivetask) t
LEFT JOIN worker_taskdata d ON d.id = t.dataID ORDER BY t.id`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var all []tasks.Record
	for found.Next() {
		var task tasks.Task
		var result, duration, archivedEpoch *int64
		err := found.Scan(&task.ID, &task.Class, &task.Owner, &task.Expires, &task.FailureCount, &task.FailureTime, &task.Priority,
			&task.ObjectPHID, &task.ContainerPHID, &task.DateCreated, &task.DateModified, &result, &duration, &archivedEpoch, &task.Data)
		if err != nil {
			return nil, err
		}
		record := tasks.Record{Task: task}
		if result != nil {
			record.Archive = &tasks.Archive{Result: int(*result), Duration: *duration, Epoch: *archivedEpoch}
		}
		all = append(all, record)
	}
	return all, found.Err()
}
