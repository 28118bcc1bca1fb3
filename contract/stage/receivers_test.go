package stage

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/plugins"
)

// hear has bytes sent to the receivers of a world, and answers what came back
// and what the receivers noted.
func hear(t *testing.T, receivers map[string]contract.Receiver, do func(t *testing.T, address map[string]string)) []contract.Request {
	t.Helper()
	r := newReceivers()
	defer r.Close()
	world := contract.World{Receivers: receivers}
	addresses, err := r.open(world)
	if err != nil {
		t.Fatal(err)
	}
	addresses["{{closed}}"] = r.closed
	audience := r.begin(world)
	do(t, addresses)
	heard, err := r.finish(audience)
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

// exchange sends bytes and answers all that comes back.
func exchange(t *testing.T, address, request string) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestRequestsAreNotedAsTheyAreOnTheWire(t *testing.T) {
	for _, c := range []struct {
		name, wire string
		want       contract.Request
	}{
		{"headers and body",
			"POST /a%2Fb?x=1&y=%zz HTTP/1.1\r\nHost: h\r\nx-phabricator-webhook-SIGNATURE:  s g \r\nAccept: */*\r\nContent-Length: 3\r\n\r\n\x00\xff\n",
			contract.Request{Method: "POST", Target: "/a%2Fb?x=1&y=%zz", Body: "\x00\xff\n", Order: "Host, x-phabricator-webhook-SIGNATURE, Accept, Content-Length", Headers: map[string]string{
				"Host": "h", "X-Phabricator-Webhook-Signature": " s g ", "Accept": "*/*", "Content-Length": "3",
			}}},
		{"headers that net/http keeps for itself, and one twice",
			"GET http://h/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTrailer: T\r\nA: 1\r\nA: 2\r\n\r\n",
			contract.Request{Method: "GET", Target: "http://h/", Order: "Host, Connection, Trailer, A, A", Headers: map[string]string{
				"Host": "h", "Connection": "close", "Trailer": "T", "A": "1, 2",
			}}},
		{"a body in chunks",
			"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nab\r\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
			contract.Request{Method: "PUT", Target: "/", Body: "ab\r0123456789", Order: "Transfer-Encoding", Headers: map[string]string{"Transfer-Encoding": "chunked"}}},
		{"a target with spaces",
			"GET /a b HTTP/1.0\n\n",
			contract.Request{Method: "GET", Target: "/a b", Version: "HTTP/1.0", Headers: map[string]string{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hear(t, map[string]contract.Receiver{"a": {}}, func(t *testing.T, address map[string]string) {
				if answer, err := exchange(t, address["a"], c.wire); err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\n") {
					t.Errorf("answered %q, %v", answer, err)
				}
			})
			c.want.Receiver = "a"
			if diff := cmp.Diff([]contract.Request{c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhatFollowsARequestOnItsConnectionIsNoted: a handler that sends everything
// twice, or more than it says, is heard however its connection ends, and whether
// or not it closes it.
func TestWhatFollowsARequestOnItsConnectionIsNoted(t *testing.T) {
	post := "POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"
	sent := contract.Request{Receiver: "a", Method: "POST", Target: "/x", Order: "Content-Length", Headers: map[string]string{"Content-Length": "2"}, Body: "ab"}
	behind := contract.Request{Receiver: "a", Headers: map[string]string{}, Body: "c\r\n"}
	for _, c := range []struct {
		name   string
		answer contract.Answer
		wire   string
		want   []contract.Request
	}{
		{"nothing", contract.Answer{}, post, []contract.Request{sent}},
		{"the request again", contract.Answer{}, post + post, []contract.Request{sent, sent}},
		{"bytes that are no request", contract.Answer{}, post + "c\r\n", []contract.Request{sent, behind}},
		{"both", contract.Answer{}, post + post + "c\r\n", []contract.Request{sent, sent, behind}},
		{"the request again, and no answer", contract.Answer{Close: true}, post + post, []contract.Request{sent, sent}},
		{"the request again, and a reset", contract.Answer{Reset: true}, post + post, []contract.Request{sent, sent}},
		{"the request again, and an answer too late", contract.Answer{Delay: time.Hour}, post + post, []contract.Request{sent, sent}},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, open %v", c.name, open), func(t *testing.T) {
				receivers := map[string]contract.Receiver{"a": {Answers: []contract.Answer{c.answer, {Status: 500}}}}
				got := hear(t, receivers, func(t *testing.T, address map[string]string) {
					conn, err := net.Dial("tcp", address["a"])
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { conn.Close() })
					if _, err := io.WriteString(conn, c.wire); err != nil {
						t.Fatal(err)
					}
					if c.answer.Delay == 0 {
						_, _ = io.ReadAll(conn) // until it is over; of a reset the error says so
					}
					if !open {
						conn.Close()
					}
				})
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestAnswersAreGivenInTurn(t *testing.T) {
	receivers := map[string]contract.Receiver{"a": {Answers: []contract.Answer{
		{Status: 302, Headers: map[string]string{"location": "http://h/"}},
		{Status: 204},
		{Status: 599, Body: "no\n", Headers: map[string]string{"Content-Length": "99"}},
	}}}
	want := []string{
		"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: http://h/\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 599 \r\nConnection: close\r\nContent-Length: 99\r\n\r\nno\n",
		"HTTP/1.1 599 \r\nConnection: close\r\nContent-Length: 99\r\n\r\nno\n",
	}
	got := hear(t, receivers, func(t *testing.T, address map[string]string) {
		for i := range want {
			answer, err := exchange(t, address["a"], "POST / HTTP/1.1\r\n\r\n")
			if err != nil || answer != want[i] {
				t.Errorf("answer %d: %q, %v, want %q", i+1, answer, err, want[i])
			}
		}
	})
	if len(got) != len(want) {
		t.Errorf("%d requests", len(got))
	}
}

func TestConnectionsEndAsTheCaseSays(t *testing.T) {
	get := "GET / HTTP/1.1\r\n\r\n"
	heard := hear(t, map[string]contract.Receiver{
		"reset": {Answers: []contract.Answer{{Reset: true}}},
		"close": {Answers: []contract.Answer{{Close: true}}},
		"tls":   {TLS: true},
	}, func(t *testing.T, address map[string]string) {
		if answer, err := exchange(t, address["reset"], get); answer != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reset: %q, %v", answer, err)
		}
		if answer, err := exchange(t, address["close"], get); answer != "" || err != nil {
			t.Errorf("close: %q, %v", answer, err)
		}
		if _, err := net.Dial("tcp", address["{{closed}}"]); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed: %v", err)
		}
		if _, err := http.Get("https://" + address["tls"]); !errors.As(err, new(*tls.CertificateVerificationError)) {
			t.Errorf("a certificate that nobody trusts: %v", err)
		}
		conn, err := tls.Dial("tcp", address["tls"], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, get); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("over TLS: %q, %v", line, err)
		}
	})
	if len(heard) != 3 {
		t.Errorf("heard %+v, want one of reset, close and tls", heard)
	}
}

func TestAClientThatAsksFirstIsToldToGoOn(t *testing.T) {
	heard := hear(t, map[string]contract.Receiver{"a": {}}, func(t *testing.T, address map[string]string) {
		request, err := http.NewRequest("POST", "http://"+address["a"], strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Expect", "100-continue")
		transport := &http.Transport{ExpectContinueTimeout: time.Hour}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	})
	if len(heard) != 1 || heard[0].Body != "body" {
		t.Errorf("heard %+v", heard)
	}
}

func TestWhatIsLateBelongsToNoOtherCase(t *testing.T) {
	s := newStage(t)
	waits := acmeCase(contract.World{Receivers: map[string]contract.Receiver{"a": {Answers: []contract.Answer{{Delay: time.Hour}}}}})
	waits.Data = `{"to": "{{receiver a}}"}`
	var first net.Conn
	o := run(t, s, waits, does(s, func(_ context.Context, task *plugins.Task) error {
		conn, err := net.Dial("tcp", s.receivers.listeners["a"].Addr().String())
		if err != nil {
			return err
		}
		first = conn
		_, err = io.WriteString(conn, "GET /late HTTP/1.1\r\n\r\n")
		return err
	}))
	defer first.Close()
	if len(o.Requests) != 1 || o.Requests[0].Target != "/late" {
		t.Errorf("requests %+v", o.Requests)
	}
	if answer, err := io.ReadAll(first); len(answer) > 0 {
		t.Errorf("the answer after the case is %q, %v", answer, err)
	}
	if o := run(t, s, waits, does(s, func(context.Context, *plugins.Task) error { return nil })); len(o.Requests) > 0 {
		t.Errorf("the next case has %+v", o.Requests)
	}
}

func TestReceiversKeepTheirPorts(t *testing.T) {
	s := newStage(t)
	c := acmeCase(contract.World{Receivers: map[string]contract.Receiver{"a": {}, "b": {}}})
	c.Data = `{"a": "{{receiver a}}", "b": "{{receiver b}}", "c": "{{closed}}"}`
	var all []string
	for range 2 {
		run(t, s, c, does(s, func(_ context.Context, task *plugins.Task) error {
			all = append(all, string(task.Data))
			return nil
		}))
	}
	if all[0] != all[1] || strings.Contains(all[0], "{{") {
		t.Errorf("the addresses were %s, then %s", all[0], all[1])
	}
}
