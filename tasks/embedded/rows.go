package embedded

import (
	"database/sql"

	"github.com/phorge-gantry/gantry/tasks"
)

const activeColumns = `id, taskClass, leaseOwner, leaseExpires, failureCount, failureTime, priority,
objectPHID, containerPHID, dateCreated, dateModified`

// Active and archived rows in one shape, so that one statement finds a task
// wherever it is.
const (
	activeRecords = `SELECT ` + activeColumns + `, NULL AS result, NULL AS duration, NULL AS archivedEpoch FROM task`

	archivedRecords = `SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, NULL, priority,
objectPHID, containerPHID, dateCreated, dateModified, result, duration, archivedEpoch FROM archive`
)

// fields answers where the columns of activeColumns go.
func fields(t *tasks.Task) []any {
	return []any{&t.ID, &t.Class, &t.Owner, &t.Expires, &t.FailureCount, &t.FailureTime, &t.Priority,
		&t.ObjectPHID, &t.ContainerPHID, &t.DateCreated, &t.DateModified}
}

const (
	activeByID   = `SELECT ` + activeColumns + ` FROM task WHERE id IN (SELECT value FROM json_each(?))`
	archivedByID = archivedRecords + ` WHERE id IN (SELECT value FROM json_each(?))`
)

// active answers the active rows among ids.
func (c *conn) active(ids []int64) (map[int64]*tasks.Task, error) {
	found := make(map[int64]*tasks.Task, len(ids))
	err := c.rows(activeByID, []any{list(ids)}, func(scan func(...any) error) error {
		task := &tasks.Task{}
		err := scan(fields(task)...)
		found[task.ID] = task
		return err
	})
	return found, err
}

// archivedAmong answers the archived rows among ids that are not active.
func (c *conn) archivedAmong(ids []int64, active map[int64]*tasks.Task) (map[int64]*tasks.Record, error) {
	found := map[int64]*tasks.Record{}
	var missing []int64
	for _, id := range ids {
		if active[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	records, err := c.records(archivedByID, list(missing))
	for i := range records {
		found[records[i].ID] = &records[i]
	}
	return found, err
}

// records reads rows of the shape of activeRecords, without their data.
func (c *conn) records(query string, args ...any) ([]tasks.Record, error) {
	var all []tasks.Record
	err := c.rows(query, args, func(scan func(...any) error) error {
		var r tasks.Record
		var result, duration, epoch sql.NullInt64
		if err := scan(append(fields(&r.Task), &result, &duration, &epoch)...); err != nil {
			return err
		}
		if result.Valid {
			r.Archive = &tasks.Archive{Result: int(result.Int64), Duration: duration.Int64, Epoch: epoch.Int64}
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

const dataByID = `SELECT id, data, COALESCE(traceparent, '') FROM data WHERE id IN (SELECT value FROM json_each(?))`

// payload is what does not change of a task.
type payload struct {
	data        []byte
	traceparent string
}

func (c *conn) data(ids []int64) (map[int64]payload, error) {
	data := make(map[int64]payload, len(ids))
	err := c.rows(dataByID, []any{list(ids)}, func(scan func(...any) error) error {
		var id int64
		var p payload
		err := scan(&id, &p.data, &p.traceparent)
		data[id] = p
		return err
	})
	return data, err
}

func (c *conn) fillData(records []tasks.Record) error {
	ids := make([]int64, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	data, err := c.data(ids)
	for i := range records {
		records[i].Data = data[records[i].ID].data
	}
	return err
}

const saveSQL = `UPDATE task SET leaseOwner = ?, leaseExpires = ?, failureCount = ?, failureTime = ?, priority = ?,
dateModified = ? WHERE id = ?`

// save writes what may have changed in an active row.
func (tx *txn) save(t *tasks.Task) error {
	return tx.exec(saveSQL, t.Owner, t.Expires, t.FailureCount, t.FailureTime, t.Priority, t.DateModified, t.ID)
}

const (
	deleteSQL = `DELETE FROM task WHERE id = ?`

	archiveSQL = `INSERT INTO archive (id, taskClass, leaseOwner, leaseExpires, failureCount, priority, objectPHID, containerPHID,
dateCreated, dateModified, result, duration, archivedEpoch) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`
)

// archive moves an active row, as PhabricatorWorkerActiveTask::archiveTask: it
// keeps what the row holds and drops failureTime. The data stays where it is.
func (tx *txn) archive(t *tasks.Task, result int, duration int64) error {
	if err := tx.exec(deleteSQL, t.ID); err != nil {
		return err
	}
	tx.archived++
	tx.moved++
	return tx.exec(archiveSQL, t.ID, t.Class, t.Owner, t.Expires, t.FailureCount, t.Priority, t.ObjectPHID, t.ContainerPHID,
		t.DateCreated, tx.now, result, duration, tx.now)
}
