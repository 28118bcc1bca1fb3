package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// Gateway is the http.Handler that stands in front of a Phorge. Its Server
// serves it; it is not for a place in an http.ServeMux, which would answer paths
// that have to be refused with redirects of its own. Its methods are safe for
// use at the same time.
type Gateway struct {
	config    Config
	target    *url.URL
	callers   token.Holders[*caller]
	strangers *strangers
	transport *http.Transport
	buffers   sync.Pool
	now       func() time.Time

	// linger is how long what is left of a refused body is waited for, so that
	// the caller reads the refusal before the connection closes.
	linger time.Duration
}

// New makes a gateway. It does not call the Phorge, which need not be up.
func New(c Config) (*Gateway, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: c, strangers: newStrangers(c.Strangers), now: time.Now, linger: 5 * time.Second}
	if g.callers, err = callers(c.Tokens); err != nil {
		return nil, err
	}
	if g.target, err = c.target(); err != nil {
		return nil, err
	}
	if g.transport, err = newTransport(c); err != nil {
		return nil, err
	}
	g.buffers.New = func() any { return new([32 << 10]byte) }
	g.config.Tokens = nil
	return g, nil
}

// newTransport answers the connections to the Phorge. It obeys no HTTP_PROXY,
// asks for no compression and undoes none.
func newTransport(c Config) (*http.Transport, error) {
	security := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("gateway: CAFile: %w", err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("gateway: CAFile: %s has no certificate in PEM form", c.CAFile)
		}
	}
	dialer := &net.Dialer{
		Timeout:         c.Connect,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        security,
		TLSHandshakeTimeout:    c.Connect,
		DisableCompression:     true,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConnsPerHost:    256,
		// Web servers close idle connections after 5 s and more. A call that
		// meets such a close fails, so ours close first.
		IdleConnTimeout: 2 * time.Second,
	}, nil
}

// Server answers a server for the gateway, with the time limits of those stages
// that a handler does not see: headers that come slowly, connections that say
// nothing. Its address, or listener, and certificate are the caller's to set.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler:                      g,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  2 * time.Minute,
		WriteTimeout:                 g.config.Stall, // until the handler sets another, for each write
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(g.config.Log.With().Str("part", "gateway").Logger(), "", 0),
	}
}

// Close closes the idle connections to the Phorge. It is for after the server
// has been shut down.
func (g *Gateway) Close() error {
	g.transport.CloseIdleConnections()
	return nil
}

// ServeHTTP serves one call.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Gateway: g, w: w, r: r, control: http.NewResponseController(w), began: g.now(), from: addressOf(r)}
	defer c.tell()
	if refused := c.admit(); refused != nil {
		c.refuse(refused)
		return
	}
	c.forward()
}
