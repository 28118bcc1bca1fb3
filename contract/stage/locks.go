package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/phorge-gantry/gantry/plugins"
)

// hold takes locks as somebody else would have them, on a connection of their
// own, and answers what releases them.
func (s *Stage) hold(ctx context.Context, names []string) (release func() error, err error) {
	if len(names) == 0 {
		return func() error { return nil }, nil
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var held []string
	release = func() error {
		var problems []error
		for _, name := range held {
			_, err := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", name)
			problems = append(problems, err)
		}
		return errors.Join(append(problems, conn.Close())...)
	}
	for _, name := range names {
		full := plugins.LockName(s.config.Namespace, name)
		var got sql.NullInt64
		err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", full).Scan(&got)
		if err == nil && got.Int64 != 1 {
			err = errors.New("somebody holds it, and nobody should on a server of tests")
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take the lock %s (%s): %w", name, full, err), release())
		}
		held = append(held, full)
	}
	return release, nil
}
