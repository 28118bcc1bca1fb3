package harness

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/rows"
)

// Snapshot is every row of every database of a Phorge, at one moment at which
// nobody writes.
type Snapshot struct {
	epoch  int64 // of the database's clock
	tables map[string]*rows.Table
}

// onRows does something with the content of every database.
func (p *Phorge) onRows(do func(db *sql.DB, names rows.Namespace) error) error {
	server, err := mysql.ParseDSN(p.Server().DSN(""))
	if err != nil {
		return err
	}
	db, err := rows.Open(server)
	if err != nil {
		return err
	}
	return errors.Join(do(db, rows.Namespace(p.Namespace())), db.Close())
}

// Snapshot reads every row.
func (p *Phorge) Snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{}
	err := p.onRows(func(db *sql.DB, names rows.Namespace) (err error) {
		if err := db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&s.epoch); err != nil {
			return err
		}
		s.tables, err = names.ReadAll(ctx, db)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read every row of the scratch Phorge: %w", err)
	}
	return s, nil
}

// Restore brings every table back to what it was, and the next id of it, and
// forgets the executions and the mails.
// Nothing may be working on the Phorge.
func (p *Phorge) Restore(ctx context.Context, s *Snapshot) error {
	err := p.onRows(func(db *sql.DB, names rows.Namespace) error {
		now, err := names.ReadAll(ctx, db)
		if err != nil {
			return err
		}
		for name, was := range s.tables {
			if is := now[name]; is != nil && is.Next == was.Next && is.Same(was) {
				continue
			}
			if err := putBack(ctx, db, names.Quoted(name), was); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err := errors.Join(err, p.forget()); err != nil {
		return fmt.Errorf("restore the scratch Phorge: %w", err)
	}
	return nil
}

func putBack(ctx context.Context, db *sql.DB, quoted string, was *rows.Table) error {
	if _, err := db.ExecContext(ctx, "TRUNCATE "+quoted); err != nil {
		return err
	}
	if err := was.Put(ctx, db, quoted, was.Rows); err != nil || !was.Next.Valid {
		return err
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", quoted, was.Next.Int64))
	return err
}
