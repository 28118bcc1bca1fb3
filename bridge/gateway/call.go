package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// statusLeft stands in the log for the status of a call whose caller left before
// it was answered, as in that of nginx.
const statusLeft = 499

var errLate = errors.New("the Phorge did not go on in time")

// call is one call on its way through the gateway.
type call struct {
	*Gateway
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	began   time.Time
	from    netip.Addr // not valid when the connection has none
	method  string     // "" until it is checked
	caller  *caller    // nil until it is known
	query   string     // without a token
	body    *body      // nil without one, and until it is forwarded
	watch   *watch

	// What the log says of it.
	status int
	code   string // of a refusal
	sent   int64  // bytes of the answer's body
	cause  string // why it did not come to its end
}

// addressOf answers where a call comes from.
func addressOf(r *http.Request) netip.Addr {
	address, _ := netip.ParseAddr(hostOf(r.RemoteAddr)) // a unix socket has none
	return address.Unmap().WithZone("")
}

// admit checks everything that can be said of a call before it is made.
func (c *call) admit() *refusal {
	tokens := token.Presented(c.r.Header)
	c.query = c.r.URL.RawQuery
	if c.config.QueryToken {
		var more []string
		c.query, more = withoutToken(c.query)
		tokens = append(tokens, more...)
	}
	if c.caller = c.find(tokens); c.caller == nil {
		if wait := c.strangers.take(c.from, c.began); wait > 0 {
			return tooOften(wait)
		}
		return noToken
	}
	method, is := methodOf(c.r.URL)
	if !is {
		return noPath
	}
	c.method = method
	switch {
	case c.r.Method == http.MethodConnect, c.r.Method == http.MethodTrace:
		return noVerb
	case wantsUpgrade(c.r.Header):
		return noUpgrade
	case !c.caller.mayCall(method):
		return noMethod
	case c.config.MaxBody > 0 && c.r.ContentLength > c.config.MaxBody:
		return tooLong
	case matches(c.caller.exempt, method):
		return nil
	}
	if wait := c.caller.limit.Take(c.began); wait > 0 {
		return tooOften(wait)
	}
	return nil
}

// forward makes the call and passes the answer on.
func (c *call) forward() {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	limit := c.config.Answer
	if c.r.ContentLength != 0 {
		limit = c.config.Connect + c.config.Stall // until the first byte is asked for
	}
	c.watch = newWatch(limit, func() { cancel(errLate) })
	defer c.watch.answer(0)
	request, err := c.request(ctx)
	if c.body != nil {
		defer c.body.stop()
	}
	if err != nil {
		c.failed(ctx, err)
		return
	}
	answer, err := c.transport.RoundTrip(request)
	if err != nil {
		c.failed(ctx, err)
		return
	}
	defer answer.Body.Close()
	c.watch.answer(c.config.Stall)
	if answer.StatusCode < 200 {
		c.failed(ctx, errors.New("an answer with a status below 200"))
		return
	}
	if err := c.pass(answer); err != nil {
		c.cause = reason(ctx, err)
		panic(http.ErrAbortHandler) // or the caller would take the answer for whole
	}
}

// short is the longest body, in bytes, that is read before the call is made, so
// that it leaves in one packet with the headers and no process of PHP waits for
// the rest of it. The buffers of a connection are as long.
const short = 4 << 10

// request answers the call as the Phorge gets it, or why a short body could not
// be read.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	to := &url.URL{Scheme: c.target.Scheme, Host: c.target.Host, Path: "/api/" + c.method, RawQuery: c.query}
	request := (&http.Request{
		Method: c.r.Method, URL: to, Host: c.config.Host, Header: c.headers(c.r, c.from),
		ContentLength: c.r.ContentLength,
	}).WithContext(ctx)
	if c.r.ContentLength == 0 {
		switch c.r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			request.Body = nothing{}
		}
		return request, nil
	}
	c.body = &body{
		from: c.r.Body, control: c.control, watch: c.watch, done: make(chan struct{}),
		most: c.config.MaxBody, stall: c.config.Stall, answer: c.config.Answer, linger: c.linger,
	}
	request.Body = c.body
	if c.r.ContentLength < 0 || c.r.ContentLength > short || c.r.Header["Expect"] != nil {
		return request, nil
	}
	text := bytes.NewBuffer(make([]byte, 0, c.r.ContentLength+bytes.MinRead))
	_, err := text.ReadFrom(c.body)
	request.Body = io.NopCloser(text) // which the transport knows, and cannot repeat
	return request, err
}

// pass passes an answer on. After an error the caller has part of it at most.
func (c *call) pass(answer *http.Response) error {
	h := c.w.Header()
	copyHeaders(h, answer.Header)
	for _, made := range []string{"Content-Type", "Date"} {
		if _, is := h[made]; !is {
			h[made] = nil // or net/http would make one up
		}
	}
	c.awaitBody()
	if c.mustClose() {
		h.Set("Connection", "close")
	}
	c.status = answer.StatusCode
	_ = c.control.SetWriteDeadline(time.Now().Add(c.config.Stall))
	c.w.WriteHeader(answer.StatusCode)
	if answer.ContentLength < 0 {
		_ = c.control.Flush() // the first byte may take its time; an error comes again with it
	}
	return c.copy(answer.Body)
}

// early is how long an answer waits for the end of its call. Most bodies that are
// not yet read are in the buffers already, and then the connection can stay.
const early = 50 * time.Millisecond

// awaitBody waits for the end of a body, for a moment.
func (c *call) awaitBody() {
	if c.body == nil || c.body.ended.Load() {
		return
	}
	moment := time.NewTimer(early)
	defer moment.Stop()
	select {
	case <-c.body.done:
	case <-moment.C:
	case <-c.r.Context().Done():
	}
}

// mustClose says whether the connection of the caller is not to be used again.
//
// When the answer comes before the body is read whole, net/http would read the
// rest itself, against the transport, unless the connection closes. After chunks
// somebody on the way may disagree about where the call ended, so that the next
// one on the connection would be one that nobody sent.
func (c *call) mustClose() bool {
	return c.r.ProtoMajor == 1 && (c.body != nil && !c.body.ended.Load() || len(c.r.TransferEncoding) > 0)
}

// copy sends each piece as it comes.
func (c *call) copy(from io.Reader) error {
	buffer := c.buffers.Get().(*[32 << 10]byte)
	defer c.buffers.Put(buffer)
	for {
		c.watch.answer(c.config.Stall)
		n, err := from.Read(buffer[:])
		c.watch.answer(0)
		if n > 0 {
			_ = c.control.SetWriteDeadline(time.Now().Add(c.config.Stall))
			sent, failed := c.w.Write(buffer[:n])
			c.sent += int64(sent)
			if failed == nil && err == nil {
				failed = c.control.Flush()
			}
			if failed != nil {
				return &callerError{failed}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// callerError is a connection to the caller that broke.
type callerError struct{ error }

func (e *callerError) Unwrap() error { return e.error }

// failed answers a call that Phorge did not answer.
func (c *call) failed(ctx context.Context, err error) {
	c.cause = reason(ctx, err)
	if c.body != nil {
		whole, broken := c.body.stop()
		if !whole && c.r.ProtoMajor == 1 {
			c.w.Header().Set("Connection", "close")
		}
		if broken != nil {
			c.refuse(unread(broken))
			return
		}
	}
	var dial *net.OpError
	switch {
	case c.r.Context().Err() != nil:
		c.status = statusLeft
		panic(http.ErrAbortHandler)
	case context.Cause(ctx) == errLate:
		c.refuse(latePhorge)
	case errors.As(err, &dial) && dial.Op == "dial", untrusted(err):
		c.refuse(noPhorge)
	default:
		c.refuse(badPhorge)
	}
}

// unread answers the refusal of a call whose body could not be read.
func unread(err error) *refusal {
	switch {
	case errors.Is(err, errTooLong):
		return tooLong
	case errors.Is(err, os.ErrDeadlineExceeded):
		return tooSlow
	}
	return notWhole
}

// untrusted says whether a connection was not used for lack of trust.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &unknown)
}
