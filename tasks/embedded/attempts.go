package embedded

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	attemptColumns = `taskID, taskClass, attempt, route, category, reason, host, leaseOwner, durationUs, epoch`

	attemptSQL = `INSERT INTO attempt (` + attemptColumns + `) VALUES (?,?,?,?,?,?,?,?,?,?)`

	trimAttemptsSQL = `DELETE FROM attempt WHERE taskID = ?1 AND id <=
(SELECT id FROM attempt INDEXED BY attemptTask WHERE taskID = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`

	attemptsSQL = `SELECT ` + attemptColumns + ` FROM attempt INDEXED BY attemptTask WHERE taskID = ? ORDER BY id DESC LIMIT ?`

	forgetAttemptsSQL = `DELETE FROM attempt WHERE taskID IN (SELECT value FROM json_each(?))`
)

// record keeps a failed attempt, and the latest ones of its task before it.
func (tx *txn) record(a tasks.Attempt) error {
	err := tx.exec(attemptSQL, a.TaskID, a.Class, a.Number, a.Route, a.Category, a.Reason, a.Host, a.Owner, a.Duration, a.Epoch)
	if err != nil {
		return err
	}
	return tx.exec(trimAttemptsSQL, a.TaskID, tasks.AttemptsKept)
}

// Attempts implements tasks.Service. They are kept as long as their task.
func (s *Store) Attempts(ctx context.Context, taskID int64, limit int) ([]tasks.Attempt, error) {
	var attempts []tasks.Attempt
	err := s.read(ctx, func(c *conn, _ int64) error {
		attempts = nil
		return c.rows(attemptsSQL, []any{taskID, max(0, limit)}, func(scan func(...any) error) error {
			var a tasks.Attempt
			err := scan(&a.TaskID, &a.Class, &a.Number, &a.Route, &a.Category, &a.Reason, &a.Host, &a.Owner, &a.Duration, &a.Epoch)
			attempts = append(attempts, a)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the attempts of task %d: %w", taskID, err)
	}
	return attempts, nil
}
