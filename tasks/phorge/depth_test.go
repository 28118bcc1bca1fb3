package phorge

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const depth = 200_000

// deepen fills the queue and the archive with as many rows of two classes, ids
// from 1 and from 1,000,001. Every fourth of each is held by an owner.
func (q *queue) deepen(from, to int) {
	q.t.Helper()
	q.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	q.t.Cleanup(func() { q.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1") })
	q.fill(rows{from: int64(from), to: int64(to), class: "IF(seq % 2, 'A', 'B')",
		owner: "IF(seq % 4, NULL, 'held')", expires: "IF(seq % 4, NULL, 4000000000)"})
	q.exec(fmt.Sprintf(`INSERT INTO worker_archivetask
(id, taskClass, leaseOwner, failureCount, dataID, result, duration, dateCreated, dateModified, priority)
SELECT 1000000 + seq, IF(seq %% 2, 'A', 'B'), 'held', 0, seq, 0, 0, 1, 1, 2000 FROM seq_%d_to_%d`, from, to))
	q.exec("UPDATE lisk_counter SET counterValue = GREATEST(counterValue, ?)", 1000000+to)
	q.exec("ANALYZE TABLE worker_activetask, worker_archivetask, worker_taskdata")
}

// plan is a line of EXPLAIN.
type plan struct {
	table, access, key, extra string
	rows                      int64
}

func (q *queue) explain(statement string, args ...any) (plans []plan) {
	q.t.Helper()
	found, err := q.db.Query("EXPLAIN "+statement, args...)
	if err != nil {
		q.t.Fatalf("EXPLAIN %.200s: %v", statement, err)
	}
	defer found.Close()
	for found.Next() {
		var ignored, table, access, key, extra sql.NullString
		var rows sql.NullInt64
		if err := found.Scan(&ignored, &ignored, &table, &access, &ignored, &key, &ignored, &ignored, &rows, &extra); err != nil {
			q.t.Fatal(err)
		}
		plans = append(plans, plan{table.String, access.String, key.String, extra.String, rows.Int64})
	}
	return plans
}

// INSERT has no plan: what it looks for is found by the primary key.
func TestB12NoStatementScansOrSortsAtDepth(t *testing.T) {
	q := newQueue(t)
	q.deepen(1, depth)
	ids := make([]int64, 64)
	for i := range ids {
		ids[i] = int64(100_000 + 17*i)
	}
	for _, c := range []struct {
		name, statement string
		args            []any
		most            int64 // rows examined, as estimated
	}{
		{"lock", withIDs(lockSQL, ids), nil, 64},
		{"held", withIDs(heldSQL, ids), nil, 64},
		{"held, locking", withIDs(heldSQL, ids) + " FOR UPDATE SKIP LOCKED", nil, 64},
		{"extend", withIDs(extendSQL, ids), []any{1}, 64},
		{"traces", withIDs(tracesSQL, ids), nil, 64},
		{"delete", withIDs(deleteSQL, ids), []any{len(ids)}, 64},
		{"delete from the archive", withIDs(deletePastSQL, ids), []any{len(ids)}, 64},
		{"lock the archive", withIDs(lockPastSQL, ids), nil, 64},
		{"data", withIDs(dataSQL, ids), nil, 64},
		{"reserve", reserveSQL, []any{5}, 1},
		{"writable", writableSQL, nil, 1},
		{"used", usedSQL, []any{9_000_001, 9_001_000, 9_000_001, 9_001_000}, 1000},
		{"counter", counterSQL, nil, 1},
		{"get", getSQL, []any{5, 5}, 1},
		{"awaken", withIDs(awakenSQL, ids), []any{tasks.AwakenedBy, tasks.YieldOwner, tasks.AwakenedBy}, 64},
		{"next class", nextClassSQL, []any{"A"}, depth}, // estimates know nothing of LIMIT; see the reads below
		{"count class", countClassSQL, []any{"A", statsBound + 1}, depth},
		{"list", listActiveSQL, []any{100_000, listWindow}, depth},
		{"list the archive", listArchivedSQL, []any{1_100_000, listWindow}, depth},
		{"list a class", listClassSQL, []any{"A", 100_000, listWindow}, depth},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range q.explain(c.statement, c.args...) {
				scans := (p.access == "ALL" || p.access == "index") && !strings.HasPrefix(p.table, "<")
				if scans || strings.Contains(p.extra, "filesort") || strings.Contains(p.extra, "temporary") || p.rows > c.most {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

// reads counts the index entries and rows that the server reads while f runs,
// over all of the connections of a store that has only one.
func reads(t *testing.T, s *Store, f func() error) (n int64) {
	t.Helper()
	count := func() (n int64) {
		err := s.db.QueryRowContext(context.Background(), `SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS
WHERE VARIABLE_NAME LIKE 'Handler_read_%' AND VARIABLE_NAME <> 'Handler_read_rnd_next'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	scanned := func() (n int64) { // its own table of status variables is scanned as well
		var name string
		if err := s.db.QueryRowContext(context.Background(), "SHOW SESSION STATUS LIKE 'Handler_read_rnd_next'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	rows := scanned()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	return scanned() - rows + count() - before
}

func TestB12CostDoesNotGrowWithTheQueueOrTheArchive(t *testing.T) {
	q := newQueue(t)
	s := q.open(func(c *Config) { c.MaxConns = 1 })
	ctx := t.Context()
	held := func(n int64) []tasks.Settlement {
		all := make([]tasks.Settlement, 64)
		for i := range all {
			all[i] = tasks.Settlement{ID: n + 4*int64(i), Lease: tasks.Lease{Owner: "held"},
				Outcome: tasks.Outcome{Kind: tasks.Retry, Wait: time.Minute}}
		}
		return all
	}
	next := int64(4) // of the held rows that were not settled yet
	list := func(f tasks.Filter) func() error {
		f.Limit = 20
		return func() error {
			page, err := s.List(ctx, f)
			if err == nil && page.Next == 0 {
				err = fmt.Errorf("a page of %d tasks is the last", len(page.Tasks))
			}
			return err
		}
	}
	none := 0
	operations := map[string]struct {
		run  func() error
		most int64
	}{
		"list active":                    {list(tasks.Filter{State: tasks.Active}), 1100},
		"list archived":                  {list(tasks.Filter{State: tasks.Archived}), 1100},
		"list a class":                   {list(tasks.Filter{State: tasks.Active, Class: "B"}), 1100},
		"list an archived class":         {list(tasks.Filter{State: tasks.Archived, Class: "B"}), 1100},
		"list by failures, none fits":    {list(tasks.Filter{State: tasks.Active, MinFailures: 1}), 1100},
		"list by failures, all fit":      {list(tasks.Filter{State: tasks.Active, MaxFailures: &none}), 1100},
		"list by priority, none fits":    {list(tasks.Filter{State: tasks.Active, MinPriority: 9000}), 1100},
		"list by object, none fits":      {list(tasks.Filter{State: tasks.Active, Objects: []string{"PHID-X"}}), 1100},
		"list by container, none fits":   {list(tasks.Filter{State: tasks.Archived, Containers: []string{"PHID-X"}}), 1100},
		"list behind half of everything": {list(tasks.Filter{State: tasks.Active, After: 500}), 1100},
		"stats":                          {func() error { _, err := s.Stats(ctx); return err }, 2*2*(statsBound+1) + 2*2*64 + 20},
		"get an active task":             {func() error { _, err := s.Get(ctx, 500); return err }, 10},
		"get an archived task":           {func() error { _, err := s.Get(ctx, 1_000_500); return err }, 10},
		"get nothing":                    {func() error { _, _ = s.Get(ctx, 900_000); return nil }, 10},
		"renew": {func() error {
			_, err := s.Renew(ctx, []tasks.Renewal{{ID: 996, Owner: "held", LeaseTime: time.Hour}, {ID: 999, Owner: "gone", LeaseTime: time.Hour}})
			return err
		}, 20},
		"settle": {func() error {
			answers, err := s.Settle(ctx, held(next))
			next += 256
			for _, a := range answers {
				if err == nil && a.Err != nil {
					err = a.Err
				}
			}
			return err
		}, 64 * 10},
		"enqueue": {func() error { _, err := s.Enqueue(ctx, news(64, "C")); return err }, 64 * 4},
		"priority": {func() error {
			_, err := s.Priority(ctx, []int64{5, 6, 1_000_005}, 2000+int(next))
			return err
		}, 40},
	}
	measure := func() map[string]int64 {
		got := map[string]int64{}
		for name, o := range operations {
			got[name] = reads(t, s, o.run)
		}
		return got
	}
	q.deepen(1, 1400)
	small := measure()
	q.deepen(1401, depth)
	deep := measure()
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		most := operations[name].most
		if deep[name] > most {
			t.Errorf("%s reads %d entries at %d rows (%d at 1,400), at most %d are promised", name, deep[name], depth, small[name], most)
		}
	}
	t.Logf("entries read at 1,400 rows: %v; at %d: %v", small, depth, deep)
}
