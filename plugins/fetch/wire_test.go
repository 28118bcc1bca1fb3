package fetch

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a receiver that answers by bytes. It notes what it gets.
type server struct {
	net.Listener
	answer func(request string, conn *net.TCPConn) (more bool)

	mu       sync.Mutex
	requests []string
}

// serve starts a server whose answers are given by the path of the request.
func serve(t *testing.T, answer func(request string, conn *net.TCPConn) (more bool)) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: listener, answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.talk(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return s
}

func (s *server) talk(conn *net.TCPConn) {
	defer conn.Close()
	for reader := bufio.NewReader(conn); ; {
		request, err := read(reader)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, request)
		s.mu.Unlock()
		if !s.answer(request, conn) {
			return
		}
	}
}

// read reads one request, byte for byte.
func read(r *bufio.Reader) (string, error) {
	var request strings.Builder
	length := 0
	for {
		line, err := r.ReadString('\n')
		request.WriteString(line)
		if err != nil {
			return "", err
		}
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
		if line == "\r\n" {
			break
		}
	}
	_, err := io.CopyN(&request, r, int64(length))
	return request.String(), err
}

func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *server) url(path string) string { return "http://" + s.Addr().String() + path }

// itself is a transport that is used as it is.
func itself(rt http.RoundTripper) http.RoundTripper { return rt }

func post(t *testing.T, r Request) Status {
	t.Helper()
	r.Method = "POST"
	if r.Timeout == 0 {
		r.Timeout = 10 * time.Second
	}
	status, err := Do(t.Context(), itself, r)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// say answers every request with the same bytes, and then closes.
func say(text string) func(string, *net.TCPConn) bool {
	return func(_ string, conn *net.TCPConn) bool {
		io.WriteString(conn, text)
		return false
	}
}

func reset(conn *net.TCPConn) bool {
	conn.SetLinger(0)
	return false
}

func TestTheBytesOfARequestAreThoseOfHTTPSFuture(t *testing.T) {
	s := serve(t, say(ok))
	post(t, Request{URL: s.url("/é?a=é#f"), Body: "{}\n", Headers: []Header{
		{Name: "Content-Type", Value: "application/json"}, {Name: "X-Phabricator-Webhook-Signature", Value: "sig"}}})
	post(t, Request{URL: strings.Replace(s.url("?q"), "http://", "http://u:p@", 1), Body: "a=b"})
	host := s.Addr().String()
	for i, want := range []string{
		"POST /%c3%a9?a=é HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: " + userAgent + "\r\nAccept: */*\r\n" +
			"Content-Type: application/json\r\nX-Phabricator-Webhook-Signature: sig\r\nAccept-Encoding: gzip\r\nContent-Length: 3\r\n\r\n{}\n",
		"POST /?q HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Basic dTpw\r\nUser-Agent: " + userAgent + "\r\nAccept: */*\r\n" +
			"Accept-Encoding: gzip\r\nContent-Length: 3\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\na=b",
	} {
		if got := s.got()[i]; got != want {
			t.Errorf("sent\n%q\nHTTPSFuture sends\n%q", got, want)
		}
	}
}

// What is wanted is what HTTPSFuture made of these bytes, on PHP 8.2 and
// libcurl 7.88.
func TestResponsesMeanWhatTheyMeanToHTTPSFuture(t *testing.T) {
	zipped := func(cut int, more string) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		io.WriteString(z, strings.Repeat("hi", 1000))
		z.Close()
		body := b.String()[:b.Len()-cut] + more
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	long := strings.Repeat("a", 90000)
	for _, c := range []struct {
		name, response string
		want           Status
	}{
		{"a length", "HTTP/1.1 201 X\r\nContent-Length: 2\r\n\r\nok", Status{HTTP, 201}},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nhello", Status{HTTP, 200}},
		{"an older version", "HTTP/1.0 200 OK\r\n\r\nhello", Status{HTTP, 200}},
		{"a version that is not spoken", "HTTP/2 200\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 200}},
		{"a version that is none", "HTTP/1.2 200 OK\r\n\r\n", Status{CURL, 1}},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 200}},
		{"lines without a return", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", Status{HTTP, 200}},
		{"a status of 999", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 999}},
		{"a status of 99", "HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n", Status{CURL, 1}},
		{"a status of 1000", "HTTP/1.1 1000 X\r\nContent-Length: 0\r\n\r\n", Status{CURL, 1}},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Status{HTTP, 204}},
		{"continue twice", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Status{HTTP, 204}},
		{"early hints", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Status{HTTP, 103}},
		{"another protocol", "HTTP/1.1 101 Switching\r\n\r\nabc", Status{HTTP, 101}},
		{"another protocol, and nothing more", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", Status{CURL, 52}},
		{"a version of another protocol", "HTTP/3 200 OK\r\nContent-Length: 0\r\n\r\n", Status{CURL, 1}},
		{"a version with its half", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 200}},
		{"half a status line", "HTTP/1.1 200 O", Status{CURL, 52}},
		{"a letter", "H", Status{CURL, 52}},
		{"processing, and nothing more", "HTTP/1.1 102 Processing\r\n\r\n", Status{CURL, 52}},
		{"nothing", "", Status{CURL, 52}},
		{"no HTTP", "hello", Status{CURL, 1}},
		{"lines that are no HTTP", "garbage\r\n\r\nabc", Status{CURL, 1}},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", Status{Parse, 1}},
		{"a status line", "HTTP/1.1 200 OK\r\n", Status{Parse, 1}},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", Status{CURL, 18}},
		{"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", Status{CURL, 18}},
		{"a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n", Status{CURL, 56}},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n", Status{HTTP, 200}},
		{"chunks of gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Status{HTTP, 200}},
		{"an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: foo\r\n\r\nabc", Status{CURL, 61}},
		{"a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nab", Status{CURL, 8}},
		{"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\nab", Status{CURL, 8}},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", Status{HTTP, 200}},
		{"the last of two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab", Status{CURL, 18}},
		{"a length that is none behind one", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: x\r\n\r\nab", Status{CURL, 8}},
		{"a length beside chunks that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n", Status{CURL, 8}},
		{"a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nab", Status{HTTP, 200}},
		{"a list of lengths that is too long", "HTTP/1.1 200 OK\r\nContent-Length: 3, 2\r\n\r\nab", Status{CURL, 18}},
		{"a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab", Status{HTTP, 200}},
		{"a length with more behind it", "HTTP/1.1 200 OK\r\nContent-Length: 4x\r\n\r\nab", Status{CURL, 18}},
		{"a hexadecimal length", "HTTP/1.1 200 OK\r\nContent-Length: 0x4\r\n\r\nab", Status{HTTP, 200}},
		{"an empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nab", Status{CURL, 8}},
		{"identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nok", Status{HTTP, 200}},
		{"identity, then chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Status{HTTP, 200}},
		{"identity, then half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no", Status{CURL, 18}},
		{"chunks in an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: foo, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Status{CURL, 61}},
		{"nothing in an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: foo\r\n\r\n", Status{HTTP, 200}},
		{"chunks without returns", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\nX: y\n\n", Status{HTTP, 200}},
		{"chunks with extensions", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;a\r\nok\r\n0\r\n\r\n", Status{HTTP, 200}},
		{"a chunk that is longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n", Status{CURL, 56}},
		{"a chunk of no length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", Status{CURL, 56}},
		{"a chunk beyond all bounds", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok\r\n0\r\n\r\n", Status{CURL, 56}},
		{"chunks, and no end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n", Status{CURL, 18}},
		{"chunks, and half an end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r", Status{HTTP, 200}},
		{"chunks, and no header", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX\r\n\r\n", Status{CURL, 43}},
		{"a folded first header", "HTTP/1.1 200 OK\r\n x\r\nContent-Length: 0\r\n\r\n", Status{CURL, 8}},
		{"a header without a colon", "HTTP/1.1 200 OK\r\nnocolon\r\nContent-Length: 0\r\n\r\n", Status{CURL, 8}},
		{"a header with a null byte", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n", Status{CURL, 8}},
		{"a folded header", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 200}},
		{"a header that is too long", "HTTP/1.1 200 OK\r\nX: " + long + long + "\r\n\r\n", Status{CURL, 27}},
		{"too many headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+long+"\r\n", 4) + "\r\n", Status{CURL, 56}},
		{"a body where none may be", "HTTP/1.1 204 OK\r\nContent-Length: 5\r\n\r\nhello", Status{HTTP, 204}},
		{"gzip", zipped(0, ""), Status{HTTP, 200}},
		{"gzip with more behind it", zipped(0, "xxxx"), Status{HTTP, 200}},
		{"gzip without its end", zipped(6, ""), Status{Parse, 1}},
		{"gzip that is none", "HTTP/1.1 500 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", Status{Parse, 1}},
		{"gzip that is empty", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", Status{Parse, 1}},
		{"GZIP", "HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\nContent-Length: 2\r\n\r\nhi", Status{HTTP, 200}},
		{"a redirect to nowhere", "HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 302}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, say(c.response))
			if got := post(t, Request{URL: s.url("/")}); got != c.want {
				t.Errorf("%v, HTTPSFuture says %v", got, c.want)
			}
		})
	}
}

// The left column of the row in DEVIATIONS.md is what HTTPSFuture made of these.
func TestAnswersThatNobodyGivesMeanSomethingElse(t *testing.T) {
	for _, c := range []struct {
		name, response string
		want           Status
	}{
		{"what is no gzip in a transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Status{HTTP, 200}},
		{"a first line in small letters", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Status{CURL, 1}},
		{"two spaces", "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", Status{CURL, 1}},
		{"a header of 99 kB", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 99000) + "\r\nContent-Length: 0\r\n\r\n", Status{HTTP, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, say(c.response))
			if got := post(t, Request{URL: s.url("/")}); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestFailuresHaveTheNumbersOfCurl(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	silent := serve(t, func(_ string, conn *net.TCPConn) bool {
		io.Copy(io.Discard, conn)
		return false
	})
	plain, secure := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer plain.Close()
	defer secure.Close()
	at := plain.Listener.Addr().String()
	cut := serve(t, func(_ string, conn *net.TCPConn) bool { return reset(conn) })
	half := serve(t, func(_ string, conn *net.TCPConn) bool {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok")
		io.Copy(io.Discard, conn)
		return false
	})
	for _, c := range []struct {
		name, url string
		want      int
		timeout   time.Duration
	}{
		{"a space in the path", plain.URL + "/a b", 3, 0},
		{"a control character", plain.URL + "/a\x01b", 3, 0},
		{"a login with a null byte", "http://u%00:p@" + at, 3, 0},
		{"two logins", "http://a@b@" + at, 3, 0},
		{"a port that is none", "http://127.0.0.1:8a/", 3, 0},
		{"a name that nobody has", "http://nosuch.invalid/", 6, 0},
		{"a port where nobody listens", "http://" + closed, 7, 0},
		{"silence", silent.url("/"), 28, 50 * time.Millisecond},
		{"half a body and silence", half.url("/"), 28, 50 * time.Millisecond},
		{"TLS where there is none", "https://" + at, 35, 0},
		{"a certificate that nobody trusts", secure.URL, 60, 0},
		{"a reset", cut.url("/"), 56, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := post(t, Request{URL: c.url, Timeout: c.timeout})
			if want := (Status{CURL, c.want}); got != want {
				t.Errorf("%v, HTTPSFuture says %v", got, want)
			}
			if got.IsTimeout() != (c.want == 28) {
				t.Errorf("a timeout: %v", got.IsTimeout())
			}
		})
	}
}

func TestAnEndedContextIsNoStatus(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ string, conn *net.TCPConn) bool {
		cancel()
		io.Copy(io.Discard, conn)
		return false
	})
	if status, err := Do(ctx, itself, Request{Method: "POST", URL: s.url("/"), Timeout: time.Minute}); err != context.Canceled {
		t.Errorf("%v, %v", status, err)
	}
}

// TestTrustIsThatOfTheSystem runs itself in a process whose system trusts the
// receiver.
func TestTrustIsThatOfTheSystem(t *testing.T) {
	if url := os.Getenv("FETCH_TEST_URL"); url != "" {
		if status := post(t, Request{URL: url}); status != (Status{HTTP, 200}) {
			t.Error(status)
		}
		return
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "authority.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	itself := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTrustIsThatOfTheSystem$")
	itself.Env = append(os.Environ(), "SSL_CERT_FILE="+file, "FETCH_TEST_URL="+s.URL)
	if out, err := itself.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
