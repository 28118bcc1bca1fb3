package phorge

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

// LeaseFor implements tasks.Service.
func (s *Store) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := (tasks.Caller{Name: name}).Check(); err != nil {
		return nil, err
	}
	return s.leaseFor(ctx, name, req)
}

// SettleLive implements tasks.Service.
func (s *Store) SettleLive(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settleAll(ctx, settlements, true)
}

// archiveBound is how many archived rows are counted.
const archiveBound = 10000

// The newest ids by the primary key: the archive has no index by result, and a
// site can keep millions of rows in it.
const countArchivedSQL = `SELECT COALESCE(SUM(result = 0), 0), COALESCE(SUM(result = 1), 0), COALESCE(SUM(result = 2), 0), COUNT(*)
FROM (SELECT result FROM worker_archivetask FORCE INDEX (PRIMARY) ORDER BY id DESC LIMIT ?) AS bounded`

// CountArchived implements tasks.Service.
func (s *Store) CountArchived(ctx context.Context) (counted tasks.ArchivedCount, err error) {
	rows := 0
	err = s.db.QueryRowContext(ctx, countArchivedSQL, archiveBound).Scan(&counted.Succeeded, &counted.Failed, &counted.Cancelled, &rows)
	if err != nil {
		return counted, fmt.Errorf("count archived tasks: %w", s.server.explain(err))
	}
	counted.More = rows == archiveBound
	return counted, nil
}

// readySQL is one statement of each kind that leasing and settling use, on the
// tables they use it on. Each fails where the real one would, because the server
// is read-only, a table is locked or broken, or a right is missing, and each
// changes nothing.
var readySQL = []string{
	writableSQL,
	`UPDATE worker_activetask SET leaseOwner = leaseOwner WHERE FALSE`,
	`INSERT INTO worker_archivetask (` + archiveColumns + `) SELECT ` + archiveColumns + ` FROM worker_archivetask WHERE FALSE`,
	`DELETE FROM worker_archivetask WHERE FALSE`, // REPLACE asks for it
	`DELETE FROM worker_activetask WHERE FALSE`,
	`INSERT INTO worker_taskdata (data) SELECT data FROM worker_taskdata WHERE FALSE`,
}

// Ready implements tasks.Service. A full disk is not found out.
func (s *Store) Ready(ctx context.Context) error {
	for _, statement := range readySQL {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("find out whether tasks can be leased and settled: %w", s.server.explain(err))
		}
	}
	return nil
}
