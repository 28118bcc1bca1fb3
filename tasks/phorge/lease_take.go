package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// What a plain read found is only a candidate, hence the condition. The
	// grace of a Gantry's lease is checked on the locked row. worker_taskdata is
	// not joined: where somebody else had locked the data row, the task would
	// come without its data.
	lockDueSQL = `SELECT UNIX_TIMESTAMP(), ` + activeColumns + `
FROM worker_activetask FORCE INDEX (PRIMARY) WHERE id IN (%ids) AND ` + dueSQL + ` ORDER BY id FOR UPDATE`

	// The condition stands here again for servers that lose the locks of a
	// transaction when one of its statements gives up waiting
	// (innodb_rollback_on_timeout). dateModified stays, as in
	// PhabricatorWorkerLeaseQuery.
	takeSQL = `UPDATE worker_activetask FORCE INDEX (PRIMARY) SET leaseOwner = ?, leaseExpires = ?
WHERE id IN (%ids) AND ` + dueSQL

	dueSQL = `(leaseExpires < UNIX_TIMESTAMP() OR leaseOwner IS NULL AND leaseExpires IS NULL)`

	dataSQL = `SELECT id, data FROM worker_taskdata FORCE INDEX (PRIMARY) WHERE id IN (%ids)`
)

// take leases the best candidates. They are undelivered then, and no
// candidates any more; neither are those that could not be had.
func (s *Store) take(ctx context.Context, sr *search) error {
	chosen := choose(sr.req, sr.candidates)
	if len(chosen) == 0 {
		return nil
	}
	fence, err := s.takeFence(ctx)
	if err != nil {
		return err
	}
	ids, rank := make([]int64, len(chosen)), make(map[int64]int, len(chosen))
	for i, e := range chosen {
		ids[i], rank[e.id] = e.id, i
	}
	slices.Sort(ids) // everyone locks by ascending id
	var leased []*row
	run := func(record bool) error {
		return s.transact(ctx, func(tx *sql.Tx) (err error) {
			leased, err = s.takeIn(ctx, tx, ids, fence, sr, record)
			return err
		})
	}
	if slices.ContainsFunc(chosen, func(e entry) bool { _, dead := tasks.DeadHolder(e.Owner, s.nonce); return dead }) {
		err = s.recording(ctx, run)
	} else {
		err = run(false)
	}
	if err != nil && !errors.Is(err, errCommitUnknown) {
		return fmt.Errorf("lease %d tasks: %w", len(ids), err)
	}
	slices.SortFunc(leased, func(a, b *row) int { return rank[a.ID] - rank[b.ID] })
	sr.leaveUndelivered(sr.name, leased)
	for _, id := range ids {
		delete(sr.missed, id)
		delete(sr.candidates, id)
		sr.leaveAlone(id)
	}
	for _, r := range leased {
		delete(sr.locked, r.ID)
	}
	sr.refused = len(leased) < len(ids)
	if err != nil {
		return fmt.Errorf("lease %d tasks: %w", len(ids), err)
	}
	return nil
}

// takeIn leases, in a transaction, those of the tasks that are due and that
// nobody has locked. Rows of one owner and expiry share an UPDATE. What a dead
// Gantry held is recorded as an attempt that was lost, when it is to be.
func (s *Store) takeIn(ctx context.Context, tx *sql.Tx, ids []int64, fence int64, sr *search, record bool) ([]*row, error) {
	rows, now, err := s.lockDue(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return !due(r.Place, now) })
	type stamp struct {
		owner   string
		expires int64
	}
	stamped := map[stamp][]int64{}
	var lost []tasks.Attempt
	for _, r := range rows {
		if holder, dead := tasks.DeadHolder(r.Owner, s.nonce); dead && record {
			lost = append(lost, tasks.LostAttempt(r.Task, holder, now))
		}
		crashes := tasks.CrashesOnceTaken(r.Owner, s.nonce)
		st := stamp{s.ownerFor(sr.name, fence, crashes), now + max(1, tasks.WholeSeconds(sr.req.Want(r.Class).LeaseTime))}
		r.Lease = &tasks.Lease{Owner: st.owner, Fence: fence, Crashes: crashes, Expires: st.expires, Prior: r.Place}
		r.Place = tasks.Place{Owner: &st.owner, Expires: &st.expires}
		stamped[st] = append(stamped[st], r.ID)
	}
	for st, ids := range stamped {
		result, err := tx.ExecContext(ctx, withIDs(takeSQL, ids), st.owner, st.expires)
		if err != nil {
			return nil, err
		}
		if n, err := result.RowsAffected(); err != nil || n != int64(len(ids)) {
			return nil, fmt.Errorf("%w: %d of %d locked rows could be leased: %v", tasks.ErrUnavailable, n, len(ids), err)
		}
	}
	return rows, s.insertAttempts(ctx, tx, lost)
}

// lockDue locks the due rows among ids that nobody has locked. Where there is
// no SKIP LOCKED, halves are tried until the locked rows are alone: waiting for
// one of them would keep all the others from being leased.
func (s *Store) lockDue(ctx context.Context, tx *sql.Tx, ids []int64) (rows []*row, now int64, err error) {
	if s.server.skipLocked {
		return lockRows(ctx, tx, withIDs(lockDueSQL, ids)+" SKIP LOCKED")
	}
	rows, now, err = lockRows(ctx, tx, withIDs(lockDueSQL, ids)+" NOWAIT")
	if !lockedByOthers(err) {
		return rows, now, err
	}
	if len(ids) == 1 {
		return nil, 0, nil
	}
	half := len(ids) / 2
	rows, now, err = s.lockDue(ctx, tx, ids[:half])
	if err != nil {
		return nil, 0, err
	}
	others, later, err := s.lockDue(ctx, tx, ids[half:])
	return append(rows, others...), max(now, later), err
}

func lockRows(ctx context.Context, tx *sql.Tx, statement string) (rows []*row, now int64, err error) {
	found, err := tx.QueryContext(ctx, statement)
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	for found.Next() {
		r := &row{}
		if err := found.Scan(append([]any{&now}, r.fields()...)...); err != nil {
			return nil, 0, err
		}
		rows = append(rows, r)
	}
	return rows, now, found.Err()
}

// lockedByOthers reports whether NOWAIT met a lock: MariaDB answers 1205 then,
// MySQL 3572.
func lockedByOthers(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1205 || e.Number == 3572)
}

// leaveUndelivered remembers what was leased for a caller until it is answered.
// What nobody asked for until its leases ended is forgotten.
func (l *leaser) leaveUndelivered(name string, rows []*row) {
	delete(l.undelivered, name)
	maps.DeleteFunc(l.undelivered, func(_ string, rows []*row) bool {
		return !slices.ContainsFunc(rows, func(r *row) bool { return r.Lease.Expires >= l.now })
	})
	if len(rows) == 0 {
		return
	}
	if l.undelivered == nil {
		l.undelivered = map[string][]*row{}
	}
	l.undelivered[name] = rows
}

// deliver reads the data of what was leased and answers it.
func (s *Store) deliver(ctx context.Context, name string) ([]tasks.Task, error) {
	leased := s.leaser.undelivered[name]
	ids := make([]int64, len(leased))
	for i, r := range leased {
		ids[i] = r.dataID
	}
	data, err := s.readData(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the data of %d leased tasks: %w", len(ids), s.server.explain(err))
	}
	delete(s.leaser.undelivered, name)
	answer := make([]tasks.Task, len(leased))
	for i, r := range leased {
		answer[i] = r.Task
		answer[i].Data = data[r.dataID]
	}
	s.fillTraces(ctx, answer)
	return answer, nil
}

func (s *Store) readData(ctx context.Context, ids []int64) (map[int64][]byte, error) {
	rows, err := s.db.QueryContext(ctx, withIDs(dataSQL, ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	data := make(map[int64][]byte, len(ids))
	for rows.Next() {
		var id int64
		var text []byte
		if err := rows.Scan(&id, &text); err != nil {
			return nil, err
		}
		data[id] = text
	}
	return data, rows.Err()
}

// deliverLate answers what an earlier call leased without being able to answer
// it, as far as the rows say that it did and the leases still run.
func (s *Store) deliverLate(ctx context.Context, name string) ([]tasks.Task, error) {
	l := &s.leaser
	late := l.undelivered[name]
	ids := make([]int64, len(late))
	for i, r := range late {
		ids[i] = r.ID
	}
	found, err := s.db.QueryContext(ctx, withIDs(heldSQL, ids))
	if err != nil {
		return nil, fmt.Errorf("look for %d tasks that may be leased: %w", len(ids), s.server.explain(err))
	}
	held, err := scanLeases(found)
	if err != nil {
		return nil, fmt.Errorf("look for %d tasks that may be leased: %w", len(ids), s.server.explain(err))
	}
	l.leaveUndelivered(name, slices.DeleteFunc(late, func(r *row) bool {
		p := held.places[r.ID]
		live := p.Owner != nil && *p.Owner == r.Lease.Owner && p.Expires != nil && *p.Expires > held.now
		if !live {
			l.leaveAlone(r.ID)
		}
		return !live
	}))
	if len(l.undelivered[name]) == 0 {
		return nil, nil
	}
	return s.deliver(ctx, name)
}
