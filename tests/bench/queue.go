package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	class = "PhabricatorTestWorker"
	data  = `{"duration":0}`
)

// queue is one worker database.
type queue struct {
	dsn string
	db  *sql.DB
}

func openQueue(dsn string) (*queue, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.MultiStatements = true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return &queue{dsn: dsn, db: sql.OpenDB(connector)}, nil
}

// The statements that fill a queue. They make what Phorge makes: a data row, a
// task row and a task counter that stands at the last id.
const (
	empty = `TRUNCATE worker_activetask; TRUNCATE worker_archivetask; TRUNCATE worker_taskdata`

	lastID = `SELECT COALESCE(MAX(counterValue), 0) FROM lisk_counter WHERE counterName = 'worker_activetask'`

	fillData = `INSERT INTO worker_taskdata (id, data) SELECT seq, ? FROM seq_%d_to_%d`

	fillActive = `INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified)
SELECT seq, ?, 0, seq, 2000, UNIX_TIMESTAMP(), UNIX_TIMESTAMP() FROM seq_%d_to_%d`

	fillArchive = `INSERT INTO worker_archivetask (id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, result, duration,
 dateCreated, dateModified, priority, archivedEpoch)
SELECT seq, ?, 'bench', UNIX_TIMESTAMP(), 0, seq, 0, 1, UNIX_TIMESTAMP(), UNIX_TIMESTAMP(), 2000, UNIX_TIMESTAMP()
FROM seq_%d_to_%d`

	moveCounter = `INSERT INTO lisk_counter VALUES ('worker_activetask', ?) ON DUPLICATE KEY UPDATE counterValue = VALUES(counterValue)`
)

// refill empties the queue and puts so many tasks into it.
func (q *queue) refill(ctx context.Context, tasks int) error {
	if _, err := q.db.ExecContext(ctx, empty); err != nil {
		return fmt.Errorf("empty the queue: %w", err)
	}
	if err := q.add(ctx, tasks, fillActive); err != nil {
		return err
	}
	return q.calm(ctx)
}

// chunk is how many rows one statement fills: a million in one transaction
// would leave the server with that much to purge at once.
const chunk = 100_000

// add puts so many rows in the place that fill says.
func (q *queue) add(ctx context.Context, rows int, fill string) error {
	var last int
	if err := q.db.QueryRowContext(ctx, lastID).Scan(&last); err != nil {
		return fmt.Errorf("read the task counter: %w", err)
	}
	for end := last + rows; last < end; {
		from, to := last+1, min(last+chunk, end)
		_, err1 := q.db.ExecContext(ctx, moveCounter, to)
		_, err2 := q.db.ExecContext(ctx, fmt.Sprintf(fillData, from, to), data)
		_, err3 := q.db.ExecContext(ctx, fmt.Sprintf(fill, from, to), class)
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("fill the queue: %w", err)
		}
		last = to
	}
	return nil
}

// calm waits until the server has purged what the last measurement left
// behind, so that it does not slow down the next one.
func (q *queue) calm(ctx context.Context) error {
	if _, err := q.db.ExecContext(ctx, `SET GLOBAL innodb_max_purge_lag_wait = 0`); err != nil {
		return fmt.Errorf("wait for the purge: %w", err)
	}
	return nil
}

// lacks reports whether a table has no rows, at the cost of one row.
func (q *queue) lacks(ctx context.Context, table string) (bool, error) {
	var id int64
	err := q.db.QueryRowContext(ctx, `SELECT id FROM `+table+` ORDER BY id DESC LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

// archived counts the archive.
func (q *queue) archived(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM worker_archivetask`).Scan(&n)
	return n, err
}

// await asks every so often whether something holds.
func await(ctx context.Context, every time.Duration, holds func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if yes, err := holds(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
