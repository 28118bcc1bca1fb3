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
	serving     sync.WaitGroup // connections

	mu       sync.Mutex
	over     bool
	conns    map[net.Conn]bool
	answered map[string]int
	heard    []*heard
}

// heard is a request, and what came behind it on its connection.
type heard struct {
	request contract.Request
	surplus []contract.Request
}

func newAudience(receivers map[string]contract.Receiver) *audience {
	life, end := context.WithCancel(context.Background())
	return &audience{receivers: receivers, life: life, end: end, conns: map[net.Conn]bool{}, answered: map[string]int{}}
}

const (
	// unheard is how long finish waits for a request of which only a part has come.
	// Whoever sent it is done by then and has closed its connections.
	unheard = 2 * time.Second

	// surplusTime is how long what follows a request is waited for, once the case
	// is over or the connection is to be reset. It was sent before, so it is here.
	surplusTime = 100 * time.Millisecond
)

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
	a.serving.Wait()
	var requests []contract.Request
	for _, h := range a.heard {
		requests = append(append(requests, h.request), h.surplus...)
	}
	return requests
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
	a.serving.Add(1)
	return true
}

func (a *audience) leave(conn net.Conn) {
	a.mu.Lock()
	delete(a.conns, conn)
	a.mu.Unlock()
	conn.Close()
	a.serving.Done()
}

// serve has a connection that joined. It reads one request, notes it and answers
// it. One request a connection says all there is to say, and leaves no connection
// for the next case; so whatever follows it is noted, and not answered.
func (a *audience) serve(name string, tcp *net.TCPConn) {
	defer a.leave(tcp)
	complete := sync.OnceFunc(a.reading.Done)
	defer complete()
	receiver, wanted := a.receivers[name]
	if !wanted {
		return
	}
	conn := net.Conn(tcp)
	if receiver.TLS {
		conn = tls.Server(tcp, &tls.Config{Certificates: []tls.Certificate{a.certificate}})
	}
	r := bufio.NewReader(conn)
	request, err := readRequest(r, conn)
	if err != nil {
		return // nobody heard it, like a server that never got it whole
	}
	request.Receiver = name
	h, answer := a.note(request)
	complete()
	soon := func() { _ = tcp.SetDeadline(time.Now().Add(surplusTime)) } // a closed one says so when it is read
	defer context.AfterFunc(a.life, soon)()
	switch goesOn := a.pause(answer.Delay); {
	case goesOn && answer.Reset:
		soon()
		defer tcp.SetLinger(0) // it fails on a connection that is gone already
	case goesOn:
		if !answer.Close {
			// What the client makes of an answer that it does not read is its own affair.
			_ = writeAnswer(conn, request.Method, answer)
		}
		if secure, ok := conn.(*tls.Conn); ok {
			_ = secure.CloseWrite()
		}
		_ = tcp.CloseWrite()
	}
	surplus, _ := io.ReadAll(io.LimitReader(r, maxHead+maxBody))
	h.surplus = surplusOf(name, string(surplus))
}

// note keeps a request and answers what to do with it.
func (a *audience) note(request contract.Request) (*heard, contract.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := &heard{request: request}
	a.heard = append(a.heard, h)
	answers := a.receivers[request.Receiver].Answers
	if len(answers) == 0 {
		return h, contract.Answer{}
	}
	i := min(a.answered[request.Receiver], len(answers)-1)
	a.answered[request.Receiver]++
	return h, answers[i]
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
