package phorge

import (
	"context"
	"crypto/rand"
	"errors"
)

// Same reports whether another Store works on the same tables, whatever the two
// DSNs look like.
func (s *Store) Same(ctx context.Context, other *Store) (same bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, s.server.explain(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// Nothing else tells two servers apart for a user without rights: they can
	// have the same name, port and folder. A lock is known to its server alone.
	lock := "gantry." + rand.Text()
	var held bool
	var database, others string
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0), DATABASE()", lock).Scan(&held, &database); err != nil {
		return false, s.server.explain(err)
	}
	if err := other.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) IS NOT NULL, DATABASE()", lock).Scan(&held, &others); err != nil {
		return false, other.server.explain(err)
	}
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", lock); err != nil {
		return false, s.server.explain(err)
	}
	return held && database == others, nil
}
