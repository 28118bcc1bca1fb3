package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// maxBlock bounds how many ids are reserved ahead of their use, and
	// blockLife for how long: between them lies how far the order of ids can
	// be from the order of time beside PHP, which takes one id a task.
	maxBlock  = 1000
	blockLife = time.Second

	// maxReservations bounds the tries to get ids that nobody has.
	maxReservations = 3
)

// idBlock is a range of task ids that is ours alone. A counter statement for
// each task would be a second durable commit for it, and inside the
// transaction it would make PHP's enqueue wait for our fsync.
type idBlock struct {
	now func() time.Time

	mu        sync.Mutex
	next, end int64     // [next, end) is not given out yet
	size      int64     // of the last reservation
	reserved  time.Time // when it was made
}

// takeIDs answers n task ids in ascending order.
func (s *Store) takeIDs(ctx context.Context, n int) ([]int64, error) {
	b := &s.ids
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now().Sub(b.reserved) >= blockLife {
		// Ids are 32 bits wide: what a quiet hour leaves unused is gone, so
		// blocks start small again.
		b.next, b.end, b.size = 0, 0, 0
	}
	ids := make([]int64, 0, n)
	for len(ids) < n {
		if b.next == b.end {
			// A block that was used up within its life may be followed by one
			// of twice its size.
			size := max(min(2*b.size, maxBlock), int64(n-len(ids)))
			first, err := s.reserve(ctx, size)
			if err != nil {
				return nil, fmt.Errorf("reserve %d task ids: %w", size, err)
			}
			b.next, b.end, b.size, b.reserved = first, first+size, size, b.now()
		}
		take := min(int64(n-len(ids)), b.end-b.next)
		for range take {
			ids = append(ids, b.next)
			b.next++
		}
	}
	return ids, nil
}

// dropIDs forgets the reserved ids and repairs the counter, after an id turned
// out to be somebody else's.
func (s *Store) dropIDs(ctx context.Context) error {
	s.ids.mu.Lock()
	defer s.ids.mu.Unlock()
	s.ids.next, s.ids.end = 0, 0
	return s.repairCounter(ctx)
}

const (
	// The counter of LiskDAO::loadNextCounterValue. UPDATE, not PHP's upsert: a
	// missing row is to be repaired, not begun again at 1.
	reserveSQL = `UPDATE lisk_counter SET counterValue = LAST_INSERT_ID(counterValue + ?)
WHERE counterName = 'worker_activetask'`

	// The active table would refuse an id that is in use; the archive would not
	// until the task is settled, and then it is too late.
	usedSQL = `SELECT EXISTS (SELECT 1 FROM worker_activetask WHERE id BETWEEN ? AND ?)
OR EXISTS (SELECT 1 FROM worker_archivetask WHERE id BETWEEN ? AND ?)`
)

// reserve answers the first of size ids that are given to nobody else.
func (s *Store) reserve(ctx context.Context, size int64) (first int64, err error) {
	for range maxReservations {
		var reserved int64
		err := s.again(ctx, func() error {
			result, err := s.db.ExecContext(ctx, reserveSQL, size)
			if err != nil {
				return err
			}
			if reserved, err = result.RowsAffected(); err != nil || reserved == 0 {
				return err
			}
			last, err := result.LastInsertId()
			first = last - size + 1
			return err
		})
		if err != nil {
			return 0, err
		}
		if reserved > 0 {
			used := false
			err := s.db.QueryRowContext(ctx, usedSQL, first, first+size-1, first, first+size-1).Scan(&used)
			if err != nil || !used {
				return first, s.server.explain(err)
			}
		}
		if err := s.repairCounter(ctx); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the counter worker_activetask of lisk_counter gives out ids that are in use, or disappears again and again; find out what changes it")
}

const (
	counterSQL = `SELECT (SELECT counterValue FROM lisk_counter WHERE counterName = 'worker_activetask'),
GREATEST(COALESCE((SELECT MAX(id) FROM worker_activetask), 0), COALESCE((SELECT MAX(id) FROM worker_archivetask), 0))`

	raiseCounterSQL = `INSERT INTO lisk_counter (counterName, counterValue) VALUES ('worker_activetask', ?)
ON DUPLICATE KEY UPDATE counterValue = GREATEST(counterValue, VALUES(counterValue))`
)

// repairCounter puts the task counter above every id that is in use. It writes
// only when the row is missing or behind.
func (s *Store) repairCounter(ctx context.Context) error {
	var counter sql.NullInt64
	var used int64
	if err := s.db.QueryRowContext(ctx, counterSQL).Scan(&counter, &used); err != nil {
		return fmt.Errorf("read the task counter: %w", s.server.explain(err))
	}
	if counter.Valid && counter.Int64 >= used {
		return nil
	}
	err := s.again(ctx, func() error {
		_, err := s.db.ExecContext(ctx, raiseCounterSQL, used)
		return err
	})
	if err != nil {
		return fmt.Errorf("raise the task counter to %d: %w", used, err)
	}
	return nil
}

// duplicate reports whether a row was refused because its id is in use.
func duplicate(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1062
}
