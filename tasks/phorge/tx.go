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

const (
	// maxAttempts bounds how often a transaction is tried that loses deadlocks
	// or waits for locks in vain.
	maxAttempts = 10

	// maxInquiries bounds how often a server that does not answer is asked
	// whether a transaction took effect: for about five seconds.
	maxInquiries = 9
)

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
		return committed(ctx, tx.Commit())
	})
}

// committed tells, of what Commit answered, whether the transaction may have
// taken effect. It has not when it lost against another one, nor when ctx ended
// before: then COMMIT was never sent, and database/sql rolls back.
func committed(ctx context.Context, err error) error {
	ended := ctx.Err()
	switch {
	case err == nil, contended(err):
		return err
	case ended != nil && (errors.Is(err, ended) || errors.Is(err, sql.ErrTxDone)):
		return ended
	}
	return fmt.Errorf("%w: %w", errCommitUnknown, err)
}

// again repeats what lost against other transactions, after a random pause so
// that the two do not meet again, and explains what the server answered.
func (s *Store) again(ctx context.Context, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if !contended(err) {
			return s.server.explain(err)
		}
		s.repeated(contention(err))
		if attempt == maxAttempts {
			return fmt.Errorf("%w: gave up after %d attempts: %w", tasks.ErrUnavailable, attempt, err)
		}
		if !tasks.Pause(ctx, rand.N(time.Duration(attempt)*10*time.Millisecond)) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// untilKnown repeats a transaction whose COMMIT was not answered. From then on
// doubt is set: try finds out whether the transaction took effect, and runs it
// again when it did not.
func (s *Store) untilKnown(ctx context.Context, try func(doubt bool) error) error {
	doubt := false
	for inquiry := 0; ; inquiry++ {
		err := try(doubt)
		doubt = doubt || errors.Is(err, errCommitUnknown)
		if !doubt || !errors.Is(err, tasks.ErrUnavailable) {
			return err
		}
		s.repeated("connection")
		if inquiry == maxInquiries || !tasks.Pause(ctx, min(time.Second, 20*time.Millisecond<<inquiry)) {
			return fmt.Errorf("it is not known whether this took effect: %w", err)
		}
	}
}

// contention names, of two ways to lose against another transaction, which one
// it was.
func contention(err error) string {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == 1213 {
		return "deadlock"
	}
	return "lock_wait"
}

// contended reports whether a transaction lost against another one: 1213 is a
// deadlock, 1205 a lock wait timeout.
func contended(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}
