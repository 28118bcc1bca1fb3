package queueapi

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

const (
	headerTime = 10 * time.Second // for the head of a request
	bodyTime   = time.Minute      // for all of it
	answerTime = time.Minute      // for the answer to be read
	idleTime   = 2 * time.Minute  // between two requests
	headBytes  = 32 << 10
)

// Server answers a server for the handler with a bound on everything that a
// client can be slow at.
func (a *API) Server() *http.Server {
	s := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      bodyTime + a.MaxWait + 4*a.StoreTimeout + answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headBytes,
		ErrorLog:          log.New(lines{a.Log}, "", 0),
	}
	s.RegisterOnShutdown(a.EndWaits)
	return s
}

// lines writes what net/http has to say, such as a failed TLS handshake.
type lines struct{ log zerolog.Logger }

func (l lines) Write(line []byte) (int, error) {
	l.log.Debug().Str("line", clip(string(line), 500)).Msg("queue API: connection")
	return len(line), nil
}

// Listen listens on an address as net.Listen does. Without tokens that is one of
// this machine alone: an address without a host stands for 127.0.0.1 then, which
// the log says, and another host is refused.
func (a *API) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("queue API: the address %q is not host:port: %w", address, err)
	}
	if a.everybody != nil {
		if host == "" {
			host = "127.0.0.1"
		}
		if !loopback(host) {
			return nil, fmt.Errorf("queue API: without a token it listens on this machine only, and %s is not of it; configure a token or listen on 127.0.0.1", address)
		}
		a.Log.Warn().Str("address", net.JoinHostPort(host, port)).Msg("queue API: no token is configured, so it listens on this machine only and lets everybody on it do everything")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("queue API: %w", err)
	}
	return listener, nil
}

// Serve serves until ctx ends, then answers the calls that are under way until
// stop ends, and closes the API.
func (a *API) Serve(ctx, stop context.Context, listener net.Listener) error {
	defer a.Close()
	server := a.Server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("queue API: %w", err)
	case <-ctx.Done():
	}
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("queue API: %w", err)
	}
	return err
}
