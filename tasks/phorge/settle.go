package phorge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

// batchRows bounds the rows of one transaction.
const batchRows = 500

// Settle implements tasks.Store. Up to batchRows settlements share a
// transaction: SELECT ... FOR UPDATE by ascending id, DELETE and REPLACE for
// those that go to the archive, one statement for those that stay, two for the
// follow-ups. Affected rows are never what decides; the rows themselves are.
func (s *Store) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	return s.settleAll(ctx, settlements, false)
}

// settleAll settles; live asks of each lease that it has not expired.
func (s *Store) settleAll(ctx context.Context, settlements []tasks.Settlement, live bool) ([]tasks.Settled, error) {
	answers := make([]tasks.Settled, 0, len(settlements))
	for part := range slices.Chunk(settlements, batchRows) {
		settled, err := s.settle(ctx, part, live)
		if err != nil {
			return nil, fmt.Errorf("settle %d tasks: %w", len(part), err)
		}
		answers = append(answers, settled...)
	}
	s.leaser.lookAgain(settlements)
	return answers, nil
}

// settle takes the ids of the follow-ups before the transaction, so that no
// counter row is locked inside it.
func (s *Store) settle(ctx context.Context, settlements []tasks.Settlement, live bool) ([]tasks.Settled, error) {
	b := &batch{store: s, live: live, settlements: settlements, problems: make([]error, len(settlements)), doubt: make([]bool, len(settlements))}
	followUps := 0
	for i, settlement := range settlements {
		b.problems[i] = settlement.Outcome.Check(s.validate)
		followUps += b.followUps(i)
	}
	err := s.withIDs(ctx, followUps, func(ids []int64) error {
		b.ids = ids
		return s.untilKnown(ctx, func(bool) error {
			err := b.commit(ctx)
			if errors.Is(err, errCommitUnknown) {
				b.doubtWritten()
			}
			return err
		})
	})
	if refused(err) || errors.Is(err, tasks.ErrTooLarge) {
		return s.settleEach(ctx, settlements, live, err)
	}
	if err == nil {
		s.trim(ctx, len(b.attempts))
	}
	return b.answers, err
}

// refused reports whether the server refuses a value. 1366 is text that the
// character set of a column cannot hold, as in installs from before utf8mb4.
func refused(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains([]uint16{1264, 1366, 1406}, e.Number)
}

// settleEach settles each task alone after the server refused a value of the
// batch, so that the task it belongs to does not hold up the others.
func (s *Store) settleEach(ctx context.Context, settlements []tasks.Settlement, live bool, refusal error) ([]tasks.Settled, error) {
	if len(settlements) == 1 {
		id := settlements[0].ID
		return []tasks.Settled{{ID: id, Err: fmt.Errorf("outcome of task %d: %w: %w", id, tasks.ErrInvalid, refusal)}}, nil
	}
	var answers []tasks.Settled
	for i := range settlements {
		settled, err := s.settle(ctx, settlements[i:i+1], live)
		if err != nil {
			return nil, err
		}
		answers = append(answers, settled...)
	}
	return answers, nil
}

// batch is what one transaction settles.
type batch struct {
	store       *Store
	live        bool // expired leases are lost
	settlements []tasks.Settlement
	problems    []error // why an outcome cannot be stored
	doubt       []bool  // written by a transaction whose COMMIT was not answered
	ids         []int64 // for all the follow-ups

	// What this attempt of the transaction comes to.
	answers []tasks.Settled
	written []bool
	outcomes
	attempts []tasks.Attempt
}

// commit runs the transaction.
func (b *batch) commit(ctx context.Context) error {
	run := func(record bool) error {
		return b.store.transact(ctx, func(tx *sql.Tx) error { return b.write(ctx, tx, record) })
	}
	if !slices.ContainsFunc(b.settlements, fails) {
		return run(false)
	}
	return b.store.recording(ctx, run)
}

func fails(s tasks.Settlement) bool { return s.Outcome.Kind.Fails() }

// followUps answers how many follow-ups a settlement queues when it is stored.
func (b *batch) followUps(i int) int {
	if b.problems[i] != nil || b.settlements[i].Outcome.Kind != tasks.Succeeded {
		return 0
	}
	return len(b.settlements[i].Outcome.FollowUps)
}

func (b *batch) doubtWritten() {
	for i, written := range b.written {
		b.doubt[i] = b.doubt[i] || written
	}
}

// write is the transaction.
func (b *batch) write(ctx context.Context, tx *sql.Tx, record bool) error {
	ids := make([]int64, len(b.settlements))
	for i, s := range b.settlements {
		ids[i] = s.ID
	}
	rows, now, err := lock(ctx, tx, ids)
	if err != nil {
		return err
	}
	past, err := readTraces(ctx, tx, slices.DeleteFunc(ids, func(id int64) bool { return rows[id] != nil }))
	if err != nil {
		return err
	}
	b.decide(rows, past, now)
	if err := archive(ctx, tx, b.archived); err != nil {
		return err
	}
	if err := save(ctx, tx, b.saved); err != nil {
		return err
	}
	if err := b.store.forgetTraces(ctx, tx, b.archived); err != nil {
		return err
	}
	if err := b.store.insertTasks(ctx, tx, b.queued); err != nil || !record {
		b.attempts = nil
		return err
	}
	return b.store.insertAttempts(ctx, tx, b.attempts)
}

// decide answers each settlement and collects what is to be written. A second
// settlement of a task sees what the first one left.
func (b *batch) decide(rows map[int64]*row, past map[int64]trace, now int64) {
	b.answers = make([]tasks.Settled, len(b.settlements))
	b.written = make([]bool, len(b.settlements))
	b.outcomes = outcomes{now: now}
	b.attempts = nil
	ids := b.ids
	for i, s := range b.settlements {
		answer := &b.answers[i]
		answer.ID = s.ID
		n := b.followUps(i)
		mine := ids[:n]
		ids = ids[n:]
		r := rows[s.ID]
		switch {
		case r != nil && r.Owner != nil && *r.Owner == s.Lease.Owner && !(b.live && r.Ended(now)):
			if answer.Err = b.problems[i]; answer.Err != nil {
				answer.Err = fmt.Errorf("outcome of task %d: %w", s.ID, answer.Err)
				continue
			}
			b.written[i] = true
			answer.FollowUps = mine
			if fails(s) {
				b.attempts = append(b.attempts, tasks.FailedAttempt(r.Task, s, b.store.host, now))
			}
			if result, ok := b.settle(r, s, mine); ok {
				delete(rows, s.ID)
				past[s.ID] = trace{&s.Lease.Owner, result}
			}
		case r != nil && leftBy(s, r.Place, b.doubt[i]), r == nil && s.Archived(past[s.ID].owner, past[s.ID].result):
			if b.doubt[i] {
				answer.FollowUps = mine
			}
		default:
			answer.Err = fmt.Errorf("task %d is no longer held by %s: %w", s.ID, s.Lease.Owner, tasks.ErrLeaseLost)
		}
	}
}
