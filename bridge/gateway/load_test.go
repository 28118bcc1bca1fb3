package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyConnectionsAtOnceAreServedEach has some callers that go on, some that
// send half a body and some that do not read. TestMain sees what they leave.
func TestManyConnectionsAtOnceAreServedEach(t *testing.T) {
	const connections, calls = 500, 10
	p := newPhorge(t)
	c := configured(p.URL)
	c.Stall = 5 * time.Second
	g := start(t, c)
	p.bare(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = w.Write(text)
		}
	})
	head := "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: " + testToken + "\r\nContent-Length: %d\r\n\r\n%s"
	var wait sync.WaitGroup
	for i := range connections {
		wait.Go(func() {
			connection, err := net.Dial("tcp", g.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			_ = connection.SetDeadline(time.Now().Add(patience))
			switch i % 5 {
			case 3: // half a body
				_, _ = fmt.Fprintf(connection, head, 100, "half")
				return
			case 4: // an answer that is not read
				_, _ = fmt.Fprintf(connection, head, 1<<20, strings.Repeat("x", 1<<20))
				return
			}
			from := bufio.NewReader(connection)
			for j := range calls {
				text := fmt.Sprintf("call %d of %d", j, i)
				_, _ = fmt.Fprintf(connection, head, len(text), text)
				answer, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				got, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if string(got) != text || err != nil || answer.StatusCode != 200 {
					t.Errorf("%s: answered %d %q, %v", text, answer.StatusCode, got, err)
					return
				}
			}
		})
	}
	wait.Wait()
}
