package stage

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/contract"
)

// audience is the receivers of one case, and what they heard.
type audience struct {
	receivers   map[string]contract.Receiver
	certificate tls.Certificate
	life        context.Context
	end         context.CancelFunc
	reading     sync.WaitGroup // connections whose request is not complete

	mu       sync.Mutex
	over     bool
	conns    map[net.Conn]bool
	answered map[string]int
	requests []contract.Request
}

func newAudience(receivers map[string]contract.Receiver) *audience {
	life, end := context.WithCancel(context.Background())
	return &audience{receivers: receivers, life: life, end: end, conns: map[net.Conn]bool{}, answered: map[string]int{}}
}

// unheard is how long finish waits for a request of which only a part has come.
// Whoever sent it is done by then and has closed its connections.
const unheard = 2 * time.Second

// finish cuts the connections and answers the requests.
func (a *audience) finish() []contract.Request {
	a.mu.Lock()
	a.over = true
	for conn := range a.conns {
		_ = conn.SetReadDeadline(time.Now().Add(unheard)) // a closed one says so when it is read
	}
	a.mu.Unlock()
	a.reading.Wait()
	a.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.conns {
		conn.Close()
	}
	return a.requests
}

// join takes a connection in, unless the case is over.
func (a *audience) join(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.conns[conn] = true
	a.reading.Add(1)
	return true
}

func (a *audience) leave(conn net.Conn) {
	a.mu.Lock()
	delete(a.conns, conn)
	a.mu.Unlock()
	conn.Close()
}

// serve has a connection that joined. It reads one request, notes it and answers it. One request a connection
// says all there is to say, and leaves no connection for the next case.
func (a *audience) serve(name string, tcp *net.TCPConn) {
	defer a.leave(tcp)
	heard := sync.OnceFunc(a.reading.Done)
	defer heard()
	receiver, wanted := a.receivers[name]
	if !wanted {
		return
	}
	conn := net.Conn(tcp)
	if receiver.TLS {
		conn = tls.Server(tcp, &tls.Config{Certificates: []tls.Certificate{a.certificate}})
	}
	request, err := readRequest(bufio.NewReader(conn), conn)
	if err != nil {
		return // nobody heard it, like a server that never got it whole
	}
	request.Receiver = name
	answer := a.note(request)
	heard()
	if !a.pause(answer.Delay) {
		return
	}
	switch {
	case answer.Reset:
		_ = tcp.SetLinger(0) // it fails on a connection that is gone already
	case answer.Close:
		conn.Close()
	default:
		// What the client makes of an answer that it does not read is its own affair.
		_ = writeAnswer(conn, request.Method, answer)
		conn.Close()
	}
}

// note keeps a request and answers what to do with it.
func (a *audience) note(request contract.Request) contract.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, request)
	answers := a.receivers[request.Receiver].Answers
	if len(answers) == 0 {
		return contract.Answer{}
	}
	i := min(a.answered[request.Receiver], len(answers)-1)
	a.answered[request.Receiver]++
	return answers[i]
}

// pause waits, and reports whether the case still goes on.
func (a *audience) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.life.Done():
		return false
	}
}

// writeAnswer writes an answer whose length is told by Content-Length, unless
// the case says otherwise.
func writeAnswer(w io.Writer, method string, answer contract.Answer) error {
	status := answer.Status
	if status == 0 {
		status = http.StatusOK
	}
	headers := map[string]string{}
	body := answer.Body
	if status != http.StatusNoContent && status != http.StatusNotModified {
		headers["Content-Length"] = fmt.Sprint(len(body))
	} else {
		body = ""
	}
	if method == http.MethodHead {
		body = ""
	}
	headers["Connection"] = "close"
	for name, value := range answer.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, headers[name])
	}
	b.WriteString("\r\n" + body)
	_, err := io.WriteString(w, b.String())
	return err
}
