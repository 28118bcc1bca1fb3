package queueapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// load is how often a crowd comes, how many connections it is, and how many
// malformed bodies each store gets over connections of their own.
// GANTRY_API_LOAD=1 asks for more than every run of the tests has time for.
func load(t *testing.T) (rounds, crowd, bodies int) {
	switch {
	case os.Getenv("GANTRY_API_LOAD") != "":
		return 20, 500, 10_000
	case testing.Short():
		t.Log("a crowd is 100 here, 500 without -short, and comes twenty times, with 10,000 malformed bodies for each store, with GANTRY_API_LOAD=1")
		return 2, 100, 500
	}
	return 2, 500, 500
}

// A fifth of a crowd sends half a body and goes when the others are done, a fifth
// reads nothing of a large answer and goes then, a fifth reads it slowly to its
// end, a fifth sends what is malformed, and a fifth works. What was queued is there
// and is settled once; no call is answered 5xx, unless it is 503, after which it is made
// again; and nothing stays behind: no goroutine, no body, no memory.
func TestACrowdOfBadClientsHarmsNobody(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			leaks(t)
			rounds, crowd, _ := load(t)
			s := serve(t, backend.open(t))
			large := `{"taskClass":"Large","data":"\"` + strings.Repeat("x", 100_000) + `\""}`
			for range 5 {
				s.ok(s.post("enqueue", large))
			}
			var heap uint64
			for n := range rounds {
				s.comes(crowd, large)
				s.settleAll(crowd / 5)
				s.same("archived", len(read[[]task](s, s.get("tasks?state=archived&taskClass=Small&limit=1000"))), min(1000, (n+1)*crowd/5))
				s.same("active", len(read[[]task](s, s.get("tasks?limit=1000"))), 5)
				s.eventually(func() bool { return s.api.Held() == 0 })
				if n == 0 {
					heap = s.heap()
				}
			}
			if grown := int64(s.heap()) - int64(heap) - int64(rounds*crowd*500); grown > 16<<20 {
				t.Errorf("the memory in use grew by %d bytes", grown)
			}
			if full := regexp.MustCompile(`.*"status":503.*`).FindString(s.logs.String()); full != "" {
				t.Logf("503 was answered: %s", full)
			}
			if bad := regexp.MustCompile(`"status":5(0[0-24-9]|[1-9])`).FindString(s.logs.String()); bad != "" {
				t.Errorf("the log has %s", bad)
			}
		})
	}
}

// heap answers the memory in use.
func (s *scene) heap() uint64 {
	http.DefaultClient.CloseIdleConnections()
	var stats runtime.MemStats
	for range 2 { // what has a finalizer is freed by the second
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// comes lets a crowd come and go.
func (s *scene) comes(crowd int, large string) {
	s.Helper()
	var all, others sync.WaitGroup
	others.Add(3 * crowd / 5)
	for i := range crowd {
		all.Go(func() {
			kind := i % 5
			if kind > 1 {
				defer others.Done()
			}
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				s.Error(err)
				return
			}
			defer conn.Close()
			if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil { // so that answers do not fit
				s.Error(err)
			}
			switch kind {
			case 0:
				fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", postHead, len(large), large[:len(large)/2])
				others.Wait()
			case 1:
				fmt.Fprint(conn, "GET /api/queue/tasks?data=1&taskClass=Large HTTP/1.1\r\nHost: localhost\r\n\r\n")
				others.Wait()
			case 2:
				s.untilServed(func() int { return s.readSlowly(conn) })
			case 3:
				s.sendMalformed(conn, uint64(i), 1)
			case 4:
				from := bufio.NewReader(conn)
				s.untilServed(func() int {
					status, _ := s.sendOn(conn, from, fmt.Sprintf(`{"taskClass":"Small","data":"%d"}`, i))
					return status
				})
			}
		})
	}
	all.Wait()
}

// untilServed makes a call again while the answer is that it cannot be served now.
func (s *scene) untilServed(call func() (status int)) {
	status := call()
	for status == http.StatusServiceUnavailable {
		status = call()
	}
	if status != http.StatusOK {
		s.Errorf("answered %d", status)
	}
}

const postHead = "POST /api/queue/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// sendOn posts a body on a connection and reads the answer.
func (s *scene) sendOn(conn net.Conn, from *bufio.Reader, body string) (status int, text []byte) {
	fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", postHead, len(body), body)
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		s.Error(err)
		return 0, nil
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		s.Error(err)
	}
	return answer.StatusCode, text
}

// readSlowly reads a large answer in small pieces.
func (s *scene) readSlowly(conn net.Conn) (status int) {
	fmt.Fprint(conn, "GET /api/queue/tasks?data=1&taskClass=Large&limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 256), nil)
	if err != nil {
		s.Error(err)
		return 0
	}
	defer answer.Body.Close()
	var shown struct{ Data []task }
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil || answer.StatusCode == http.StatusOK && len(shown.Data) != 1 {
		s.Errorf("who reads slowly got %d tasks: %v", len(shown.Data), err)
	}
	return answer.StatusCode
}

// sendMalformed sends bodies that are malformed, over one connection as long as
// the server keeps it.
func (s *scene) sendMalformed(conn net.Conn, seed uint64, bodies int) {
	random := rand.New(rand.NewPCG(3, seed))
	from := bufio.NewReader(conn)
	for range bodies {
		body := malformed(random) + "\x00" // so that it is
		if status, text := s.sendOn(conn, from, body); status != 400 && status != 413 {
			s.Errorf("%q was answered %d %s", body, status, text)
			return
		}
	}
}

// settleAll leases so many small tasks and completes them, ten callers at a time.
func (s *scene) settleAll(want int) {
	s.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	done := map[int64]int{}
	for i := range 10 {
		all.Go(func() {
			name := owner(fmt.Sprintf("worker-%d", i))
			for {
				leased := read[[]task](s, s.post("lease", `{"limit":5,"taskClasses":["Small"]}`, name))
				for _, t := range leased {
					s.ok(s.post("complete", held(t), name))
				}
				mu.Lock()
				for _, t := range leased {
					done[t.ID]++
				}
				over := len(done) >= want
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	all.Wait()
	for id, n := range done {
		if n != 1 {
			s.Errorf("task %d was leased %d times", id, n)
		}
	}
	s.same("settled", len(done), want)
}

// Malformed bodies come over real connections, ten at a time, to every store.
func TestMalformedBodiesOverConnectionsAreRefused(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			leaks(t)
			_, _, bodies := load(t)
			s := serve(t, backend.open(t))
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					s.sendMalformed(conn, uint64(i), bodies/10)
				})
			}
			all.Wait()
			s.same("active", len(read[[]task](s, s.get("tasks?limit=1000"))), 0)
			s.eventually(func() bool { return s.api.Held() == 0 })
		})
	}
}
