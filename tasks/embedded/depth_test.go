package embedded

import (
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// fill writes so many rows with ids behind the last one. The columns are SQL
// of the number n, from 1.
func fill(t testing.TB, db *sql.DB, n int, class, owner, expires, priority string) {
	t.Helper()
	run(t, db, fmt.Sprintf(`WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq LIMIT %d)
INSERT INTO task (id, taskClass, leaseOwner, leaseExpires, failureCount, priority, dateCreated, dateModified)
SELECT lastID + n, %s, %s, %s, 0, %s, 1, 1 FROM seq, queue`, n, class, owner, expires, priority))
	run(t, db, `INSERT INTO data (id, data) SELECT task.id, '{}' FROM task, queue WHERE task.id > lastID`)
	run(t, db, `UPDATE queue SET lastID = lastID + ?`, n)
}

func run(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
}

// fillArchive archives so many tasks, today.
func fillArchive(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	run(t, db, fmt.Sprintf(`WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq LIMIT %d)
INSERT INTO archive SELECT lastID + n, 'A', 'held', NULL, 0, 2000, NULL, NULL, 1, 1, 0, 0, unixepoch() FROM seq, queue`, n))
	run(t, db, `UPDATE queue SET lastID = lastID + ?1, archived = archived + ?1`, n)
}

// depths are queues that are bad for a scan from the head.
var depths = []struct {
	name                            string
	class, owner, expires, priority string // SQL of a number
	req                             tasks.LeaseRequest
	leased                          int
	most                            int // steps of SQLite's machine, in a call
}{
	{"plain", "'A'", "NULL", "NULL", "2000", storetest.Any(64), 64, 12000},
	{"a hundred classes", "'C' || (n % 100)", "NULL", "NULL", "2000", storetest.Any(64), 64, 36000},
	{"one class of a hundred", "'C' || (n % 100)", "NULL", "NULL", "2000", storetest.Only(64, "C17"), 64, 12000},
	{"a class is excluded that has nine tenths", "iif(n % 10, 'A', 'B')", "NULL", "NULL", "iif(n % 10, 1, 2000)", storetest.But(64, "A"), 64, 12000},
	{"the class is absent", "'A'", "NULL", "NULL", "2000", storetest.Only(64, "B"), 0, 2000},
	{"all but a few are delayed", "'A'", "iif(n % 10, '(delay)', NULL)", "iif(n % 10, 4000000000, NULL)", "2000", storetest.Any(64), 64, 12000},
	{"all wait without an owner", "'A'", "NULL", "4000000000", "2000", storetest.Any(64), 0, 2000},
	{"all are held", "'A'", "'gantry:1:0:n:h'", "4000000000", "2000", storetest.Any(64), 0, 2000},
	{"all failed before and are due", "'A'", "'(retry):1:0'", "n", "2000", storetest.Any(64), 64, 12000},
	{"all are held by the dead", "'A'", "'gantry:1:0:n:h'", "n", "2000", storetest.Any(64), 64, 15000},
	{"all were freed", "'A'", "NULL", "n", "n % 7", storetest.Any(64), 64, 100000},
}

func TestB12CostDoesNotGrowWithTheQueueOrTheArchive(t *testing.T) {
	sizes := []int{1000, 1_000_000}
	if testing.Short() || raceEnabled {
		sizes[1] = 15_000
	}
	for _, d := range depths {
		t.Run(d.name, func(t *testing.T) {
			var steps []int
			for _, size := range sizes {
				c := Config{Path: filepath.Join(t.TempDir(), "queue.db")}
				s := open(t, c)
				file := openFile(t, c.Path)
				fill(t, file, size, d.class, d.owner, d.expires, d.priority)
				if d.name == "plain" {
					fillArchive(t, file, size)
				}
				for range 2 { // the first one prepares
					w := during(t, s, func() {
						leased, err := s.Lease(t.Context(), d.req)
						if err != nil || len(leased) != d.leased && size > 1000 {
							t.Errorf("of %d rows %d were leased (%v), want %d", size, len(leased), err, d.leased)
						}
					})
					if w.scans != 0 || w.sorts != 0 {
						t.Errorf("of %d rows %d were scanned, and %d sorts made", size, w.scans, w.sorts)
					}
					steps = append(steps, w.steps)
				}
			}
			t.Logf("steps at %d: %v", sizes, steps)
			if slices.Max(steps) > d.most {
				t.Errorf("calls took %d steps, at most %d are promised", steps, d.most)
			}
		})
	}
}

// Whatever a store asks of SQLite stands among the statements that its
// connections keep.
func TestB12NoStatementScansOrSorts(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "queue.db"), ArchiveRows: 1000}
	s := open(t, c)
	useAll(t, s, openFile(t, c.Path))
	seen := map[string]bool{}
	s.allConns(func(c *conn) {
		for _, query := range slices.Sorted(maps.Keys(c.prepared)) {
			if seen[query] || strings.HasPrefix(query, "PRAGMA") || strings.HasPrefix(query, "BEGIN") || query == "COMMIT" ||
				strings.HasPrefix(query, "ROLLBACK") || strings.HasSuffix(query, " ready") {
				continue
			}
			seen[query] = true
			for _, line := range plan(t, c, query) {
				scan := strings.HasPrefix(line, "SCAN ") && !slices.ContainsFunc(harmless, func(what string) bool { return strings.HasPrefix(line, "SCAN "+what) })
				if scan && query != oldestSQL && query != countArchivedSQL || strings.Contains(line, "TEMP B-TREE") { // these two have a LIMIT
					t.Errorf("%s\n  %s", query, line)
				}
			}
		}
	})
	for _, query := range []string{
		classesSQL[fresh], classesSQL[unripe], classesSQL[parked], classesSQL[held],
		freshAtSQL, freshBehindSQL, parkedAtSQL, parkedBehindSQL, heldAtSQL, heldBehindSQL, anyUnripeSQL, ripenSQL, takeSQL,
		insertTask[1], insertTask[insertRows], archiveSQL, deleteSQL, saveSQL, dataByID, activeByID, archivedByID, placesSQL, extendSQL,
		oldestSQL, olderSQL, forgetSQL, forgetDataSQL, requeueSQL, unarchiveSQL, awakenSQL, getSQL, listActiveSQL, listArchivedSQL, countSQL,
		stateSQL, saveStateSQL, countArchivedSQL, readKeySQL, keySQL, trimKeysSQL,
	} {
		if !seen[query] {
			t.Errorf("this was not looked at: %s", query)
		}
	}
}

// harmless is what may be scanned: what a statement was given, what it found
// itself, and the tables that have few rows.
var harmless = []string{"json_each", "class", "queue", "CONSTANT ROW", "pragma_", "(subquery", "32-ROW VALUES", "sqlite_master"}

// useAll makes every call, each in such a way that it has something to do.
func useAll(t *testing.T, s *Store, file *sql.DB) {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for class, rank := range map[string]string{"'A'": "1", "'B'": "2 + n % 2", "'C'": "2 + n % 2"} { // A has to be read on
		fill(t, file, 600, class, "NULL", "NULL", rank)
		fill(t, file, 600, class, "'(retry):1:0'", rank, "1")
		fill(t, file, 600, class, "'gantry:1:0:n:h'", rank, "1")
	}
	fill(t, file, 10, "'A'", "NULL", "0", "1")
	must(s.Enqueue(ctx, slices.Repeat([]tasks.NewTask{{Class: "A", Data: []byte("1")}}, insertRows+1)))
	for range 10 {
		leased, err := s.Lease(ctx, storetest.Any(500))
		must(leased, err)
		var settlements []tasks.Settlement
		for i, task := range leased {
			kinds := []tasks.Kind{tasks.Succeeded, tasks.Retry, tasks.Failed, tasks.Yielded}
			settlements = append(settlements, tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: kinds[i%4]}})
		}
		must(s.Renew(ctx, []tasks.Renewal{{ID: leased[0].ID, Owner: leased[0].Lease.Owner, LeaseTime: time.Hour}}))
		must(s.Settle(ctx, settlements))
	}
	run(t, file, "UPDATE archive SET archivedEpoch = 1 WHERE id % 2")
	must(s.Enqueue(ctx, []tasks.NewTask{{Class: "A", Data: []byte("1")}}))
	must(s.Enqueue(ctx, slices.Repeat([]tasks.NewTask{{Class: "B", Data: []byte("1")}}, 2)))
	page, err := s.List(ctx, tasks.Filter{State: tasks.Active, Limit: 5})
	must(page, err)
	ids := []int64{page.Tasks[0].ID, page.Tasks[1].ID}
	must(s.Priority(ctx, ids, 77))
	must(s.Delay(ctx, ids, 77))
	must(s.Free(ctx, ids))
	must(s.Cancel(ctx, ids))
	must(s.Retry(ctx, ids, true))
	must(s.Awaken(ctx, ids))
	must(s.Get(ctx, ids[0]))
	must(s.List(ctx, tasks.Filter{State: tasks.Archived, Limit: 5}))
	must(s.Stats(ctx))
	must(s.CountArchived(ctx))
	must(s.Attempts(ctx, ids[0], 5))
	must(nil, s.Ready(ctx))
	must(s.LeaseFor(ctx, "caller", storetest.Any(1)))
	_, _, err = s.EnqueueOnce(ctx, tasks.Once{Key: "k", Keep: time.Hour}, []tasks.NewTask{{Class: "B", Data: []byte("1")}})
	must(nil, err)
}
