package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

// errCommitUnknown: the connection broke while a COMMIT was under way, so the
// transaction took effect or did not. It comes together with
// tasks.ErrUnavailable; whoever can tell by looking at the rows does so.
var errCommitUnknown = errors.New("the answer to COMMIT was lost")

// maxAttempts bounds how often a transaction is tried that loses deadlocks or
// waits for locks in vain.
const maxAttempts = 10

// transact runs work in a transaction, and the whole of it again after a
// deadlock or a lock wait timeout; so work must start afresh each time. After
// a timeout MySQL has undone only the statement, hence the ROLLBACK.
func (s *Store) transact(ctx context.Context, work func(tx *sql.Tx) error) error {
	return s.again(ctx, func() error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := work(tx); err != nil {
			// A failed ROLLBACK means a broken connection, which rolls back too.
			_ = tx.Rollback()
			return err
		}
		if err := tx.Commit(); err != nil {
			if contended(err) {
				return err
			}
			return fmt.Errorf("%w: %w", errCommitUnknown, err)
		}
		return nil
	})
}

// again repeats what lost against other transactions, after a random pause so
// that the two do not meet again, and translates what the server answered.
func (s *Store) again(ctx context.Context, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if !contended(err) {
			return s.server.explain(err)
		}
		if attempt == maxAttempts {
			return fmt.Errorf("%w: gave up after %d attempts: %w", tasks.ErrUnavailable, attempt, err)
		}
		pause := rand.N(time.Duration(attempt) * 10 * time.Millisecond)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// contended reports whether a transaction lost against another one: 1213 is a
// deadlock, 1205 a lock wait timeout.
func contended(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}
