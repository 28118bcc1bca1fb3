package stage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// leaseTime is PhabricatorWorkerLeaseQuery::getDefaultLeaseDuration. The
	// archive keeps the end of the lease, so both sides get the same.
	leaseTime = 2 * time.Hour

	// setTime is what it may take to set a scene, and to look at it afterwards. A
	// process is started in it.
	setTime = 5 * time.Minute

	// longAgo is dateModified of a task that waits. Were it now, a run within one
	// second would leave it as it is, and a longer one would not.
	longAgo = 1

	// cleanTime is what putting everything back may take.
	cleanTime = time.Minute
)

// scene is a case as it is run.
type scene struct {
	stage    *Stage
	frame    contract.Frame
	c        contract.Case // with its placeholders expanded
	audience *audience
	opened   tally                  // when everything had been put back
	tally    tally                  // when before was read
	before   map[string]*rows.Table // what was written since the stage was opened
}

// was answers what a table held before the run.
func (sc *scene) was(name string) *rows.Table {
	if t := sc.before[name]; t != nil {
		return t
	}
	return sc.stage.tables[name]
}

// Run runs a case on a side and answers its observation, normalised. An error
// means that the case could not be run; what a task comes to is never one.
func (s *Stage) Run(ctx context.Context, c contract.Case, side Side) (contract.Observation, error) {
	var observed contract.Observation
	err := s.with(ctx, c, side, func(ctx context.Context, sc *scene) (err error) {
		observed, err = sc.run(ctx, side)
		return err
	})
	return observed, err
}

func (sc *scene) run(ctx context.Context, side Side) (contract.Observation, error) {
	var observed contract.Observation
	task, err := sc.lease(ctx)
	if err != nil {
		return observed, err
	}
	if sc.frame.Leased, err = sc.stage.now(ctx); err != nil {
		return observed, err
	}
	var outcome tasks.Outcome
	if err := sc.stage.bounded(ctx, side, task.Class, func(ctx context.Context) {
		outcome = side.Execute(ctx, task, func(lease time.Duration) { sc.require(ctx, task, lease) })
	}); err != nil {
		return observed, err
	}
	if observed.Requests, err = sc.stage.receivers.finish(sc.audience); err != nil {
		return observed, err
	}
	if sc.frame.Settling, err = sc.stage.now(ctx); err != nil {
		return observed, err
	}
	if err := sc.settle(ctx, task, &outcome); err != nil {
		return observed, err
	}
	observed.Outcome = outcomeOf(outcome)
	if observed.Changes, err = sc.changes(ctx); err != nil {
		return observed, err
	}
	sc.frame.End, err = sc.stage.now(ctx)
	return contract.Normalise(observed, sc.frame), err
}

// with sets the scene of a case, has something done in it, and puts everything
// back as it was.
func (s *Stage) with(ctx context.Context, c contract.Case, side Side, do func(context.Context, *scene) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("case %s: %w", c.Name, err)
		}
	}()
	if s.store == nil {
		return fmt.Errorf("the namespace %s has no queue; Prepare makes one of a recorded schema", s.config.Namespace)
	}
	ctx, cancel := context.WithTimeout(ctx, setTime+s.longest(side, c.TaskClass))
	defer cancel()
	sc := &scene{stage: s, opened: s.settled}
	if err := sc.expand(ctx, c); err != nil {
		return err
	}
	if err := side.Configure(ctx, sc.c.World.Options); err != nil {
		return err
	}
	release, err := s.hold(ctx, sc.c.World.Locks)
	if err != nil {
		return err
	}
	sc.audience = s.receivers.begin(sc.c.World)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		sc.audience.finish()
		err = errors.Join(err, release(), sc.restore(ctx))
	}()
	if err := sc.insert(ctx); err != nil {
		return err
	}
	if err := sc.look(ctx); err != nil {
		return err
	}
	return do(ctx, sc)
}

// expand finds out what the placeholders of a case stand for.
func (sc *scene) expand(ctx context.Context, c contract.Case) (err error) {
	s := sc.stage
	sc.frame = contract.Frame{
		Case: c, Lease: int64(leaseTime / time.Second),
		Known: func(phid string) bool { return s.phids[phid] },
	}
	if sc.frame.Receivers, err = s.receivers.open(c.World); err != nil {
		return err
	}
	sc.frame.Closed = s.receivers.closed
	if sc.frame.Start, err = s.now(ctx); err != nil {
		return err
	}
	sc.c, err = sc.frame.Expand()
	return err
}

// now answers the epoch, by the clock of the database.
func (s *Stage) now(ctx context.Context) (now int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&now)
	return now, err
}

// insert puts the rows of the world and of the task into their tables.
func (sc *scene) insert(ctx context.Context) error {
	s := sc.stage
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = s.insertWorld(ctx, tx, sc.c.World)
	if err == nil {
		err = sc.insertTask(ctx, tx)
	}
	if err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// insertTask queues the task of a case by itself: tasks.Store refuses data that
// PHP cannot read, and a case may be about just that.
func (sc *scene) insertTask(ctx context.Context, tx *sql.Tx) error {
	s, c := sc.stage, sc.c
	counter, err := tx.ExecContext(ctx, "UPDATE "+s.names.Quoted(countTable)+
		" SET counterValue = LAST_INSERT_ID(counterValue + 1) WHERE counterName = 'worker_activetask'")
	if err == nil {
		sc.frame.TaskID, err = counter.LastInsertId()
	}
	if err != nil {
		return fmt.Errorf("take a task id: %w", err)
	}
	data, err := tx.ExecContext(ctx, "INSERT INTO "+s.names.Quoted(dataTable)+" (data) VALUES (?)", []byte(c.Data))
	if err == nil {
		sc.frame.DataID, err = data.LastInsertId()
	}
	if err != nil {
		return fmt.Errorf("insert the data of the task: %w", err)
	}
	priority := tasks.PriorityDefault
	if c.Task.Priority != nil {
		priority = *c.Task.Priority
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO `+s.names.Quoted(activeTable)+`
(id, taskClass, leaseOwner, leaseExpires, failureCount, dataID, failureTime, priority, objectPHID, containerPHID, dateCreated, dateModified)
VALUES (?, ?, NULL, NULL, ?, ?, NULL, ?, ?, ?, ?, ?)`,
		sc.frame.TaskID, c.TaskClass, c.Task.FailureCount, sc.frame.DataID, priority, c.Task.ObjectPHID, c.Task.ContainerPHID,
		sc.frame.Start, longAgo)
	if err != nil {
		return fmt.Errorf("insert the task: %w", err)
	}
	return nil
}

// look reads what was written so far: that is what the run starts from.
func (sc *scene) look(ctx context.Context) (err error) {
	s := sc.stage
	if sc.tally, err = s.tally(ctx); err != nil {
		return err
	}
	sc.before = map[string]*rows.Table{}
	for _, name := range s.written(sc.opened, sc.tally) {
		if sc.before[name], err = s.reread(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (sc *scene) lease(ctx context.Context) (tasks.Task, error) {
	leased, err := sc.stage.store.Lease(ctx, tasks.LeaseRequest{
		Limit:   1,
		Classes: map[string]tasks.ClassRequest{sc.c.TaskClass: {Limit: 1, LeaseTime: leaseTime}},
	})
	if err != nil {
		return tasks.Task{}, fmt.Errorf("lease the task: %w", err)
	}
	if len(leased) != 1 || leased[0].ID != sc.frame.TaskID {
		return tasks.Task{}, fmt.Errorf("another task of class %s comes first in the queue; empty the queue of the namespace, and give tasks that a world queues a time to come", sc.c.TaskClass)
	}
	sc.frame.Owner = leased[0].Lease.Owner
	return leased[0], nil
}

// require extends the lease, as the runtime does. A failure shows when the task
// is settled.
func (sc *scene) require(ctx context.Context, task tasks.Task, lease time.Duration) {
	renewed, err := sc.stage.store.Renew(ctx, []tasks.Renewal{{ID: task.ID, Owner: task.Lease.Owner, LeaseTime: lease}})
	switch {
	case err != nil:
		sc.stage.config.Log.Warn().Err(err).Str("case", sc.c.Name).Msg("the lease was not extended")
	case renewed[0].Err == nil && renewed[0].Expires > task.Lease.Expires: // it can be long enough already
		sc.frame.Lease = int64(math.Ceil(lease.Seconds()))
	}
}

// settle does with an outcome what the runtime does. A task that was declined
// goes back to its place, where PHP would find it.
func (sc *scene) settle(ctx context.Context, task tasks.Task, outcome *tasks.Outcome) error {
	settled := *outcome
	switch outcome.Kind {
	case tasks.Succeeded:
	case tasks.Yielded:
		outcome.Wait = max(outcome.Wait, tasks.MinYield)
	case tasks.Retry:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryTemporary)
	case tasks.Failed:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryPermanent)
	case tasks.Crashed:
		outcome.Category = cmp.Or(outcome.Category, tasks.CategoryCrash)
	case tasks.Declined:
		settled = tasks.Outcome{Kind: tasks.Released}
	default:
		return fmt.Errorf("the task was not run: %s (%s)", outcome.Reason, outcome.Kind)
	}
	if outcome.Kind != tasks.Declined {
		settled = *outcome
	}
	answers, err := sc.stage.store.Settle(ctx, []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: settled}})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return fmt.Errorf("settle the task: %w", err)
	}
	return nil
}

// outcomeOf answers an outcome as it is observed.
func outcomeOf(o tasks.Outcome) contract.Outcome {
	observed := contract.Outcome{Kind: o.Kind, Category: o.Category, Reason: o.Reason}
	switch o.Kind {
	case tasks.Yielded, tasks.Retry, tasks.Crashed:
		observed.Wait = int64(o.Wait / time.Second)
	case tasks.Succeeded:
		for _, f := range o.FollowUps {
			followUp := contract.FollowUp{
				TaskClass: f.Class, Data: string(f.Data), Priority: f.Priority,
				ObjectPHID: f.ObjectPHID, ContainerPHID: f.ContainerPHID,
			}
			if f.DelayUntil > 0 {
				followUp.DelayUntil = strconv.FormatInt(f.DelayUntil, 10)
			}
			observed.FollowUps = append(observed.FollowUps, followUp)
		}
	}
	return observed
}
