package phorge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	entryColumns = `id, priority, taskClass, leaseOwner, leaseExpires FROM worker_activetask`

	// The clock of the database, which is the only one that leases are compared
	// with, and the counter that task ids come from, in the shape of an entry.
	clockSQL = `SELECT -1, UNIX_TIMESTAMP(), COALESCE((SELECT counterValue FROM lisk_counter
WHERE counterName = 'worker_activetask'), 0), '', NULL, NULL`

	clockNow = `UNIX_TIMESTAMP()`

	// New tasks in the order in which they are leased, all priorities in one
	// range scan: it begins at the cursors of the known priorities and takes in
	// whatever lies between them. Rows to be skipped are not left to the server,
	// or LIMIT would not bound what it reads. Indexes are forced, here and below,
	// because the optimizer would rather sort a small table or the rows of a
	// selective class.
	newSQL = entryColumns + ` FORCE INDEX (key_owner)
WHERE leaseOwner IS NULL AND (%s) ORDER BY priority, id LIMIT %d`

	// Rows whose expiry lies before an epoch, from a spot on.
	expiredSQL = entryColumns + ` FORCE INDEX (leaseExpires)
WHERE leaseExpires < %s AND (leaseExpires = %d AND id >= %d OR leaseExpires > %[2]d)
ORDER BY leaseExpires, id LIMIT %[4]d`

	// All rows from an id on. The primary key holds the rows themselves, so an
	// entry costs a seventh of one in the other indexes.
	fromSQL = entryColumns + ` FORCE INDEX (PRIMARY) WHERE id >= %d ORDER BY id LIMIT %d`

	theseSQL = entryColumns + ` FORCE INDEX (PRIMARY) WHERE id IN (%ids)`
)

// question is a number of reads that travel in one statement, so that a look at
// an idle queue costs one round trip. UNION ALL needs no temporary table.
type question []read

type read struct {
	sql string
	use func(rows []entry)
}

func (q *question) ask(use func(rows []entry), sql string, args ...any) {
	*q = append(*q, read{fmt.Sprintf(sql, args...), use})
}

// newRanges writes where the next window of new tasks lies.
func newRanges(t *trip) string {
	var ranges []string
	above := int64(-1)
	for _, priority := range slices.Sorted(maps.Keys(t.lanes)) {
		if priority > above+1 {
			ranges = append(ranges, fmt.Sprintf("priority > %d AND priority < %d", above, priority))
		}
		if start, ok := t.starts[priority]; ok {
			ranges = append(ranges, fmt.Sprintf("priority = %d AND id >= %d", priority, start.id))
		}
		above = priority
	}
	return strings.Join(append(ranges, fmt.Sprintf("priority > %d", above)), " OR ")
}

// look asks a question. The reads use their rows in the order in which they
// were asked for.
func (s *Store) look(ctx context.Context, q question) (took time.Duration, err error) {
	var statement strings.Builder
	statement.WriteString(clockSQL)
	for n, r := range q {
		fmt.Fprintf(&statement, "\nUNION ALL (SELECT %d, %s)", n, r.sql)
	}
	began := time.Now()
	answers, err := s.readEntries(ctx, statement.String(), len(q))
	if err != nil {
		return 0, fmt.Errorf("look for due tasks: %w", s.server.explain(err))
	}
	for n, r := range q {
		r.use(answers[n])
	}
	return time.Since(began), nil
}

func (s *Store) readEntries(ctx context.Context, statement string, reads int) ([][]entry, error) {
	rows, err := s.db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	answers := make([][]entry, reads)
	for rows.Next() {
		var read int
		var e entry
		if err := rows.Scan(&read, &e.id, &e.priority, &e.class, &e.Owner, &e.Expires); err != nil {
			return nil, err
		}
		if read < 0 {
			s.leaser.now = e.id
			s.leaser.ids.add(time.Now(), max(e.priority, s.leaser.top))
			continue
		}
		answers[read] = append(answers[read], e)
		s.leaser.top = max(s.leaser.top, e.id)
	}
	return answers, rows.Err()
}
