package gateway

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bare has the Phorge answer a call without reading its body first, or with
// bytes of its own.
func (p *phorge) bare(serve http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

// hijack answers the connection of a call.
func hijack(t *testing.T, w http.ResponseWriter) net.Conn {
	t.Helper()
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
	return connection
}

func TestAnswersArePassedOnAsTheyCome(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, length := range []string{"", "10"} {
		next := make(chan string)
		p.bare(func(w http.ResponseWriter, r *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			for {
				select {
				case piece, more := <-next:
					if !more {
						return
					}
					_, _ = io.WriteString(w, piece)
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		from, connection := g.raw(t, "GET /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nConnection: close\r\n\r\n")
		if length != "" {
			next <- "01234" // with the first bytes, the headers come
		}
		answer, err := http.ReadResponse(from, nil) // before there is a body
		if err != nil {
			t.Fatal(err)
		}
		pieces := []string{"01234", "56789"}
		if length == "" {
			next <- pieces[0]
		}
		for i, piece := range pieces {
			buffer := make([]byte, 5)
			if _, err := io.ReadFull(answer.Body, buffer); err != nil || string(buffer) != piece { // before the next is sent
				t.Fatalf("length %q: %q, %v", length, buffer, err)
			}
			if i == 0 {
				next <- pieces[1]
			}
		}
		close(next)
		if rest, err := io.ReadAll(answer.Body); len(rest) > 0 || err != nil {
			t.Errorf("length %q: %q, %v", length, rest, err)
		}
		_ = answer.Body.Close()
		_ = connection.Close()
	}
}

func TestCallsArePassedOnAsTheyCome(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	pieces := make(chan string)
	p.bare(func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 5)
		for range 3 {
			if _, err := io.ReadFull(r.Body, buffer); err != nil {
				return
			}
			select {
			case pieces <- string(buffer):
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, pong)
	})
	for _, framing := range []string{"Content-Length: 8015\r\n\r\n%s", "Transfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n"} {
		head, chunk, _ := strings.Cut(framing, "%s")
		start := ""
		if chunk != "" {
			start = "5\r\n"
		}
		from, connection := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nConnection: close\r\n"+strings.TrimSuffix(head, start))
		for _, piece := range []string{"01234", "56789", "abcde"} {
			_, _ = io.WriteString(connection, start+piece+chunk)
			if got := <-pieces; got != piece { // before the next is sent
				t.Fatalf("%q arrived, %q was sent", got, piece)
			}
		}
		if chunk != "" {
			_, _ = io.WriteString(connection, "0\r\n\r\n")
		} else {
			_, _ = io.WriteString(connection, strings.Repeat("x", 8000))
		}
		if got := readRaw(t, from); got.body != pong {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	}
}

// noise is a body of so many bytes that nobody keeps.
type noise struct {
	random *rand.ChaCha8
	left   int64
}

func newNoise(bytes int64) *noise { return &noise{rand.NewChaCha8([32]byte{1}), bytes} }

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.left)]
	n.left -= int64(len(p))
	return n.random.Read(p)
}

func TestLargeBodiesPassBothWaysWithoutBeingHeld(t *testing.T) {
	const size = 32 << 20
	p := newPhorge(t)
	c := configured(p.URL)
	g := start(t, c)
	p.bare(func(w http.ResponseWriter, r *http.Request) {
		sum := fnv.New64a()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Received", fmt.Sprintf("%d %x", n, sum.Sum64()))
		_, _ = io.Copy(w, newNoise(size))
	})
	sum := fnv.New64a()
	_, _ = io.Copy(sum, newNoise(size))
	wanted := fmt.Sprintf("%d %x", size, sum.Sum64())
	for _, length := range []int64{size, -1} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := g.call(t, "file.upload", "x")
		r.Body, r.ContentLength = io.NopCloser(newNoise(size)), length
		r.Header.Set("X-Service-Token", testToken)
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Get("X-Received"); got != wanted {
			t.Errorf("arrived: %s; sent: %s", got, wanted)
		}
		back := fnv.New64a()
		n, err := io.Copy(back, answer.Body)
		if got := fmt.Sprintf("%d %x", n, back.Sum64()); got != wanted || err != nil {
			t.Errorf("came back: %s, %v", got, err)
		}
		_ = answer.Body.Close()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > size/8 {
			t.Errorf("%d MiB were allocated for 2 bodies of %d MiB", got>>20, size>>20)
		}
	}
}

func TestACallLongerThanAllowedIsRefused(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.MaxBody = 1000
	g := start(t, c)
	for _, chunked := range []bool{false, true} {
		for size, status := range map[int]int{999: 200, 1000: 200, 1001: 413, 100_000: 413} {
			r := g.call(t, "user.whoami", strings.Repeat("x", size))
			if chunked {
				r.ContentLength = -1
			}
			got := g.send(t, r)
			if status == 413 {
				want(t, fmt.Sprintf("%d bytes, chunked %v", size, chunked), got, 413, codeCore)
			} else if got.status != 200 {
				t.Errorf("%d bytes, chunked %v: %d", size, chunked, got.status)
			}
		}
	}
}

func TestARefusalIsReadBeforeTheBodyIsSent(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, expect := range []string{"Expect: 100-continue\r\n", ""} {
		from, _ := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: wrong\r\nContent-Length: 1000000\r\n"+expect+"\r\n")
		want(t, "a body that does not come", readRaw(t, from), 401, codeAuth)
	}
}

func TestWhoExpectsContinueIsToldOnceThePhorgeIs(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	from, connection := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = from.ReadString('\n')
	_, _ = io.WriteString(connection, "a=b&c")
	if got := readRaw(t, from); got.body != pong {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if call := p.only(t); call.body != "a=b&c" {
		t.Errorf("%q arrived", call.body)
	}
}

// TestAnAnswerBeforeTheEndOfTheCallIsWhole is what a web server does that finds
// a call too long. The answer is longer than any buffer on the way.
func TestAnAnswerBeforeTheEndOfTheCallIsWhole(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	long := strings.Repeat("too long. ", 500_000)
	over := make(chan struct{})
	defer close(over)
	p.bare(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 10)
		connection := hijack(t, w)
		defer connection.Close()
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 413 Too Long\r\nContent-Length: %d\r\n\r\n%s", len(long), long)
		<-over
	})
	for _, framing := range []string{"Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n"} {
		from, _ := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n"+framing+strings.Repeat("x", 1000))
		// The rest never comes.
		got := readRaw(t, from)
		if got.status != 413 || got.body != long {
			t.Errorf("%q: answered %d and %d bytes", framing, got.status, len(got.body))
		}
		if _, err := from.ReadByte(); err == nil {
			t.Errorf("%q: the connection is used again, in the middle of a body", framing)
		}
	}
}

func TestAConnectionOfTheCallerServesManyCalls(t *testing.T) {
	p := newPhorge(t)
	c := configured(p.URL)
	c.Tokens[0].Deny = []string{"user.edit"}
	g := start(t, c)
	one := func(method string) string {
		return "POST /api/" + method + " HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: " + testToken + "\r\nContent-Length: 3\r\n\r\na=b"
	}
	from, connection := g.raw(t, "")
	for range 20 {
		_, _ = io.WriteString(connection, one("user.whoami"))
		if got := readRaw(t, from); got.body != pong {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
		_, _ = io.WriteString(connection, one("user.edit"))
		if got := readRaw(t, from); got.status != 403 {
			t.Fatalf("answered %d %s", got.status, got.body)
		}
	}
	for i, call := range p.all() {
		if call.body != "a=b" || call.uri != "/api/user.whoami" {
			t.Errorf("call %d is %v", i, call)
		}
	}
}

// TestACallIsNeverRepeated closes a connection that was used before without an
// answer, as a web server that restarts does, and net/http would call again.
func TestACallIsNeverRepeated(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	for _, verb := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
		var calls, connections int
		p.bare(func(w http.ResponseWriter, r *http.Request) {
			calls++
			if calls%2 == 0 {
				connections++
				_ = hijack(t, w).Close()
			}
		})
		call := func() reply {
			r := g.call(t, "user.whoami", "")
			r.Method = verb
			r.Header.Set("Idempotency-Key", "")
			return g.send(t, r)
		}
		if got := call(); got.status != 200 {
			t.Fatalf("%s: %d", verb, got.status)
		}
		if got := call(); got.status != 502 || calls != 2 {
			t.Errorf("%s: answered %d after %d calls, want 502 after 2", verb, got.status, calls)
		}
	}
}

func TestAPhorgeThatIsNotThereIs502WithoutItsName(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewUnstartedServer(nil)
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	go func() {
		for {
			connection, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(connection).ReadString('\n')
			_, _ = io.WriteString(connection, "this is secret and no HTTP\r\n\r\n")
			_ = connection.Close()
		}
	}()
	for name, url := range map[string]string{
		"nobody listens": closed.URL, "no such host": "http://phorge.invalid", "an unknown certificate": secure.URL,
		"TLS to a server without": strings.Replace(closed.URL, "http:", "https:", 1), "no HTTP": "http://" + garbage.Addr().String(),
	} {
		g := start(t, configured(url))
		for _, body := range []string{"", "params={}"} {
			got := g.send(t, g.call(t, "user.whoami", body))
			want(t, name, got, 502, codeProxy)
			for _, told := range []string{"127.0.0.1", "invalid", "dial", "x509", "tcp", "secret", "malformed"} {
				if strings.Contains(got.body, told) {
					t.Errorf("%s: the answer has %q: %s", name, told, got.body)
				}
			}
		}
	}
}

func TestCompressedAnswersStayAsTheyAre(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, pong)
	_ = w.Close()
	p.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, packed.String())
	})
	if got := g.send(t, g.call(t, "user.whoami", "")); got.body != packed.String() || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("answered %v, %d bytes", got.header, len(got.body))
	}
}

func TestTwoProtocolsNeverDisagreeAboutWhereACallEnds(t *testing.T) {
	const second = "GET /api/second.call HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: " + testToken + "\r\n\r\n"
	for name, c := range map[string]struct {
		head, body string
		served     bool
	}{
		"two lengths":                {"Content-Length: 3\r\nContent-Length: 5\r\n", "a=b" + second, false},
		"lengths in one header":      {"Content-Length: 3, 5\r\n", "a=b" + second, false},
		"a signed length":            {"Content-Length: +3\r\n", "a=b" + second, false},
		"a negative length":          {"Content-Length: -3\r\n", "a=b" + second, false},
		"a length in hexadecimal":    {"Content-Length: 0x3\r\n", "a=b" + second, false},
		"chunks, and a space before": {"Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + second, false},
		"an unknown encoding":        {"Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + second, false},
		"two encodings":              {"Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n" + second, false},
		"two encodings, two headers": {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + second, false},
		"a header in two lines":      {"X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "a=b", true},
		"a header with a bare CR":    {"X-A: b\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + second, false},
		"a header without a colon":   {"Transfer-Encoding chunked\r\n", "0\r\n\r\n" + second, false},
		"two Hosts":                  {"Host: other\r\n", second, false},
		"chunks and a length":        {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "3\r\na=b\r\n0\r\n\r\n" + second, true},
		"a chunk with a sign":        {"Transfer-Encoding: chunked\r\n", "+3\r\na=b\r\n0\r\n\r\n" + second, false},
		"a chunk with an extension":  {"Transfer-Encoding: chunked\r\n", "3;x=\"\r\na=b\r\n0\r\n\r\n" + second, true},
		"a chunk ended by a bare LF": {"Transfer-Encoding: chunked\r\n", "3\na=b\n0\r\n\r\n" + second, false},
		"chunks with trailers":       {"Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-For\r\n", "3\r\na=b\r\n0\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n" + second, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPhorge(t)
			g := start(t, configured(p.URL))
			from, connection := g.raw(t, "POST /api/first.call HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n"+c.head+"\r\n"+c.body)
			defer connection.Close()
			got := readRaw(t, from)
			if (got.status == 200) != c.served {
				t.Fatalf("answered %d %s", got.status, got.body)
			}
			if strings.Contains(c.body, second) {
				if _, err := from.ReadByte(); err == nil {
					t.Error("another call was served on the connection")
				}
			}
			for _, call := range p.all() {
				if call.uri != "/api/first.call" || c.served && call.body != "a=b" || call.header.Get("X-Forwarded-For") != "127.0.0.1" || call.header["Content-Length"] != nil && call.chunked {
					t.Errorf("the Phorge got %+v", call)
				}
			}
			if n := len(p.all()); c.served && n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// Somebody on the way who goes by the length has passed the second call on as the
// body of one that anybody may make.
func TestARefusedCallInChunksIsTheLastOnItsConnection(t *testing.T) {
	g := start(t, configured(newPhorge(t).URL))
	const second = "GET /api/second.call HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: " + testToken + "\r\n\r\n"
	for name, head := range map[string]string{
		"no token": "POST /api/first.call HTTP/1.1\r\nHost: gateway\r\n",
		"no path":  "POST /first HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: " + testToken + "\r\n",
	} {
		from, connection := g.raw(t, head+"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\na=b\r\n0\r\n\r\n"+second)
		if got := readRaw(t, from); got.status < 400 || got.status > 499 {
			t.Errorf("%s: answered %d %s", name, got.status, got.body)
		}
		if _, err := from.ReadByte(); err == nil {
			t.Errorf("%s: another call was served on the connection", name)
		}
		connection.Close()
	}
}

// FuzzCall sends what may be a call, and holds the gateway to serving what it
// serves as one call, with the token out of it.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{
		"POST /api/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\na=b", "POST /api/x HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n",
		"GET /api/x?a HTTP/1.0\r\n\r\n", "POST /api/x HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\na", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /api/x HTTP/1.1\r\nHost: g\r\nUpgrade: h2c\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n", "POST /api/x HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := newPhorge(t)
		c := configured(p.URL)
		c.Stall = 50 * time.Millisecond // of a body that does not come
		g := start(t, c)
		line, rest, is := strings.Cut(string(text), "\n")
		if !is {
			return
		}
		from, connection := g.raw(t, line+"\nX-Service-Token: "+testToken+"\r\n"+rest)
		_ = connection.(*net.TCPConn).CloseWrite()
		answer, err := http.ReadResponse(from, nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		if err == nil && answer.StatusCode >= 500 && answer.StatusCode != 505 && answer.StatusCode != 501 {
			t.Fatalf("answered %s", answer.Status)
		}
		for _, call := range p.all() {
			if strings.Contains(fmt.Sprint(call.uri, call.header), testToken) || !strings.HasPrefix(call.uri, "/api/") ||
				call.header.Get("X-Forwarded-For") != "127.0.0.1" || call.header["Upgrade"] != nil {
				t.Fatalf("the Phorge got %+v", call)
			}
		}
	})
}
