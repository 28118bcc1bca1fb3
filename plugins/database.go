package plugins

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// DB is a database of Phorge as a handler uses it. A question mark in a query
// stands for an argument.
//
// A task has one thing open at a time: while it has not read the rows of a
// query to their end or closed them, and within Task.Transact, other calls are
// refused. So a task that waits for a connection holds none, and few
// connections are enough for any number of tasks.
//
// A call whose ctx ends is given up: its connection is closed, and the server
// may or may not have written. The context of a task ends when Gantry cancels
// it. The result of work that is done must be stored all the same: see Store.
//
// A statement names tables of this database only, and is one of SELECT, SHOW,
// WITH, INSERT, UPDATE, DELETE and REPLACE. It uses no variables, sequences,
// locks or files of the server. In a shadow run it also calls no stored
// function, and writes to no view, no table with a trigger and no table without
// transactions.
type DB interface {
	// Exec runs a statement that writes. RowsAffected of the result counts
	// what changed, as getAffectedRows of PHP does.
	Exec(ctx context.Context, query string, args ...any) (sql.Result, error)

	// Query runs one that reads. The rows must be closed, and Err looked at, as
	// always; those that are not are closed when the task ends.
	Query(ctx context.Context, query string, args ...any) (*sql.Rows, error)

	// QueryRow is for one row. The query runs when the row is scanned;
	// sql.ErrNoRows says that there is none.
	QueryRow(ctx context.Context, query string, args ...any) Row
}

// Row is the answer of QueryRow.
type Row interface {
	Scan(dest ...any) error
}

// DB answers the database of an application, which Handler.Databases names:
// "herald" for <namespace>_herald, on the master that cluster.databases gives
// it. What hinders its use, its calls say.
func (t *Task) DB(application string) DB {
	return &database{attempt: t.reach(), application: application}
}

// database is the DB of one task.
type database struct {
	attempt     *attempt
	application string
	internal    bool        // the SDK's own: no handler needs to name it
	tx          transaction // nil outside of Transact
}

func (d *database) Exec(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	err = d.run(ctx, query, writing, func(on querier, s statement) error {
		ctx, cancel := d.attempt.during(ctx)
		defer cancel()
		if result, err = on.ExecContext(ctx, query, args...); err != nil {
			return err
		}
		return d.attempt.shadow.wrote(d.application, query, args, result)
	})
	return result, err
}

func (d *database) Query(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	err = d.run(ctx, query, reading, func(on querier, _ statement) error {
		ctx, cancel := d.attempt.during(ctx)
		if rows, err = on.QueryContext(ctx, query, args...); err != nil {
			cancel()
			return err
		}
		d.attempt.opened(openRows{rows, cancel, on})
		return nil
	})
	return rows, err
}

func (d *database) QueryRow(ctx context.Context, query string, args ...any) Row {
	return row(func(dest ...any) error {
		rows, err := d.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			if err := rows.Err(); err != nil {
				return d.named(err)
			}
			return sql.ErrNoRows
		}
		if err := rows.Scan(dest...); err != nil {
			return d.named(err)
		}
		return d.named(rows.Close())
	})
}

type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

// run runs a statement where it belongs, if it may be run.
func (d *database) run(ctx context.Context, query string, verbs []string, do func(querier, statement) error) error {
	s, err := permit(query, verbs)
	if err != nil {
		return d.named(err)
	}
	defer d.attempt.shadow.alone()()
	if err := d.attempt.free(d.tx != nil); err != nil {
		return d.named(err)
	}
	on, err := d.where(ctx)
	if err == nil {
		err = d.attempt.site.within(ctx, d.application, on, s)
	}
	if err == nil {
		err = d.attempt.shadow.leavesNothing(ctx, d.application, s)
	}
	if err == nil {
		err = do(on, s)
	}
	return d.named(err)
}

// querier is what a statement runs on.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// where answers what the statements run on.
func (d *database) where(ctx context.Context) (querier, error) {
	if d.tx != nil {
		return d.tx, nil
	}
	if err := d.declared(); err != nil {
		return nil, err
	}
	if s := d.attempt.shadow; s != nil {
		return s.database(d.application)
	}
	return d.attempt.site.pool(d.application)
}

// declared answers an error when a handler uses a database that it did not
// name. It would be there by chance only, when another handler names it.
func (d *database) declared() error {
	if h := d.attempt.handler; !d.internal && !slices.Contains(h.Databases, d.application) {
		return fmt.Errorf("the handler of %s does not name it in its Databases", h.Class)
	}
	return nil
}

func (d *database) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("database of %s: %w", d.application, err)
}
