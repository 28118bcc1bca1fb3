package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Request is what HTTPSFuture is told to do.
type Request struct {
	Method  string
	URL     string
	Headers []Header // beside those that HTTPSFuture and libcurl add
	Body    string   // without a Content-Type among the headers it is a form
	Timeout time.Duration

	// Checked makes the request go to the addresses that were checked, which
	// must have been those of URL, and every redirect be checked alike. Nil is
	// for a URL that the administrator wrote: every address may be called.
	Checked *Checked
}

// Header is a header of a request.
type Header struct {
	Name, Value string

	// SameOrigin keeps the header from redirects that lead to another
	// protocol, host or port.
	SameOrigin bool
}

// maxRedirects is CURLOPT_MAXREDIRS of HTTPSFuture.
const maxRedirects = 20

// userAgent begins as that of Phorge, so that receivers still know it.
const userAgent = "Arcanist/1.0 Gantry"

// Do makes a request and answers what came of it. The error is that of the
// context, which has then ended before the response was there, or one of what
// wrap answered.
//
// wrap is given what speaks to the network, and answers what is to be used in
// its place: plugins.Task.Transport, so that a shadow run sends nothing. Each
// request in a chain of redirects goes through it.
//
// A redirect to an address that may not be called is not followed: the response
// that asked for it is the one that counts.
func Do(ctx context.Context, wrap func(http.RoundTripper) http.RoundTripper, r Request) (Status, error) {
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	w := newWire(r)
	defer w.close()
	status, err := (&chain{r, wrap(w)}).follow(limited)
	var curl *curlError
	var parse *parseError
	switch {
	case err == nil:
		return status, nil
	case ctx.Err() != nil:
		return Status{}, context.Cause(ctx)
	case limited.Err() != nil:
		return Status{CURL, codeTimeout}, nil
	case errors.As(err, &curl):
		return Status{CURL, curl.code}, nil
	case errors.As(err, &parse):
		return Status{Parse, 1}, nil
	}
	return Status{}, err
}

// chain is a request with the redirects that follow from it.
type chain struct {
	Request
	transport http.RoundTripper
}

func (c *chain) follow(ctx context.Context) (Status, error) {
	first, err := parseTarget(c.URL, false)
	if err != nil {
		return Status{}, err
	}
	if c.Checked != nil && !c.Checked.isOf(first.host) {
		return Status{}, badURL("the URL is not the one that was checked")
	}
	at, withBody := first, c.Body != ""
	var before Status
	for hop := 0; ; hop++ {
		response, err := c.transport.RoundTrip(c.request(ctx, first, at, withBody))
		var refused *refusedError
		if hop > 0 && errors.As(err, &refused) {
			return before, nil
		}
		if err != nil {
			return Status{}, err
		}
		response.Body.Close()
		status := Status{HTTP, response.StatusCode}
		location := response.Header.Get("Location")
		if !isRedirect(status.Code, response.Header) {
			return status, nil
		}
		if hop == maxRedirects {
			return Status{}, &curlError{codeRedirects, nil}
		}
		switch status.Code {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
			withBody = false // the method stays, because HTTPSFuture names it
		}
		if at, err = at.follow(location); err != nil {
			return Status{}, err
		}
		if at.login == "" && at.origin() == first.origin() {
			at.login = first.login
		}
		before = status
	}
}

// request answers the request of one hop.
func (c *chain) request(ctx context.Context, first, at target, withBody bool) *http.Request {
	header := http.Header{"User-Agent": {userAgent}, "Accept": {"*/*"}}
	if at.login != "" {
		header.Set("Authorization", at.authorization())
	}
	typed := false
	for _, h := range c.Headers {
		if !h.SameOrigin || at.origin() == first.origin() {
			header.Add(h.Name, h.Value)
		}
		typed = typed || strings.EqualFold(h.Name, "Content-Type")
	}
	header.Set("Accept-Encoding", "gzip")
	request := &http.Request{Method: c.Method, URL: at.url(), Host: at.hostHeader(), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if withBody {
		header.Set("Content-Length", strconv.Itoa(len(c.Body)))
		if !typed {
			header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		request.ContentLength = int64(len(c.Body))
		request.Body = io.NopCloser(strings.NewReader(c.Body))
	}
	return request.WithContext(ctx)
}
