package plugins

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// session is a connection on which nothing commits by itself. A server ends a
// transaction when it must, after a deadlock for one, and where autocommit is
// on, every statement after that commits.
//
// When something failed, a savepoint tells whether the transaction is still the
// one that was begun: it ends with it. A list of errors would not do, because
// which ones end a transaction is up to the server and its settings.
type session struct {
	conn *sql.Conn
	ctx  context.Context // that ends the transaction; nil in a shadow run
	stop func() bool     // keeps ctx from cutting the connection; false when it has
	lost func()          // is called when the server has ended the transaction; may be nil

	turn  sync.Mutex // one statement at a time, so that none slips behind one that fails
	whole bool       // all or nothing: when the transaction ends, nothing more may be run
	ended error      // why nothing more may be run

	mu    sync.Mutex
	doubt error // what failed since the savepoint was last seen
}

const (
	mark   = "SAVEPOINT gantry"
	unmark = "RELEASE SAVEPOINT gantry"

	// markTimeout bounds statements for which a server has nothing to wait.
	markTimeout = 10 * time.Second
)

// openSession begins. settings are further ones of the session.
func openSession(ctx context.Context, db *sql.DB, settings string) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	if err := s.run("SET autocommit = 0"+settings, mark); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// run runs statements for which a server has nothing to wait.
func (s *session) run(queries ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	for _, query := range queries {
		if _, err := s.conn.ExecContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.goesOn(); err != nil {
		return nil, err
	}
	result, err := s.conn.ExecContext(ctx, query, args...)
	s.failed(err)
	return result, err
}

func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.goesOn(); err != nil {
		return nil, err
	}
	rows, err := s.conn.QueryContext(ctx, query, args...)
	s.failed(err)
	return rows, err
}

// failed notes that something failed, if it did.
func (s *session) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubt == nil {
		s.doubt = err
	}
}

// goesOn answers why nothing may be run. The turn is the caller's.
func (s *session) goesOn() error {
	s.mu.Lock()
	why := s.doubt
	s.mu.Unlock()
	if s.ended != nil || why == nil {
		return s.ended
	}
	if err := s.whether(s.run(unmark), why); err != nil {
		return err
	}
	if err := s.run(mark); err != nil {
		return err
	}
	s.mu.Lock()
	s.doubt = nil
	s.mu.Unlock()
	return nil
}

// whether tells by what a statement about a savepoint answered whether the
// transaction goes on, after something failed.
func (s *session) whether(answer, why error) error {
	var refused *mysql.MySQLError
	switch {
	case answer == nil:
		return nil
	case errors.As(answer, &refused) && refused.Number == 1305: // it does not exist
		if s.lost != nil {
			s.lost()
		}
		answer = fmt.Errorf("the server has ended the transaction and undone all of it, after: %w", why)
		if !s.whole {
			return nil
		}
	default:
		answer = fmt.Errorf("the connection died, and with it the transaction: %w, after: %w", answer, why)
	}
	if s.whole {
		s.ended = answer
	}
	return answer
}

// Commit commits, if the transaction is all there, and ends the session.
func (s *session) Commit() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if !s.stop() {
		s.discard()
		return s.ctx.Err()
	}
	err := s.goesOn()
	if err == nil {
		// Nothing interrupts it: what became of it would not be known.
		_, err = s.conn.ExecContext(context.Background(), "COMMIT")
	}
	if err != nil {
		s.discard()
		return err
	}
	s.giveBack()
	return nil
}

// Rollback undoes everything and ends the session. It answers an error when
// the server did so before.
func (s *session) Rollback() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.stop()
	s.goesOn()
	if s.run("ROLLBACK") != nil {
		s.discard()
	} else {
		s.giveBack()
	}
	return s.ended
}

// giveBack leaves the connection to the next task, as it was.
func (s *session) giveBack() {
	if s.run("SET autocommit = 1") != nil {
		s.discard()
		return
	}
	s.conn.Close()
}

// discard ends the connection, and by that the transaction.
func (s *session) discard() {
	s.conn.Raw(func(any) error { return driver.ErrBadConn })
	s.conn.Close()
}
