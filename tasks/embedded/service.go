package embedded

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// LeaseFor implements tasks.Service.
func (s *Store) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := (tasks.Caller{Name: name}).Check(); err != nil {
		return nil, err
	}
	return s.leaseFor(ctx, name, req)
}

// SettleLive implements tasks.Service.
func (s *Store) SettleLive(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settle(ctx, settlements, true)
}

const (
	readKeySQL = `SELECT contentHash, taskIDs FROM inbox WHERE idempotencyKey = ? AND epoch >= ?`

	keySQL = `INSERT OR REPLACE INTO inbox (idempotencyKey, contentHash, taskIDs, epoch) VALUES (?, ?, ?, ?)`

	// Two for each new one, so that this keeps up with any rate.
	trimKeysSQL = `DELETE FROM inbox WHERE idempotencyKey IN
(SELECT idempotencyKey FROM inbox INDEXED BY inboxAge WHERE epoch < ? ORDER BY epoch LIMIT 2)`
)

// EnqueueOnce implements tasks.Service.
func (s *Store) EnqueueOnce(ctx context.Context, once tasks.Once, news []tasks.NewTask) (ids []int64, duplicate bool, err error) {
	if err := once.Check(); err != nil {
		return nil, false, err
	}
	if err := validate(news); err != nil {
		return nil, false, err
	}
	reused := false
	hash := tasks.ContentHash(news)
	err = s.write(ctx, func(tx *txn) error {
		forgotten := tx.now - int64(once.Keep/time.Second)
		var before, kept []byte
		err := tx.row(readKeySQL, []any{once.Key, forgotten}, &before, &kept)
		switch {
		case err == nil:
			duplicate = bytes.Equal(before, hash[:])
			reused = !duplicate
			return json.Unmarshal(kept, &ids)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		duplicate, reused = false, false
		if ids, err = tx.insert(news, tasks.PriorityDefault); err != nil {
			return err
		}
		if err := tx.exec(keySQL, once.Key, hash[:], list(ids), tx.now); err != nil {
			return err
		}
		return tx.exec(trimKeysSQL, forgotten)
	})
	if reused {
		err = fmt.Errorf("%w: %q", tasks.ErrKeyReused, once.Key)
	}
	if err != nil {
		return nil, false, fmt.Errorf("queue %d tasks once: %w", len(news), err)
	}
	return ids, duplicate, nil
}

// archiveBound is how many archived rows are counted.
const archiveBound = 10000

const countArchivedSQL = `SELECT COALESCE(SUM(result = 0), 0), COALESCE(SUM(result = 1), 0), COALESCE(SUM(result = 2), 0), COUNT(*)
FROM (SELECT result FROM archive ORDER BY id DESC LIMIT ?)`

// CountArchived implements tasks.Service.
func (s *Store) CountArchived(ctx context.Context) (counted tasks.ArchivedCount, err error) {
	rows := 0
	err = s.read(ctx, func(c *conn, _ int64) error {
		return c.row(countArchivedSQL, []any{archiveBound}, &counted.Succeeded, &counted.Failed, &counted.Cancelled, &rows)
	})
	if err != nil {
		return counted, fmt.Errorf("count archived tasks: %w", err)
	}
	counted.More = rows == archiveBound
	return counted, nil
}

// Ready implements tasks.Service. It queues, leases and settles a task, and
// takes all of it back. A full disk is not found out.
func (s *Store) Ready(ctx context.Context) error {
	err := s.write(ctx, func(tx *txn) error {
		before := *tx
		if err := tx.conn.exec("SAVEPOINT ready"); err != nil {
			return err
		}
		err := tx.tryOut()
		*tx = before
		// Also when that failed: other calls are in the same transaction.
		return errors.Join(err, tx.conn.exec("ROLLBACK TO ready"), tx.conn.exec("RELEASE ready"))
	})
	if err != nil {
		return fmt.Errorf("find out whether tasks can be leased and settled: %w", err)
	}
	return nil
}

func (tx *txn) tryOut() error {
	ids, err := tx.insert([]tasks.NewTask{{Class: "Ready", Data: []byte("null")}}, tasks.PriorityDefault)
	if err != nil {
		return err
	}
	active, err := tx.active(ids)
	if err != nil {
		return err
	}
	chosen := []tasks.Task{*active[ids[0]]}
	if err := tx.take(chosen, "", tasks.LeaseRequest{}); err != nil {
		return err
	}
	return tx.archive(&chosen[0], tasks.ResultSuccess, 0)
}
