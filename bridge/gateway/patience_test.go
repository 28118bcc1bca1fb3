package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// impatient has time limits that what never comes runs into at once.
func impatient(url string, stage func(*Config) *time.Duration) Config {
	c := configured(url)
	*stage(&c) = 20 * time.Millisecond
	return c
}

func stall(c *Config) *time.Duration  { return &c.Stall }
func answer(c *Config) *time.Duration { return &c.Answer }

func TestAPhorgeThatIsTooSlowIs502(t *testing.T) {
	p := newPhorge(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for name, c := range map[string]struct {
		stage func(*Config) *time.Duration
		body  io.Reader
		serve http.HandlerFunc
	}{
		"in answering a call": {answer, nil, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}},
		"in answering a call with a body": {answer, strings.NewReader("a=b"), func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		"in reading a body": {stall, newNoise(64 << 20), func(w http.ResponseWriter, r *http.Request) {
			connection := hijack(t, w)
			defer connection.Close()
			<-over
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, impatient(p.URL, c.stage))
			p.bare(c.serve)
			r := g.call(t, "user.whoami", "")
			if c.body != nil {
				r.Method, r.Body, r.ContentLength = "POST", io.NopCloser(c.body), -1
			}
			want(t, name, g.send(t, r), 502, codeProxy)
			g.Server.Close()
			if !strings.Contains(g.logged.String(), errLate.Error()) {
				t.Errorf("logged %s", g.logged)
			}
		})
	}
}

func TestAnAnswerThatStopsIsNeverTakenForWhole(t *testing.T) {
	p := newPhorge(t)
	for name, answer := range map[string]string{
		"chunks":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
		"a length":     "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234",
		"broken chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\nxyz\r\n",
	} {
		for _, closes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, closed %v", name, closes), func(t *testing.T) {
				g := start(t, impatient(p.URL, stall))
				over := make(chan struct{})
				defer close(over)
				p.bare(func(w http.ResponseWriter, _ *http.Request) {
					connection := hijack(t, w)
					defer connection.Close()
					_, _ = io.WriteString(connection, answer)
					if !closes {
						<-over
					}
				})
				from, _ := g.raw(t, "GET /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n\r\n")
				got, err := http.ReadResponse(from, nil)
				if err != nil {
					return // it came to nothing at all, which is as good
				}
				text, err := io.ReadAll(got.Body)
				if err == nil {
					t.Errorf("%q was passed on as whole", text)
				}
				if strings.Contains(string(text), "ERR-") {
					t.Errorf("an envelope follows the answer: %q", text)
				}
			})
		}
	}
}

func TestACallerThatIsTooSlowHoldsNothing(t *testing.T) {
	p := newPhorge(t)
	t.Run("in sending a body", func(t *testing.T) {
		g := start(t, impatient(p.URL, stall))
		for _, framing := range []string{"Content-Length: 10\r\n\r\n01234", "Transfer-Encoding: chunked\r\n\r\n5\r\n012", "Content-Length: 1\r\n\r\n"} {
			from, _ := g.raw(t, "POST /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n"+framing)
			want(t, framing, readRaw(t, from), 400, codeCore)
			if _, err := from.ReadByte(); err == nil {
				t.Errorf("%q: the connection is used again, in the middle of a body", framing)
			}
		}
	})
	t.Run("in reading the answer", func(t *testing.T) {
		g := start(t, impatient(p.URL, stall))
		ended := make(chan error, 1)
		p.bare(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.Copy(w, newNoise(1<<30))
			ended <- err
		})
		_, connection := g.raw(t, "GET /api/user.whoami HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\n\r\n")
		defer connection.Close()
		if err := <-ended; err == nil {
			t.Error("the whole answer went nowhere")
		}
		harness.Eventually(t, "the line of the call", func() bool {
			// On a machine that is busy enough the Phorge is slower still.
			return strings.Contains(g.logged.String(), "did not read on in time") || strings.Contains(g.logged.String(), errLate.Error())
		})
	})
	t.Run("in sending what is refused", func(t *testing.T) {
		g := start(t, configured(p.URL))
		from, _ := g.raw(t, "POST /api/ HTTP/1.1\r\nHost: gateway\r\nX-Service-Token: "+testToken+"\r\nContent-Length: 10\r\n\r\n01234")
		want(t, "half a body", readRaw(t, from), 404, codeCore)
	})
}

func TestAnAnswerMayTakeLongerThanABodyMayPause(t *testing.T) {
	p := newPhorge(t)
	c := impatient(p.URL, stall)
	c.Connect = DefaultConnect
	g := start(t, c)
	p.bare(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(5 * c.Stall): // PHP works
			_, _ = io.WriteString(w, pong)
		case <-r.Context().Done():
		}
	})
	if got := g.send(t, g.call(t, "user.whoami", "a=b")); got.status != 200 || got.body != pong {
		t.Errorf("answered %d %s", got.status, got.body)
	}
}

func TestACallerThatLeavesEndsTheCall(t *testing.T) {
	p := newPhorge(t)
	g := start(t, configured(p.URL))
	reached, ended := make(chan struct{}), make(chan struct{})
	p.bare(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(reached)
		<-r.Context().Done()
		close(ended)
	})
	ctx, leave := context.WithCancel(t.Context())
	r := g.call(t, "user.whoami", "a=b").WithContext(ctx)
	r.Header.Set("X-Service-Token", testToken)
	go func() { <-reached; leave() }()
	if _, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r); err == nil {
		t.Error("a call that was left was answered")
	}
	<-ended
	harness.Eventually(t, "the line of the call", func() bool {
		return strings.Contains(g.logged.String(), `"status":499`) && strings.Contains(g.logged.String(), "the caller left")
	})
}
