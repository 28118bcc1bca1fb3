package phorge

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	activeColumns = `id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, failureTime, priority,
objectPHID, containerPHID, dateCreated, dateModified`

	archiveColumns = `id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, priority,
objectPHID, containerPHID, dateCreated, dateModified, result, duration, archivedEpoch`
)

// row is a row of worker_activetask.
type row struct {
	tasks.Task
	dataID int64
}

// fields answers where the columns of activeColumns go.
func (r *row) fields() []any {
	return []any{&r.ID, &r.Class, &r.Owner, &r.Expires, &r.FailureCount, &r.dataID, &r.FailureTime, &r.Priority,
		&r.ObjectPHID, &r.ContainerPHID, &r.DateCreated, &r.DateModified}
}

// PRIMARY is forced because for many ids in a small table the optimizer scans
// all of it, and would wait for rows that others have locked. The range runs
// by ascending id, which is the order everyone locks in.
const lockSQL = `SELECT UNIX_TIMESTAMP(), ` + activeColumns + `
FROM worker_activetask FORCE INDEX (PRIMARY) WHERE id IN (%ids) ORDER BY id FOR UPDATE`

// lock locks the active rows among ids and answers them, and the time as it
// was when the statement began.
func lock(ctx context.Context, tx *sql.Tx, ids []int64) (rows map[int64]*row, now int64, err error) {
	found, err := tx.QueryContext(ctx, withIDs(lockSQL, ids))
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	rows = make(map[int64]*row, len(ids))
	for found.Next() {
		r := &row{}
		if err := found.Scan(append([]any{&now}, r.fields()...)...); err != nil {
			return nil, 0, err
		}
		rows[r.ID] = r
	}
	return rows, now, found.Err()
}

// Rows that are held locked exist, so the insert always finds its duplicate:
// this is an UPDATE with other values for each row, in one round trip. The
// alternatives are a CASE over the ids, which costs their square, and a
// statement for each row.
var saveRows = bulk{
	head: `INSERT INTO worker_activetask (` + activeColumns + `) VALUES `,
	row:  `(?,?,?,?,?,?,?,?,?,?,?,?)`,
	tail: ` ON DUPLICATE KEY UPDATE leaseOwner = VALUES(leaseOwner), leaseExpires = VALUES(leaseExpires),
failureCount = VALUES(failureCount), failureTime = VALUES(failureTime), priority = VALUES(priority),
dateModified = VALUES(dateModified)`,
}

// save writes what may have changed in locked rows.
func save(ctx context.Context, tx *sql.Tx, rows []*row) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([]any, 0, 12*len(rows))
	for _, r := range rows {
		values = append(values, r.ID, r.Class, r.Owner, r.Expires, r.FailureCount, r.dataID, r.FailureTime, r.Priority,
			r.ObjectPHID, r.ContainerPHID, r.DateCreated, r.DateModified)
	}
	_, err := saveRows.exec(ctx, tx, len(rows), values)
	return err
}

// A DELETE takes no index hint, and the optimizer scans a small table for many
// ids: two settlements would then wait for each other's rows, which is a
// deadlock. The order with a limit makes it go by the primary key.
const deleteSQL = `DELETE FROM worker_activetask WHERE id IN (%ids) ORDER BY id LIMIT ?`

// An id can be in the archive already: stock Phorge gives ids out again when
// its counter row was lost. The later task replaces the earlier one there,
// because refusing it would leave it in the queue, done but never settled.
var archiveRows = bulk{
	head: `REPLACE INTO worker_archivetask (` + archiveColumns + `) VALUES `,
	row:  `(?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
}

// archived is a row on its way to the archive.
type archived struct {
	*row
	tasks.Archive
}

// archive moves locked rows, as PhabricatorWorkerActiveTask::archiveTask: it
// keeps what the row holds and drops failureTime, which the archive has not.
func archive(ctx context.Context, tx *sql.Tx, rows []archived) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	if _, err := tx.ExecContext(ctx, withIDs(deleteSQL, ids), len(ids)); err != nil {
		return err
	}
	values := make([]any, 0, 14*len(rows))
	for _, r := range rows {
		values = append(values, r.ID, r.Class, r.Owner, r.Expires, r.FailureCount, r.dataID, r.Priority,
			r.ObjectPHID, r.ContainerPHID, r.DateCreated, r.Epoch, r.Result, r.Duration, r.Epoch)
	}
	_, err := archiveRows.exec(ctx, tx, len(rows), values)
	return err
}

// bulk is a statement that writes many rows.
type bulk struct{ head, row, tail string }

func (b bulk) exec(ctx context.Context, tx *sql.Tx, rows int, values []any) (sql.Result, error) {
	statement := b.head + strings.Repeat(b.row+",", rows-1) + b.row + b.tail
	return tx.ExecContext(ctx, statement, values...)
}

// withIDs puts ids in the place of %ids. They are numbers, so they need no
// placeholders, and writing them is cheaper.
func withIDs(statement string, ids []int64) string {
	list := make([]byte, 0, 11*len(ids))
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, id, 10)
	}
	return strings.Replace(statement, "%ids", string(list), 1)
}
