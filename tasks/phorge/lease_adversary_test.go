package phorge

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// referee is a judge in the server itself: no update by a Gantry may take a row
// that was not due at that moment, whatever a store believes.
const referee = `CREATE TRIGGER referee BEFORE UPDATE ON worker_activetask FOR EACH ROW
IF NEW.leaseOwner LIKE 'gantry:%' AND NOT NEW.leaseOwner <=> OLD.leaseOwner AND NOT COALESCE(
	OLD.leaseExpires < UNIX_TIMESTAMP() - IF(OLD.leaseOwner LIKE 'gantry:%', 5, 0),
	OLD.leaseOwner IS NULL) THEN
	SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row that was not due was leased';
END IF`

// Two stores lease, settle and change what they want, while stock consumers
// take tasks, people use bin/worker, phd starts, rows come late and in bursts,
// and others hold locks. Nothing is leased that was not due, nothing twice, and
// in the end nothing that is due is left.
func TestNothingIsLeasedTwiceOrLeftBehindWhateverOthersDo(t *testing.T) {
	q := newQueue(t)
	q.exec(referee)
	q.ballast(1, 1500)
	if _, err := q.db.Exec("UPDATE worker_activetask SET leaseOwner = 'gantry:1:0:thief:host' WHERE id = 1"); err == nil {
		t.Fatal("the referee sleeps")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &game{queue: q, leases: map[string]bool{}}
	stores := []*Store{q.open(), q.open(func(c *Config) { c.WithoutSkipLocked = true })}
	operator := q.open()
	group, ctx := errgroup.WithContext(t.Context())
	play := func(player int, turn func(r *rand.Rand) error) {
		r := rand.New(rand.NewPCG(seed, uint64(player)))
		group.Go(func() error {
			for range 150 {
				if err := turn(r); err != nil || ctx.Err() != nil {
					return err
				}
			}
			return nil
		})
	}
	for n, s := range stores {
		play(n, func(r *rand.Rand) error {
			return g.work(s, someRequest(r), func() tasks.Outcome { return someOutcome(r) })
		})
		play(10+n, func(*rand.Rand) error { return g.stock(n) })
	}
	play(20, func(r *rand.Rand) error { return g.people(operator, r) })
	play(21, func(r *rand.Rand) error { return g.enqueuers(operator, r) })
	play(22, g.lockers)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "nothing that is due is left", func() bool {
		for _, s := range stores {
			if err := g.work(s, storetest.Any(256), func() tasks.Outcome { return tasks.Outcome{Kind: tasks.Succeeded} }); err != nil {
				t.Fatal(err)
			}
		}
		return q.number(`SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner IS NULL AND leaseExpires IS NULL
OR leaseExpires < UNIX_TIMESTAMP() OR leaseOwner LIKE 'gantry:%'`) == 0
	})
	if t.Logf("%d leases", len(g.leases)); len(g.leases) < 500 {
		t.Error("so few leases prove too little")
	}
}

// game is the queue and all who play.
type game struct {
	*queue
	mu     sync.Mutex
	leases map[string]bool // every one there was
}

func someRequest(r *rand.Rand) tasks.LeaseRequest {
	class := func() tasks.ClassRequest {
		c := tasks.ClassRequest{Limit: r.IntN(3) * r.IntN(30), LeaseTime: 2 * time.Second}
		if r.IntN(4) == 0 {
			c.PickupDelay = 50 * time.Millisecond
		}
		return c
	}
	req := tasks.LeaseRequest{Limit: 1 + r.IntN(80), Others: class(), Classes: map[string]tasks.ClassRequest{}}
	for _, name := range gameClasses {
		if r.IntN(2) == 0 {
			req.Classes[name] = class()
		}
	}
	return req
}

var gameClasses = []string{"A", "B", "C", "D"}

// someOutcome has the kind Lost for a task that its worker dies with.
func someOutcome(r *rand.Rand) tasks.Outcome {
	o := tasks.Outcome{Kind: []tasks.Kind{
		tasks.Succeeded, tasks.Succeeded, tasks.Failed, tasks.Retry, tasks.Crashed, tasks.Released, tasks.Yielded, tasks.Lost,
	}[r.IntN(8)]}
	if o.Kind == tasks.Retry {
		o.Wait = time.Duration(r.IntN(100)-99) * time.Second
	}
	return o
}

// work leases and settles. A lease is lost when people or phd come in between.
func (g *game) work(s *Store, req tasks.LeaseRequest, outcome func() tasks.Outcome) error {
	leased, err := s.Lease(g.t.Context(), req)
	if err != nil && !errors.Is(err, tasks.ErrSearching) {
		return err
	}
	var settlements []tasks.Settlement
	for _, task := range leased {
		g.mu.Lock()
		key := fmt.Sprint(task.ID, task.Lease.Owner)
		if g.leases[key] {
			err = fmt.Errorf("lease %s was answered twice", key)
		}
		g.leases[key] = true
		g.mu.Unlock()
		if req.Want(task.Class).Limit == 0 || task.Class == "Ballast" {
			return fmt.Errorf("leased task %d of class %s", task.ID, task.Class)
		}
		if o := outcome(); o.Kind != tasks.Lost {
			settlements = append(settlements, tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: o})
		}
	}
	if errors.Is(err, tasks.ErrSearching) {
		err = nil
	}
	if err != nil {
		return err
	}
	_, err = s.Settle(g.t.Context(), settlements)
	return err
}

// stock takes and archives tasks as a taskmaster does, delayed ones too.
func (g *game) stock(n int) error {
	_, err := g.phpWork(fmt.Sprintf("%d:1:php:1", n))
	if duplicate(err) { // cancelled meanwhile, which PHP does not expect
		return nil
	}
	return unlessContended(err)
}

func unlessContended(err error) error {
	if contended(err) {
		return nil
	}
	return err
}

// people use bin/worker, and start phd.
func (g *game) people(o *Store, r *rand.Rand) error {
	ctx := g.t.Context()
	var top int64
	if err := g.db.QueryRow("SELECT counterValue FROM lisk_counter WHERE counterName = 'worker_activetask'").Scan(&top); err != nil {
		return err
	}
	ids := make([]int64, 1+r.IntN(20))
	for i := range ids {
		ids[i] = 1501 + r.Int64N(max(1, top-1500))
	}
	now, err := o.Now(ctx)
	if err != nil {
		return err
	}
	switch r.IntN(8) {
	case 0:
		_, err = o.Free(ctx, ids)
	case 1:
		_, err = o.Delay(ctx, ids, now+r.Int64N(4)-2)
	case 2, 3:
		_, err = o.Priority(ctx, ids, 1000+500*r.IntN(7))
	case 4:
		_, err = o.Cancel(ctx, ids[:1])
	case 5:
		_, err = o.Retry(ctx, ids, true)
	case 6:
		_, err = o.Awaken(ctx, ids)
	case 7:
		_, err = g.db.Exec(`UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP()
WHERE leaseExpires > UNIX_TIMESTAMP() AND taskClass <> 'Ballast'`)
		err = unlessContended(err)
	}
	return err
}

// enqueuers queue tasks one by one, in bursts, and late: with ids that were
// given out long before.
func (g *game) enqueuers(s *Store, r *rand.Rand) error {
	n := 1 + r.IntN(10)
	if r.IntN(10) == 0 {
		n = 300
	}
	class := gameClasses[r.IntN(len(gameClasses))]
	priority := 1000 + 500*r.IntN(7)
	if r.IntN(3) > 0 {
		all := news(n, class)
		for i := range all {
			all[i].Priority = &priority
		}
		_, err := s.Enqueue(g.t.Context(), all)
		return err
	}
	ids, err := s.takeIDs(g.t.Context(), n)
	if err != nil {
		return err
	}
	r.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids[:min(n, 20)] {
		_, err := g.db.Exec(`INSERT INTO worker_activetask
(id, taskClass, failureCount, dataID, priority, dateCreated, dateModified) VALUES (?, ?, 0, 0, ?, 0, 0)`, id, class, priority)
		if err = unlessContended(err); err != nil {
			return err
		}
	}
	return nil
}

// lockers hold locks on some rows for a few reads.
func (g *game) lockers(r *rand.Rand) error {
	tx, err := g.db.BeginTx(g.t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.Query(`SELECT id FROM worker_activetask WHERE id > 1500 AND id % 7 = ? FOR UPDATE SKIP LOCKED`, r.IntN(7))
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	err = rows.Err()
	for range 10 {
		if err == nil {
			err = tx.QueryRow("SELECT COUNT(*) FROM worker_activetask WHERE id < 1500").Scan(new(int))
		}
	}
	return err
}
