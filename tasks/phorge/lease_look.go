package phorge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	entryColumns = `UNIX_TIMESTAMP(), id, priority, taskClass, leaseOwner, leaseExpires FROM worker_activetask`

	// New tasks in the order in which they are leased, all priorities in one
	// range scan: it begins at the cursors of the known priorities and takes in
	// whatever lies between them. Rows to be passed over are not left to the
	// server, or LIMIT would not bound what it reads. Indexes are forced, here
	// and below, because the optimizer would rather sort a small table or the
	// rows of a selective class.
	newSQL = `SELECT ` + entryColumns + ` FORCE INDEX (key_owner)
WHERE leaseOwner IS NULL AND (%s) ORDER BY priority, id LIMIT %d`

	// Rows whose expiry lies before an epoch, from a spot on.
	expiredSQL = `SELECT ` + entryColumns + ` FORCE INDEX (leaseExpires)
WHERE leaseExpires < %s AND (leaseExpires = %d AND id >= %d OR leaseExpires > %[2]d)
ORDER BY leaseExpires, id LIMIT %[4]d`

	clockNow = `UNIX_TIMESTAMP()`

	// All rows from an id on. The primary key holds the rows themselves, so an
	// entry costs a seventh of one in the other indexes.
	fromSQL = `SELECT ` + entryColumns + ` FORCE INDEX (PRIMARY) WHERE id >= %d ORDER BY id LIMIT %d`

	theseSQL = `SELECT ` + entryColumns + ` FORCE INDEX (PRIMARY) WHERE id IN (%ids)`

	sampleSQL = `SELECT UNIX_TIMESTAMP(), COALESCE(MAX(counterValue), 0) FROM lisk_counter WHERE counterName = 'worker_activetask'`
)

// newRanges writes where the next window of new tasks lies.
func newRanges(t *trip) string {
	var ranges []string
	from := int64(0)
	for _, priority := range slices.Sorted(maps.Keys(t.lanes)) {
		if from < priority {
			ranges = append(ranges, fmt.Sprintf("priority >= %d AND priority < %d", from, priority))
		}
		if start, ok := t.starts[priority]; ok {
			ranges = append(ranges, fmt.Sprintf("priority = %d AND id >= %d", priority, start.id))
		}
		from = priority + 1
	}
	return strings.Join(append(ranges, fmt.Sprintf("priority >= %d", from)), " OR ")
}

// look reads entries, and with them the clock of the database: the only one
// that leases are compared with.
func (s *Store) look(ctx context.Context, statement string) (entries []entry, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("look for due tasks: %w", s.server.explain(err))
		}
	}()
	rows, err := s.db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	l := &s.leaser
	for rows.Next() {
		var e entry
		if err := rows.Scan(&l.now, &e.id, &e.priority, &e.class, &e.Owner, &e.Expires); err != nil {
			return nil, err
		}
		l.ids.see(e.id)
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
