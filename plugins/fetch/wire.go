package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// wire speaks HTTP/1.1 for one chain of requests. It is a RoundTripper of its
// own, and not an http.Transport, because the bytes that are sent and the number
// by which a failure is known are part of what Phorge promises.
type wire struct {
	checked *Checked
	order   []string // names of the caller's headers
	idle    map[string]*link
	called  bool
}

// link is a connection to a server.
type link struct {
	net.Conn
	reader *bufio.Reader
}

func newWire(r Request) *wire {
	w := &wire{checked: r.Checked, idle: map[string]*link{}}
	for _, h := range r.Headers {
		w.order = append(w.order, h.Name)
	}
	return w
}

func (w *wire) close() {
	for _, l := range w.idle {
		l.Close()
	}
}

// RoundTrip sends one request. When a connection that was used before turns out
// to be dead before anything came back, libcurl sends the request again on a
// new one, and so does this.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	addresses, err := w.resolve(request.Context(), request.URL.Hostname())
	if err != nil {
		return nil, err
	}
	server := request.URL.Scheme + "://" + request.Host
	body := []byte(nil)
	if request.Body != nil {
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	message := append(w.head(request), body...)
	if l := w.idle[server]; l != nil {
		delete(w.idle, server)
		response, err := w.exchange(request, l, server, message)
		var dead *silentError
		if !errors.As(err, &dead) || request.Context().Err() != nil {
			return response, err
		}
	}
	l, err := dial(request, addresses)
	if err != nil {
		return nil, err
	}
	return w.exchange(request, l, server, message)
}

// resolve answers where to connect for a request: for the first one to what was
// checked, for every other to what is checked now.
func (w *wire) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	first := !w.called
	w.called = true
	switch {
	case w.checked == nil:
		return lookup(ctx, "ip", host)
	case first:
		return w.checked.addresses, nil
	}
	return w.checked.blacklist.resolve(ctx, host)
}

// head answers the request line and the headers in the order of libcurl.
func (w *wire) head(request *http.Request) []byte {
	var head strings.Builder
	head.WriteString(request.Method + " " + strings.TrimPrefix(request.URL.Opaque, "//"+request.URL.Host) + " HTTP/1.1\r\n")
	head.WriteString("Host: " + request.Host + "\r\n")
	names := append([]string{"Authorization", "User-Agent", "Accept"}, w.order...)
	names = append(names, "Accept-Encoding", "Content-Length", "Content-Type")
	written := map[string]bool{}
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if written[name] {
			continue
		}
		written[name] = true
		for _, value := range request.Header[name] {
			head.WriteString(name + ": " + value + "\r\n")
		}
	}
	head.WriteString("\r\n")
	return []byte(head.String())
}

// dial connects to the first of the addresses that answers.
func dial(request *http.Request, addresses []netip.Addr) (*link, error) {
	ctx := request.Context()
	port := request.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[request.URL.Scheme]
	}
	var last error
	for _, address := range addresses {
		conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", net.JoinHostPort(address.String(), port))
		if err != nil {
			last = err
			continue
		}
		if request.URL.Scheme == "https" {
			if conn, err = secure(ctx, conn, request.URL.Hostname()); err != nil {
				return nil, err
			}
		}
		return &link{conn, bufio.NewReader(conn)}, nil
	}
	return nil, &curlError{codeConnect, last}
}

// secure makes TLS of a connection. The certificate must be valid for the host,
// under an authority that the system trusts.
func secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	secured := tls.Client(conn, &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}})
	err := secured.HandshakeContext(ctx)
	if err == nil {
		return secured, nil
	}
	conn.Close()
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return nil, &curlError{codeVerify, err}
	}
	return nil, &curlError{codeTLS, err}
}

// exchange sends a message on a connection and reads what comes back. The
// connection stays for the next request to the server when it can.
func (w *wire) exchange(request *http.Request, l *link, server string, message []byte) (*http.Response, error) {
	stop := context.AfterFunc(request.Context(), func() { l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := l.Write(message); err != nil {
		l.Close()
		return nil, &curlError{codeSend, &silentError{err}}
	}
	response, keep, err := readResponse(l.reader)
	if !keep || l.reader.Buffered() > 0 || !stop() {
		l.Close()
	} else {
		w.idle[server] = l
	}
	return response, err
}

// silentError says that a connection failed before anything came back on it.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }
func (e *silentError) Unwrap() error { return e.err }
