package conduit

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// newTransport answers the connections to the Phorge, which all calls share.
func newTransport(c Config) (*http.Transport, error) {
	security := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("conduit: conduit_ca: %w", err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("conduit: conduit_ca: %s has no certificate in PEM form", c.CAFile)
		}
	}
	dialer := &net.Dialer{
		Timeout: 5 * time.Second,
		// A task may take hours, and its answer with it, but a server that
		// vanished is noticed within a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     security,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: c.Connections + 1, // one for questions beside the calls
		// Web servers close idle connections after 5 s and more. A request that
		// meets such a close has to be looked up, so ours close first.
		IdleConnTimeout: 2 * time.Second,
	}, nil
}

// noRedirect keeps signed requests where they were sent.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
