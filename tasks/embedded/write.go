package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// writer lets the calls of one Store write. While one transaction waits for
// the disk, the calls that come meanwhile gather, and one of them then runs
// them all in the next transaction.
type writer struct {
	turn chan struct{} // held by whoever runs a transaction
	conn *conn

	mu      sync.Mutex
	waiting []*job
}

// job is what one call writes. It may be run more than once, and starts afresh
// each time.
type job struct {
	ctx  context.Context
	run  func(*txn) error
	done chan error
}

const (
	// batchJobs bounds the calls that share a transaction, and longEnough the
	// time for which it keeps other processes waiting before its commit.
	batchJobs  = 256
	longEnough = 50 * time.Millisecond
)

// write runs a job in a transaction and answers when that is committed.
func (s *Store) write(ctx context.Context, run func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{ctx: ctx, run: run, done: make(chan error, 1)}
	w := &s.writer
	w.mu.Lock()
	w.waiting = append(w.waiting, j)
	w.mu.Unlock()
	for ended := ctx.Done(); ; {
		select {
		case err := <-j.done:
			return err
		case w.turn <- struct{}{}:
			s.runWaiting()
		case <-ended:
			if w.withdraw(j) {
				return ctx.Err()
			}
			ended = nil // it is being written, and the answer must be the truth
		}
	}
}

// withdraw takes a job back that nobody runs yet.
func (w *writer) withdraw(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, j)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// runWaiting runs the jobs that wait, and gives the turn back.
func (s *Store) runWaiting() {
	w := &s.writer
	defer func() { <-w.turn }()
	w.mu.Lock()
	n := min(len(w.waiting), batchJobs)
	jobs := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	w.mu.Unlock()
	if n == 0 {
		return
	}
	ran, err := s.transact(jobs)
	if err != nil && n > 1 && !busy(err) {
		// One of them cannot be written; the others shall not fail with it.
		for _, j := range jobs {
			_, err := s.transact([]*job{j})
			j.done <- s.explain(err)
		}
		return
	}
	w.mu.Lock()
	w.waiting = slices.Insert(w.waiting, 0, jobs[ran:]...)
	w.mu.Unlock()
	for _, j := range jobs[:ran] {
		j.done <- s.explain(err)
	}
}

// txn is a transaction that writes: the only one on the file.
type txn struct {
	*conn
	store *Store
	now   int64
	state
	before state
	wrote  bool
	moved  int // rows moved to the archive
}

func (tx *txn) exec(query string, args ...any) error {
	tx.wrote = true
	return tx.conn.exec(query, args...)
}

func (tx *txn) changed(query string, args ...any) (int64, error) {
	tx.wrote = true
	return tx.conn.changed(query, args...)
}

// state is the row of the table queue.
type state struct{ clock, lastID, fence, archived int64 }

const (
	stateSQL = `SELECT clock, lastID, fence, archived, (SELECT user_version FROM pragma_user_version) FROM queue`

	saveStateSQL = `UPDATE queue SET clock = ?, lastID = ?, fence = ?, archived = ?`
)

// transact runs jobs in one transaction: all of them or none, but not those
// for which there is no time any more. It answers how many it took on.
func (s *Store) transact(jobs []*job) (ran int, err error) {
	w := s.writer.conn
	ctx := context.Background()
	if len(jobs) == 1 {
		ctx = jobs[0].ctx
	}
	if err := s.patiently(ctx, func() error { return w.exec("BEGIN IMMEDIATE") }); err != nil {
		return len(jobs), err
	}
	begun := time.Now()
	defer func() {
		if err != nil {
			w.rollback()
		}
	}()
	tx := &txn{conn: w, store: s}
	var version int
	if err := w.row(stateSQL, nil, &tx.clock, &tx.lastID, &tx.fence, &tx.archived, &version); err != nil {
		return len(jobs), err
	}
	if err := errors.Join(s.checkVersion(version), s.checkFile()); err != nil {
		return len(jobs), err
	}
	tx.before = tx.state
	tx.now = s.time(tx.clock)
	for ran < len(jobs) && (ran == 0 || time.Since(begun) < longEnough) {
		j := jobs[ran]
		ran++
		if err := j.run(tx); err != nil {
			return len(jobs), err
		}
	}
	if err := tx.trim(); err != nil {
		return len(jobs), err
	}
	if err := tx.saveState(); err != nil {
		return len(jobs), err
	}
	if err := w.exec("COMMIT"); err != nil {
		return len(jobs), err
	}
	return ran, nil
}

// saveState leaves behind what the transaction counted, and when it was.
func (tx *txn) saveState() error {
	if tx.wrote {
		tx.clock = tx.now
	}
	if tx.state == tx.before {
		return nil
	}
	return tx.exec(saveStateSQL, tx.clock, tx.lastID, tx.fence, tx.archived)
}

// time answers what time it is: by the clock of the host, but not before what
// the file has seen, nor before what this handle answered.
func (s *Store) time(stored int64) int64 {
	for {
		before := s.seen.Load()
		now := max(s.config.Clock().Unix(), stored, before)
		if now == before || s.seen.CompareAndSwap(before, now) {
			return now
		}
	}
}

// patiently repeats what other processes are in the way of, after pauses of
// random length so that the two do not meet again. It ends with SQLite's own
// error when patience is at its end.
func (s *Store) patiently(ctx context.Context, try func() error) error {
	const shortest, longest = 100 * time.Microsecond, 5 * time.Millisecond
	end := time.Now().Add(s.config.Patience)
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := try()
		if !busy(err) {
			return err
		}
		s.config.Repeated("busy")
		if time.Now().After(end) {
			return fmt.Errorf("%w: queue %s: waited %s in vain for other processes; make their transactions shorter, or look for one that hangs (lsof): %w",
				tasks.ErrUnavailable, s.path, s.config.Patience, err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// read runs a query that changes nothing, on one snapshot of the file.
func (s *Store) read(ctx context.Context, run func(c *conn, now int64) error) error {
	var c *conn
	select {
	case c = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- c }()
	if err := errors.Join(ctx.Err(), s.checkFile()); err != nil {
		return err
	}
	return s.explain(s.patiently(ctx, func() error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		defer c.rollback()
		var clock int64
		if err := c.row("SELECT clock FROM queue", nil, &clock); err != nil {
			return err
		}
		return run(c, s.time(clock))
	}))
}
