package queueapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// Sixteen clients lease and settle all that eight others queue, each task once.
func TestClientsThatWorkSideBySideSettleEachTaskOnce(t *testing.T) {
	leaks(t)
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			s := serve(t, backend.open(t), func(c *queueapi.Config) { c.PollEvery = 0 })
			const producers, each, workers = 8, 25, 16
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var mu sync.Mutex
			done := map[int64]int{}
			var producing, working sync.WaitGroup
			for range producers {
				producing.Go(func() {
					for i := range each {
						s.ok(s.post("enqueue", fmt.Sprintf(`{"taskClass":"A","data":"%d"}`, i)))
					}
				})
			}
			for i := range workers {
				working.Go(func() {
					name := owner(fmt.Sprintf("worker-%d", i))
					for ctx.Err() == nil {
						leased := read[[]task](s, s.post("lease", `{"limit":4,"wait":1}`, name))
						for _, t := range leased {
							s.ok(s.post("complete", held(t), name))
						}
						mu.Lock()
						for _, t := range leased {
							done[t.ID]++
						}
						if len(done) == producers*each {
							stop()
						}
						mu.Unlock()
					}
				})
			}
			producing.Wait()
			working.Wait()
			for id, n := range done {
				if n != 1 {
					t.Errorf("task %d was leased %d times", id, n)
				}
			}
			active, archived := s.rows()
			s.same("rows", []int{len(done), active, archived}, []int{producers * each, 0, producers * each})
		})
	}
}

// The limits are a sixteenth of what they are otherwise in short runs, where the
// race detector takes seconds over 70 MiB.
func TestB22PayloadsThatFitAreStoredAndOthersNameTheLimit(t *testing.T) {
	unit := 1 << 20
	if testing.Short() {
		unit /= 16
	}
	limit := 64 * unit
	body := func(size int) string {
		return `{"taskClass":"A","data":"\"` + strings.Repeat("x", size-2) + `\""}`
	}
	for _, c := range []struct {
		name    string
		open    func(testing.TB) subject
		maxBody int // of a server whose store has the limit, or 0
	}{
		{"MariaDB", func(t testing.TB) subject { return openMariaDBOn(t, packets(t, limit)) }, 2 * limit},
		{"SQLite", openSQLite, 2 * 64 << 20},
		{"Redis", openRedis, 2 * 64 << 20},
	} {
		for name, maxBody := range map[string]int{"the limit of the server": limit, "the limit of the store": c.maxBody} {
			if maxBody > 2*limit {
				continue // it cannot be made smaller
			}
			t.Run(c.name+", "+name, func(t *testing.T) {
				s := serve(t, c.open(t), func(c *queueapi.Config) { c.MaxBody = int64(maxBody) })
				for _, size := range []int{5 * unit, 20 * unit} {
					id := read[task](s, s.post("enqueue", body(size))).ID
					s.same("bytes stored", len(*s.task(id).Data), size)
				}
				lines := strings.Count(s.logs.String(), "\n")
				for range 2 {
					r := s.post("enqueue", body(70*unit))
					s.refused(r, http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
					if !strings.Contains(r.Error.Message, fmt.Sprint(limit)) {
						t.Errorf("the limit is not named: %s", r.Error.Message)
					}
				}
				s.same("lines in the log", strings.Count(s.logs.String(), "\n")-lines, 2)
				for range 20 {
					s.queue("[]")
				}
				active, _ := s.rows()
				s.same("active", active, 22)
				s.same("leased bytes", len(*s.lease("w", 1)[0].Data), 5*unit)
			})
		}
	}
}

// packets answers a server that takes packets of so many bytes.
func packets(t testing.TB, limit int) *scratch.MariaDB {
	t.Helper()
	server, err := scratch.Start(scratch.Options{Args: []string{fmt.Sprintf("--max-allowed-packet=%d", limit)}, Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Cleaning up is Phorge's garbage collector here. What the other stores forget
// themselves, with its data, B48 of their own tests shows.
func TestB12AHugeArchiveCostsNothing(t *testing.T) {
	s := serve(t, openMariaDB(t), func(c *queueapi.Config) { c.StatsEvery = 1 })
	db := s.hands.(tables).db
	rows := 1_000_000
	if testing.Short() {
		rows = 50_000
	}
	if _, err := db.Exec(fmt.Sprintf(`INSERT INTO worker_archivetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified, result, duration, archivedEpoch)
SELECT seq, 'A', 0, seq, 2000, 1, 1, seq %% 3, 0, 1 FROM seq_1_to_%d`, rows)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO lisk_counter VALUES ('worker_activetask', ?) ON DUPLICATE KEY UPDATE counterValue = ?", rows, rows); err != nil {
		t.Fatal(err)
	}
	entries := func() (n int64) {
		if err := db.QueryRow(`SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS
WHERE VARIABLE_NAME IN ('HANDLER_READ_FIRST', 'HANDLER_READ_LAST', 'HANDLER_READ_KEY', 'HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_RND_NEXT')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var leased task
	for _, c := range []struct {
		what string
		most int64
		call func()
	}{
		{"stats", 2*10_000 + 2000, func() {
			counted := read[struct {
				ArchivedCount int
				More          bool
			}](s, s.get("stats"))
			s.same("counted", []any{counted.ArchivedCount, counted.More}, []any{10_000, true})
		}},
		{"a page", 5000, func() { s.ok(s.get("tasks?state=archived&limit=10&offset=1000")) }},
		{"a page by cursor", 3000, func() { s.ok(s.get(fmt.Sprintf("tasks?state=archived&limit=10&cursor=%d", rows/2))) }},
		{"one task", 1000, func() { s.task(int64(rows) / 2) }},
		{"enqueue", 1000, func() { s.queue("[]") }},
		{"lease", 1000, func() { leased = s.lease("w", 1)[0] }},
		{"complete", 1000, func() { s.ok(s.post("complete", held(leased), owner("w"))) }},
		{"lease of nothing", 1000, func() { s.same("leased", len(s.lease("w", 1)), 0) }},
	} {
		before := entries()
		c.call()
		n := entries() - before
		t.Logf("%s read %d entries", c.what, n)
		if n > c.most {
			t.Errorf("%s read %d entries, more than %d", c.what, n, c.most)
		}
	}
}
