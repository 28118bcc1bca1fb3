package phorge

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// One statement takes a key that is new, or that expired, and locks it in
	// every case; so of two calls with one key the second waits for the first.
	// epoch comes last, because the columns are assigned one after the other.
	keySQL = `INSERT INTO %s (idempotencyKey, contentHash, taskIDs, epoch) VALUES (?, ?, ?, UNIX_TIMESTAMP())
ON DUPLICATE KEY UPDATE
contentHash = IF(epoch < UNIX_TIMESTAMP() - ?, VALUES(contentHash), contentHash),
taskIDs = IF(epoch < UNIX_TIMESTAMP() - ?, VALUES(taskIDs), taskIDs),
epoch = IF(epoch < UNIX_TIMESTAMP() - ?, VALUES(epoch), epoch)`

	trimKeysSQL = `DELETE FROM %s WHERE epoch < UNIX_TIMESTAMP() - ? ORDER BY epoch, idempotencyKey LIMIT ?`

	readKeySQL = `SELECT contentHash, taskIDs FROM %s WHERE idempotencyKey = ?`
)

// EnqueueOnce implements tasks.Service. Keys are rows of the table inbox of
// Gantry's own database.
func (s *Store) EnqueueOnce(ctx context.Context, once tasks.Once, news []tasks.NewTask) ([]int64, bool, error) {
	if err := once.Check(); err != nil {
		return nil, false, err
	}
	if err := s.validate(news); err != nil {
		return nil, false, err
	}
	if s.gantry.database == "" {
		return nil, false, fmt.Errorf("%w: the worker database is not called <namespace>_worker, so the name of Gantry's own database is unknown", tasks.ErrNoKeys)
	}
	e := keyed{store: s, once: once}
	hash := tasks.ContentHash(news)
	e.hash = hash[:]
	err := s.withIDs(ctx, len(news), func(ids []int64) error {
		e.ids, e.rows = ids, newRows(news, ids, tasks.PriorityDefault)
		return e.enqueue(ctx)
	})
	if refused(err) {
		err = fmt.Errorf("%w: %w", tasks.ErrInvalid, err)
	}
	if err != nil {
		return nil, false, fmt.Errorf("queue %d tasks once: %w", len(news), err)
	}
	s.trimKeys(ctx, once.Keep)
	s.trimTraces(ctx, e.rows)
	return e.ids, e.duplicate, nil
}

// keyed is an enqueue under an idempotency key.
type keyed struct {
	store     *Store
	once      tasks.Once
	hash      []byte
	rows      []queued
	ids       []int64 // of the rows, or those of the first time
	duplicate bool
}

func (e *keyed) enqueue(ctx context.Context) error {
	return e.store.untilKnown(ctx, func(doubt bool) error {
		if doubt && len(e.rows) > 0 && !e.duplicate {
			done, err := e.store.exists(ctx, e.rows[0].id, e.rows[0].dataID)
			if done || err != nil {
				return err
			}
		}
		return e.store.transact(ctx, func(tx *sql.Tx) error { return e.write(ctx, tx) })
	})
}

// write is the transaction. The key is ours when its row holds our ids: ids are
// given out once.
func (e *keyed) write(ctx context.Context, tx *sql.Tx) error {
	mine := make([]int64, len(e.rows))
	for i, r := range e.rows {
		mine[i] = r.id
	}
	list, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	table, keep := e.store.gantry.table("inbox"), int64(e.once.Keep/time.Second)
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(keySQL, table), e.once.Key, e.hash, string(list), keep, keep, keep); err != nil {
		return e.explain(err)
	}
	var hash, kept []byte
	if err := tx.QueryRowContext(ctx, fmt.Sprintf(readKeySQL, table), e.once.Key).Scan(&hash, &kept); err != nil {
		return e.explain(err)
	}
	e.ids, e.duplicate = mine, false
	switch {
	case bytes.Equal(kept, list) && bytes.Equal(hash, e.hash):
		return e.store.insertTasks(ctx, tx, e.rows)
	case !bytes.Equal(hash, e.hash):
		return fmt.Errorf("%w: %q", tasks.ErrKeyReused, e.once.Key)
	}
	e.duplicate = true
	return json.Unmarshal(kept, &e.ids)
}

// explain says what is missing where keys cannot be kept.
func (e *keyed) explain(err error) error {
	var refusal *mysql.MySQLError
	if !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Number {
	case 1044, 1142:
		return fmt.Errorf("%w: grant this user SELECT, INSERT, UPDATE and DELETE on %s: %w", tasks.ErrNoKeys, e.store.gantry.database, err)
	case 1049, 1054, 1146:
		return fmt.Errorf("%w: run `gantry storage upgrade`, or Phorge's `bin/storage upgrade` once the library is installed: %w", tasks.ErrNoKeys, err)
	}
	return err
}

// trimKeys deletes expired keys when it is time. A failure is no matter.
func (s *Store) trimKeys(ctx context.Context, keep time.Duration) {
	if n := s.gantry.keys.due(1, s.gantry.now()); n > 0 {
		_, _ = s.db.ExecContext(ctx, fmt.Sprintf(trimKeysSQL, s.gantry.table("inbox")), int(keep/time.Second), n)
	}
}
