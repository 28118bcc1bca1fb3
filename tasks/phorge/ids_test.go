package phorge

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// queueOn answers the queue of a server of start's.
func queueOn(t testing.TB, server *scratch.MariaDB) *queue {
	t.Helper()
	dsn := server.DSN("test_worker")
	cfg, err := configure(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return &queue{t, dsn, db}
}

// phpEnqueue queues as PHP does: LiskDAO::loadNextCounterValue, then the data,
// then the task, each on its own.
func (q *queue) phpEnqueue() (id int64, err error) {
	insert := func(statement string, args ...any) (id int64, err error) {
		var result sql.Result
		if result, err = q.db.Exec(statement, args...); err == nil {
			id, err = result.LastInsertId()
		}
		return id, err
	}
	id, err = insert(`INSERT INTO lisk_counter (counterName, counterValue) VALUES ('worker_activetask', LAST_INSERT_ID(1))
ON DUPLICATE KEY UPDATE counterValue = LAST_INSERT_ID(counterValue + 1)`)
	if err != nil {
		return 0, err
	}
	data, err := insert(`INSERT INTO worker_taskdata (data) VALUES ('"php"')`)
	if err != nil {
		return 0, err
	}
	_, err = q.db.Exec(`INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified)
VALUES (?, 'P', 0, ?, 2000, 1, 1)`, id, data)
	return id, err
}

func TestB13IdsAreUniqueBesidePHPAndAfterARestart(t *testing.T) {
	server := start(t)
	q := queueOn(t, server)
	// The archive is full and the counter row is gone.
	q.exec(`INSERT INTO worker_archivetask (id, taskClass, failureCount, dataID, result, duration, dateCreated, dateModified, priority)
SELECT seq, 'Old', 0, seq, 0, 0, 1, 1, 2000 FROM seq_1_to_500`)
	q.exec("DELETE FROM lisk_counter")
	s := q.open()

	var mu sync.Mutex
	seen := map[int64]bool{}
	note := func(ids ...int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if seen[id] || id <= 500 {
				t.Errorf("the id %d was given out before", id)
			}
			seen[id] = true
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		for range 200 {
			id, err := q.phpEnqueue()
			if err != nil {
				t.Error(err)
			}
			note(id)
		}
	})
	for range 4 {
		group.Go(func() {
			for _, n := range []int{1, 1, 8, 40} {
				ids, err := s.Enqueue(t.Context(), news(n, "A"))
				if err != nil {
					t.Error(err)
				}
				note(ids...)
			}
		})
	}
	group.Wait()
	ids := slices.Collect(maps.Keys(seen))
	if len(ids) != 400 || q.number("SELECT COUNT(*) FROM worker_activetask") != 400 {
		t.Fatalf("%d ids for 400 tasks", len(ids))
	}
	if _, err := s.Cancel(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	note(enqueue(t, s, news(3, "A")...)...)
	id, err := q.phpEnqueue()
	if err != nil {
		t.Fatal(err)
	}
	note(id)
	note(enqueue(t, q.open(), news(3, "A")...)...)
}

func TestB13ACounterThatIsWrongIsRepaired(t *testing.T) {
	for _, c := range []struct{ name, broken string }{
		{"missing", "DELETE FROM lisk_counter WHERE counterName = 'worker_activetask'"},
		{"behind the archive alone", "UPDATE lisk_counter SET counterValue = 10 WHERE counterName = 'worker_activetask'"},
		{"behind the queue and the archive", "UPDATE lisk_counter SET counterValue = 2 WHERE counterName = 'worker_activetask'"},
	} {
		prepare := func(t *testing.T) (*queue, []int64) {
			q := newQueue(t)
			s := q.open()
			used := enqueue(t, s, news(20, "A")...)
			if _, err := s.Cancel(t.Context(), used[5:]); err != nil { // the highest are in the archive
				t.Fatal(err)
			}
			return q, used
		}
		check := func(t *testing.T, used, fresh []int64) {
			t.Helper()
			if slices.Min(fresh) <= slices.Max(used) {
				t.Errorf("the ids %v were given out after %v", fresh, used)
			}
		}
		t.Run(c.name+" at start-up", func(t *testing.T) {
			q, used := prepare(t)
			q.exec(c.broken)
			s := q.open()
			id, err := q.phpEnqueue() // finds a good counter before we queue anything
			if err != nil {
				t.Fatal(err)
			}
			check(t, used, append(enqueue(t, s, news(3, "A")...), id))
		})
		t.Run(c.name+" while running", func(t *testing.T) {
			q, used := prepare(t)
			s := q.open()
			q.exec(c.broken)
			check(t, used, enqueue(t, s, news(3, "A")...))
		})
	}
}

// A block that is ours can be taken away by a counter that goes back: PHP gets
// one of its ids first.
func TestB13AnIdThatSomebodyElseUsedIsReplaced(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	s.ids.now = func() time.Time { return time.Unix(1, 0) } // blocks do not age
	enqueue(t, s, news(4, "A")...)
	enqueue(t, s, news(1, "A")...) // a block of 8, of which 7 are left
	if left := s.ids.end - s.ids.next; left != 7 {
		t.Fatalf("%d ids are left of the block, want 7", left)
	}
	q.exec("UPDATE lisk_counter SET counterValue = ?", s.ids.next)
	stolen, err := q.phpEnqueue()
	if err != nil || stolen != s.ids.next+1 {
		t.Fatalf("PHP got %d, %v", stolen, err)
	}
	got := enqueue(t, s, news(3, "A")...)
	if slices.Contains(got, stolen) || slices.Min(got) <= stolen {
		t.Errorf("queued as %v although PHP has %d", got, stolen)
	}
	if n := q.number("SELECT COUNT(*) FROM worker_activetask"); n != 9 {
		t.Errorf("%d tasks, want 9", n)
	}
	if n := q.number("SELECT COUNT(*) FROM worker_taskdata"); n != 9 {
		t.Errorf("%d data rows, want 9: the refused transaction left some", n)
	}
}

func TestIdsThatAreUsedUpAreNamedAndCostNobodyElse(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	enqueue(t, s, news(2, "A")...)
	all := succeeded(lease(t, s, storetest.Any(2)))
	all[0].Outcome.FollowUps = news(1, "B")
	q.exec("UPDATE lisk_counter SET counterValue = 4294967294 WHERE counterName = 'worker_activetask'")
	s.ids.next = s.ids.end // no block from before
	if last := enqueue(t, s, news(1, "A")...); last[0] != 4294967295 {
		t.Fatalf("the last id is %d", last[0])
	}
	explained := func(err error) bool {
		return errors.Is(err, tasks.ErrInvalid) && contains(err, "worker_activetask of lisk_counter counts are used up") && contains(err, "widen")
	}
	if _, err := s.Enqueue(t.Context(), news(1, "A")); !explained(err) {
		t.Errorf("queueing: error %v", err)
	}
	answers, err := s.Settle(t.Context(), all)
	if err != nil || !explained(answers[0].Err) || answers[1].Err != nil {
		t.Errorf("settling: %+v, %v", answers, err)
	}
	if _, err := q.db.Exec("ALTER TABLE worker_activetask MODIFY id bigint unsigned NOT NULL"); err != nil {
		t.Fatal(err)
	}
	settled(t, s, all[:1])
}

func TestIdBlocksGrowWithTheirUseAndAreDroppedAfterASecond(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	now := time.Unix(1000, 0)
	s.ids.now = func() time.Time { return now }
	take := func(n int) []int64 {
		t.Helper()
		ids, err := s.takeIDs(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	counter := func() int64 {
		return q.number("SELECT counterValue FROM lisk_counter WHERE counterName = 'worker_activetask'")
	}
	var sizes []int64
	for before := int64(0); len(sizes) < 12; {
		take(1)
		if after := counter(); after != before {
			sizes = append(sizes, after-before)
			before = after
		}
	}
	if want := []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}; !slices.Equal(sizes, want) {
		t.Errorf("blocks of %v, want %v", sizes, want)
	}
	now = now.Add(blockLife - time.Nanosecond)
	before := counter()
	take(1)
	if counter() != before {
		t.Error("a block of less than a second was dropped")
	}
	now = now.Add(time.Nanosecond)
	if got := take(1); got[0] != before+1 || counter() != before+1 {
		t.Errorf("the id %d and the counter %d after a quiet second, want %d", got[0], counter(), before+1)
	}
}

// Two threads at once, and clusters that step by more than one: the ids of the
// data rows of one INSERT are still as computed.
func TestDataIdsAreTheOnesOfTheirRows(t *testing.T) {
	server := start(t, "--innodb-autoinc-lock-mode=2", "--auto-increment-increment=3", "--auto-increment-offset=2")
	s := openOn(t, server, "")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				if _, err := s.Enqueue(t.Context(), news(50, "A")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() { // numbers of rows that the server does not know before
		for range 10 {
			if _, err := s.db.Exec("INSERT INTO worker_taskdata (data) SELECT '0' FROM seq_1_to_1000"); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	var right int
	// Each call queued {"n":0} to {"n":49} under ascending ids.
	err := s.db.QueryRow(`SELECT COUNT(*) FROM worker_activetask t JOIN worker_taskdata d ON d.id = t.dataID
JOIN worker_activetask f ON f.id = t.id - CAST(SUBSTRING(d.data, 6, LENGTH(d.data) - 6) AS UNSIGNED)
JOIN worker_taskdata fd ON fd.id = f.dataID AND fd.data = '{"n":0}'
WHERE t.dataID - f.dataID = 3 * (t.id - f.id)`).Scan(&right)
	if err != nil || right < 2000*9/10 { // a block of ids can end within a call
		t.Errorf("%d of 2000 tasks have their own data, %v", right, err)
	}
	var distinct int
	if err := s.db.QueryRow("SELECT COUNT(DISTINCT dataID) FROM worker_activetask JOIN worker_taskdata d ON d.id = dataID AND d.data <> '0'").Scan(&distinct); err != nil || distinct != 2000 {
		t.Errorf("%d of 2000 tasks have data of their own, %v", distinct, err)
	}
}
