package queueapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// Five hundred connections: a third send half a body and go, a third read
// nothing of a large answer and go, the others work. Nothing is lost and nothing
// stays behind.
func TestClientsThatStopInTheMiddleHarmNobody(t *testing.T) {
	leaks(t)
	s := serve(t, openMemory(t))
	large := `{"taskClass":"Large","data":"\"` + strings.Repeat("x", 100_000) + `\""}`
	for range 5 {
		s.ok(s.post("enqueue", large))
	}
	address := strings.TrimPrefix(s.url, "http://")
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			switch i % 3 {
			case 0:
				fmt.Fprintf(conn, "POST /api/queue/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n%s", large[:500])
			case 1:
				fmt.Fprint(conn, "GET /api/queue/tasks?data=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
			case 2:
				body := fmt.Sprintf(`{"taskClass":"Small","data":"%d"}`, i)
				fmt.Fprintf(conn, "POST /api/queue/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Errorf("answered %v, %v", answer, err)
					return
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.same("small tasks", len(read[[]task](s, s.get("tasks?taskClass=Small&limit=1000"))), 166)
	s.eventually(func() bool { return s.api.Held() == 0 })
	if strings.Contains(s.logs.String(), `"status":500`) {
		t.Error("a call was answered 500")
	}
}

// Sixteen clients lease and settle all that eight others queue, each task once.
func TestClientsThatWorkSideBySideSettleEachTaskOnce(t *testing.T) {
	leaks(t)
	for _, backend := range []struct {
		name string
		open func(testing.TB) subject
	}{{"Memory", openMemory}, {"MariaDB", openMariaDB}, {"SQLite", openSQLite}, {"Redis", openRedis}} {
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

func TestB22PayloadsUpToTheLimitOfTheServerAreStored(t *testing.T) {
	s := serve(t, openMariaDB(t))
	var packet int
	if err := s.hands.(tables).db.QueryRow("SELECT @@max_allowed_packet").Scan(&packet); err != nil {
		t.Fatal(err)
	}
	data := func(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }
	fits := s.queue(data(5 << 20))
	s.same("stored", len(*s.task(fits).Data), 5<<20)
	for range 2 {
		r := s.post("enqueue", text(map[string]any{"taskClass": "A", "data": data(packet + 1)}))
		s.refused(r, http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
		if !strings.Contains(r.Error.Message, fmt.Sprint(packet)) && !strings.Contains(r.Error.Message, "67108864") {
			t.Errorf("the limit %d is not named: %s", packet, r.Error.Message)
		}
	}
	for range 20 {
		s.queue("[]")
	}
}

func TestB12AHugeArchiveCostsNothing(t *testing.T) {
	s := serve(t, openMariaDB(t), func(c *queueapi.Config) { c.StatsEvery = 1 })
	db := s.hands.(tables).db
	if _, err := db.Exec(`INSERT INTO worker_archivetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified, result, duration, archivedEpoch)
SELECT seq, 'A', 0, seq, 2000, 1, 1, seq % 3, 0, 1 FROM seq_1_to_200000`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO lisk_counter VALUES ('worker_activetask', 200000) ON DUPLICATE KEY UPDATE counterValue = 200000"); err != nil {
		t.Fatal(err)
	}
	entries := func() (n int64) {
		if err := db.QueryRow(`SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS
WHERE VARIABLE_NAME IN ('HANDLER_READ_FIRST', 'HANDLER_READ_LAST', 'HANDLER_READ_KEY', 'HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_RND_NEXT')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	leased := s.hold("w")
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
		{"a page by cursor", 3000, func() { s.ok(s.get("tasks?state=archived&limit=10&cursor=150000")) }},
		{"one task", 1000, func() { s.task(150_000) }},
		{"complete", 1000, func() { s.ok(s.post("complete", held(leased), owner("w"))) }},
	} {
		before := entries()
		c.call()
		if n := entries() - before; n > c.most {
			t.Errorf("%s read %d entries, more than %d", c.what, n, c.most)
		}
	}
}
