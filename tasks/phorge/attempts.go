package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

const (
	attemptColumns = `taskID, taskClass, attempt, route, category, reason, host, leaseOwner, durationUs, epoch`

	// Fails unless the table, all of its columns and the rights are there, and
	// writes nothing.
	probeAttemptsSQL = `INSERT INTO %s (` + attemptColumns + `) SELECT ` + attemptColumns + ` FROM %[1]s WHERE FALSE`

	attemptsSQL = `SELECT ` + attemptColumns + ` FROM %s WHERE taskID = ? ORDER BY id DESC LIMIT ?`

	trimSQL = `DELETE FROM %s WHERE epoch < UNIX_TIMESTAMP() - ? ORDER BY epoch, id LIMIT ?`
)

const (
	// keptFor is how long attempts are kept: as long as Phorge's collector
	// worker.tasks keeps archived tasks.
	keptFor = 14 * 24 * time.Hour

	// Old rows are deleted once so many were written, or some and so much
	// time has passed, and twice as many at most: that keeps up with any rate,
	// and no transaction is large.
	trimAfter = 500
	trimEvery = time.Minute
)

// errNoAttempts: attempts could not be written, for a reason that does not
// pass. What they belong to is then written without them.
var errNoAttempts = errors.New("attempts cannot be written")

// insertAttempts writes attempts in the transaction of what they belong to.
func (s *Store) insertAttempts(ctx context.Context, tx *sql.Tx, attempts []tasks.Attempt) error {
	rows := bulk{head: `INSERT INTO ` + s.gantry.table("attempts") + ` (` + attemptColumns + `) VALUES `, row: `(?,?,?,?,?,?,?,?,?,?)`}
	for part := range slices.Chunk(attempts, insertBytes/tasks.ReasonBytes) {
		values := make([]any, 0, 10*len(part))
		for _, a := range part {
			values = append(values, a.TaskID, a.Class, a.Number, a.Route, a.Category, a.Reason, a.Host, a.Owner, a.Duration, a.Epoch)
		}
		_, err := rows.exec(ctx, tx, len(part), values)
		if lasting(err) {
			return fmt.Errorf("%w: %w", errNoAttempts, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lasting reports whether the server refuses, for a reason that does not pass.
func lasting(err error) bool {
	var refusal *mysql.MySQLError
	return errors.As(err, &refusal) && passing[refusal.Number] == "" && !contended(err)
}

// recording runs a transaction with attempts, and again without when those
// cannot be written.
func (s *Store) recording(ctx context.Context, run func(record bool) error) error {
	err := run(s.gantry.usable(ctx, s.db) == nil)
	if errors.Is(err, errNoAttempts) {
		s.gantry.failed(err)
		err = run(false)
	}
	return err
}

// Attempts implements tasks.Service. Those older than two weeks are gone. It
// fails where Gantry does.
func (s *Store) Attempts(ctx context.Context, taskID int64, limit int) ([]tasks.Attempt, error) {
	if err := s.gantry.usable(ctx, s.db); err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, fmt.Sprintf(attemptsSQL, s.gantry.table("attempts")), taskID, max(0, limit))
	if lasting(err) {
		s.gantry.failed(err)
		return nil, s.Gantry()
	}
	if err != nil {
		return nil, fmt.Errorf("read the attempts of task %d: %w", taskID, s.server.explain(err))
	}
	defer rows.Close()
	var attempts []tasks.Attempt
	for rows.Next() {
		var a tasks.Attempt
		err := rows.Scan(&a.TaskID, &a.Class, &a.Number, &a.Route, &a.Category, &a.Reason, &a.Host, &a.Owner, &a.Duration, &a.Epoch)
		if err != nil {
			return nil, fmt.Errorf("read the attempts of task %d: %w", taskID, err)
		}
		attempts = append(attempts, a)
	}
	return attempts, s.server.explain(rows.Err())
}

// trim deletes old attempts when it is time, after so many new ones. A failure
// is no matter: the next call deletes them.
func (s *Store) trim(ctx context.Context, written int) {
	if n := s.gantry.attempts.due(written, s.gantry.now()); n > 0 {
		_, _ = s.db.ExecContext(ctx, fmt.Sprintf(trimSQL, s.gantry.table("attempts")), int(keptFor/time.Second), n)
	}
}

// due answers how many old rows may be deleted now, after so many new ones.
func (t *trimming) due(written int, now time.Time) int {
	if written == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written += written
	if t.written < trimAfter && now.Sub(t.last) < trimEvery {
		return 0
	}
	n := 2 * max(t.written, trimAfter)
	t.written, t.last = 0, now
	return n
}
