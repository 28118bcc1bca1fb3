package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"
)

// The raw floor of draining: the row changes that a drained queue comes to, and
// nothing else. No fence, no probe, no renewals, no runtime, nobody executing.
// Statements go out as text and without a BEGIN (autocommit is off). One cursor
// that all connections share walks the queue in its order, so that no scan
// crosses what was taken before and every lock is taken by primary key; with
// `ORDER BY priority, id LIMIT n FOR UPDATE SKIP LOCKED` in its place this
// drains half as fast.
const (
	floorFind = `SELECT id FROM worker_activetask
WHERE leaseOwner IS NULL AND priority = 2000 AND id > %s ORDER BY id LIMIT %d`

	floorLock = `SELECT dataID, id, taskClass, failureCount, priority, objectPHID, containerPHID, dateCreated
FROM worker_activetask FORCE INDEX (PRIMARY) WHERE id IN (%s) AND leaseOwner IS NULL ORDER BY id FOR UPDATE`

	floorTake = `UPDATE worker_activetask FORCE INDEX (PRIMARY) SET leaseOwner = %s, leaseExpires = UNIX_TIMESTAMP() + 60 WHERE id IN (%s)`

	floorData = `SELECT id, data FROM worker_taskdata WHERE id IN (%s)`

	floorHeld = `SELECT id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, priority, objectPHID, containerPHID, dateCreated
FROM worker_activetask FORCE INDEX (PRIMARY) WHERE id IN (%s) ORDER BY id FOR UPDATE`

	floorDelete = `DELETE FROM worker_activetask WHERE id IN (%s)`

	floorArchive = `INSERT INTO worker_archivetask (id, taskClass, leaseOwner, leaseExpires, failureCount, dataID,
 priority, objectPHID, containerPHID, dateCreated, result, duration, dateModified, archivedEpoch) VALUES `
)

// drainFloor empties the queue with so many connections, each taking a batch,
// reading its data and archiving it, in batches as large as the runtime's.
func drainFloor(ctx context.Context, dsn string, connections int) error {
	cursor := &floorCursor{last: "0"}
	return onFloor(ctx, dsn, connections, func(ctx context.Context, n int, f floor) error {
		owner := fmt.Sprintf("'floor:%d'", n)
		for {
			ids, err := cursor.next(ctx, f)
			if err != nil || len(ids) == 0 {
				return err
			}
			var data []string
			if err := f.retry(ctx, func() error { data, err = f.lease(ctx, owner, ids); return err }); err != nil {
				return err
			}
			if _, err := f.list(ctx, fmt.Sprintf(floorData, joined(data))); err != nil {
				return err
			}
			for part := range slices.Chunk(ids, settleBatch) {
				if err := f.retry(ctx, func() error { return f.settle(ctx, joined(part)) }); err != nil {
					return err
				}
			}
		}
	})
}

// floorCursor hands out the queue, one batch after the other.
type floorCursor struct {
	mu   sync.Mutex
	last string
}

// next answers ids; none when the queue is empty.
func (c *floorCursor) next(ctx context.Context, f floor) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids, err := f.list(ctx, fmt.Sprintf(floorFind, c.last, leaseBatch))
	if len(ids) > 0 {
		c.last = ids[len(ids)-1]
	}
	return ids, err
}

func joined(ids []string) string { return strings.Join(ids, ",") }

// floor is one connection.
type floor struct{ conn *sql.Conn }

// onFloor runs work on so many connections at once.
func onFloor(ctx context.Context, dsn string, connections int, work func(ctx context.Context, n int, f floor) error) error {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	config.Params = map[string]string{"autocommit": "0", "tx_isolation": "'READ-COMMITTED'"}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	group, ctx := errgroup.WithContext(ctx)
	for n := range connections {
		group.Go(func() error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			return work(ctx, n, floor{conn})
		})
	}
	return group.Wait()
}

// lease takes the tasks and answers the ids of their data.
func (f floor) lease(ctx context.Context, owner string, ids []string) (data []string, err error) {
	if data, err = f.list(ctx, fmt.Sprintf(floorLock, joined(ids))); err != nil {
		return nil, err
	}
	return data, f.exec(ctx, fmt.Sprintf(floorTake, owner, joined(ids)), "COMMIT")
}

func (f floor) settle(ctx context.Context, ids string) error {
	var archive strings.Builder
	separator := floorArchive + "("
	err := f.each(ctx, fmt.Sprintf(floorHeld, ids), func(columns []sql.RawBytes) {
		archive.WriteString(separator)
		for _, column := range columns {
			quote(&archive, column)
			archive.WriteByte(',')
		}
		archive.WriteString("0,1,UNIX_TIMESTAMP(),UNIX_TIMESTAMP())")
		separator = ",("
	})
	if err != nil {
		return err
	}
	return f.exec(ctx, fmt.Sprintf(floorDelete, ids), archive.String(), "COMMIT")
}

// retry repeats a transaction that lost a deadlock: when the queue is nearly
// empty, MariaDB scans all of it for an IN list.
func (f floor) retry(ctx context.Context, transaction func() error) error {
	for {
		err := transaction()
		var failure *mysql.MySQLError
		if !errors.As(err, &failure) || failure.Number != 1213 {
			return err
		}
		if err := f.exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
}

func (f floor) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := f.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// list answers the first column, and reads the others.
func (f floor) list(ctx context.Context, query string) (first []string, err error) {
	err = f.each(ctx, query, func(columns []sql.RawBytes) { first = append(first, string(columns[0])) })
	return first, err
}

// each reads every column of every row.
func (f floor) each(ctx context.Context, query string, row func(columns []sql.RawBytes)) error {
	rows, err := f.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	columns := make([]sql.RawBytes, len(names))
	into := make([]any, len(names))
	for i := range columns {
		into[i] = &columns[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row(columns)
	}
	return rows.Err()
}

// quote writes a value that the benchmark itself stored, so it holds nothing
// to escape.
func quote(sql *strings.Builder, value []byte) {
	if value == nil {
		sql.WriteString("NULL")
		return
	}
	sql.WriteByte('\'')
	sql.Write(value)
	sql.WriteByte('\'')
}
