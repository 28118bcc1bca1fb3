package plugins

import (
	"context"
	"errors"
)

// transaction is a session, or a savepoint in that of a shadow run.
type transaction interface {
	querier
	Commit() error
	Rollback() error
}

// Transact runs do in a transaction: it is committed when do answers nil, and
// otherwise rolled back. Only tx may be used within it.
//
// A server can end a transaction before that: it does after a deadlock, and
// when the connection dies. Statements after it are refused, nothing is
// committed, and Transact answers the error, whatever do answers. The
// transaction as a whole may then be tried again.
func (t *Task) Transact(ctx context.Context, application string, do func(tx DB) error) error {
	d := &database{attempt: t.reach(), application: application}
	if err := d.attempt.enter(); err != nil {
		return d.named(err)
	}
	defer d.attempt.leave()
	ctx, cancel := d.attempt.during(ctx)
	defer cancel()
	tx, err := d.begin(ctx)
	if err != nil {
		return d.named(err)
	}
	d.tx = tx
	done := false
	defer func() {
		if !done { // do panicked, or ended its goroutine
			tx.Rollback()
		}
	}()
	err = do(d)
	done = true
	d.attempt.closeRows()
	if err == nil {
		return d.named(tx.Commit())
	}
	if ended := tx.Rollback(); ended != nil {
		err = errors.Join(err, d.named(ended))
	}
	return err
}

func (d *database) begin(ctx context.Context) (transaction, error) {
	if err := d.declared(); err != nil {
		return nil, err
	}
	if s := d.attempt.shadow; s != nil {
		return s.savepoint(ctx, d.application)
	}
	pool, err := d.attempt.site.pool(d.application)
	if err != nil {
		return nil, err
	}
	s, err := openSession(ctx, pool, "")
	if err != nil {
		return nil, err
	}
	s.whole, s.ctx = true, ctx
	s.stop = context.AfterFunc(ctx, s.discard)
	return s, nil
}
