package conduit

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	// maxAnswer is the longest answer that is read, in bytes. Receipts are far
	// smaller.
	maxAnswer = 64 << 20

	// maxRetries is how often a request is repeated at once, before whoever made
	// it paces itself.
	maxRetries = 2

	// anonymous is the session cookie of nobody. With it, Phorge makes up no
	// session for each call.
	anonymous = "phsid=A/gantry"
)

// client makes signed calls.
type client struct {
	config Config // without the key and the service token
	admit  func(http.Header)
	sign   func(method, nonce, body string, now time.Time) signature
	now    func() time.Time
	limit  int64 // maxAnswer

	// runs executes, so it repeats only what was never sent. asks changes
	// nothing, so it may repeat what failed.
	runs, asks *retryablehttp.Client
}

func newClient(c Config) (*client, error) {
	transport, err := newTransport(c)
	if err != nil {
		return nil, err
	}
	key, token := c.Key, c.ServiceToken
	c.Key, c.ServiceToken = "", ""
	return &client{
		config: c,
		admit: func(h http.Header) {
			if token != "" {
				h.Set("X-Service-Token", string(token))
			}
		},
		sign: func(method, nonce, body string, now time.Time) signature {
			return key.sign(method, c.Namespace, c.KeyID, nonce, body, now)
		},
		now:   time.Now,
		limit: maxAnswer,
		runs:  newRetrying(&http.Client{Transport: transport, CheckRedirect: noRedirect}, onlyUnsent),
		asks:  newRetrying(&http.Client{Transport: transport, CheckRedirect: noRedirect, Timeout: c.times.ask}, unlessTold),
	}, nil
}

func newRetrying(client *http.Client, policy retryablehttp.CheckRetry) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient:   client,
		RetryWaitMin: 100 * time.Millisecond,
		RetryWaitMax: time.Second,
		RetryMax:     maxRetries,
		CheckRetry:   policy,
		Backoff: func(least, most time.Duration, attempt int, _ *http.Response) time.Duration {
			return retryablehttp.DefaultBackoff(least, most, attempt, nil) // it would obey any Retry-After
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// connected is the key of a context's *atomic.Bool: whether the request got a
// connection, so that something of it may have been sent.
type connected struct{}

// traceparent is the key of the trace context that a request is a part of.
type traceparent struct{}

func onlyUnsent(ctx context.Context, answer *http.Response, err error) (bool, error) {
	again, _ := retryablehttp.DefaultRetryPolicy(ctx, answer, err)
	return again && err != nil && !ctx.Value(connected{}).(*atomic.Bool).Load(), nil
}

// unlessTold repeats unless the server said when to come back: then whoever
// asks waits, and no connection with it.
func unlessTold(ctx context.Context, answer *http.Response, err error) (bool, error) {
	again, _ := retryablehttp.DefaultRetryPolicy(ctx, answer, err)
	return again && (answer == nil || answer.Header.Get("Retry-After") == ""), nil
}

// call makes a call and answers the result of its envelope, or a *failure.
func (c *client) call(ctx context.Context, http *retryablehttp.Client, method string, body any) (json.RawMessage, error) {
	sent := &atomic.Bool{}
	ctx = context.WithValue(ctx, connected{}, sent)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	request, err := c.request(ctx, method, body)
	if err != nil {
		return nil, &failure{method: method, unbegun: true, cause: err}
	}
	answer, err := http.Do(request)
	if err != nil {
		if errors.As(err, &x509.UnknownAuthorityError{}) {
			err = fmt.Errorf("%w; name the file with the certificate of that authority with conduit_ca", err)
		}
		return nil, &failure{method: method, unbegun: !sent.Load(), cause: err}
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, c.limit+1))
	switch {
	case err != nil:
		err = fmt.Errorf("the answer ended early: %w", err)
	case int64(len(content)) > c.limit:
		err = fmt.Errorf("the answer is longer than %d bytes", c.limit)
	}
	if err != nil {
		return nil, &failure{method: method, cause: err}
	}
	return c.read(method, answer, content)
}

// execute runs tasks, or looks up what became of them, and answers their
// receipts. The error may stand beside those that could be read.
func (c *client) execute(ctx context.Context, mode string, asked []taskRef) (receipts, error) {
	http := c.asks
	if mode == "run" {
		http = c.runs
	}
	result, err := c.call(ctx, http, "worker.execute", struct {
		Mode  string    `json:"mode"`
		Tasks []taskRef `json:"tasks"`
	}{mode, asked})
	if err != nil {
		return nil, err
	}
	found, err := parseReceipts(result, asked)
	if err != nil {
		err = fmt.Errorf("conduit: worker.execute: %w", err)
	}
	return found, err
}

// request answers a request that is signed anew whenever it is sent, because a
// nonce is good for once.
func (c *client) request(ctx context.Context, method string, body any) (*retryablehttp.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	form := func() (io.Reader, error) { return strings.NewReader(c.form(method, string(text))), nil }
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, c.config.URL+"/api/"+method, form)
	if err != nil {
		return nil, err
	}
	request.Host = c.config.Host
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("User-Agent", "Gantry")
	request.Header.Set("Cookie", anonymous)
	if text, _ := ctx.Value(traceparent{}).(string); text != "" {
		request.Header.Set("Traceparent", text)
	}
	c.admit(request.Header)
	return request, nil
}

// form answers a signed body in the form that PhabricatorConduitAPIController
// decodes. Its length does not depend on when it is made.
func (c *client) form(method, body string) string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	signed := c.sign(method, hex.EncodeToString(nonce[:]), body, c.now())
	params, err := json.Marshal(struct {
		signature
		Metadata struct{} `json:"__conduit__"`
	}{signature: signed})
	if err != nil {
		panic(err) // strings and a number
	}
	return url.Values{"params": {string(params)}, "__conduit__": {"1"}, "output": {"json"}}.Encode()
}

func (c *client) close() { c.asks.HTTPClient.CloseIdleConnections() }
