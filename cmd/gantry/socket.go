package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// serveStatus answers on the socket how a running Gantry is, until stop is
// called: /readyz with 200 or 503 and why, /status with a document, /metrics as
// Prometheus reads it. Only the user who runs it may connect, and root.
func serveStatus(path string, ready func() error, status func() any, metrics http.Handler) (stop func(), err error) {
	listener, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status()) // whoever asked has gone
	})
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends when it is closed
	}()
	return func() {
		os.Remove(path)
		server.Close()
		<-served
	}, nil
}

// longestSocket is how many bytes the path of a socket may have.
const longestSocket = 107

// errAnswered is a socket that is in use.
var errAnswered = errors.New("another Gantry answers on it: stop that one, or give this one a socket of its own")

// listen listens on a socket in the file system. One that nobody listens on any
// more is replaced.
func listen(path string) (net.Listener, error) {
	listener, draft, err := draftSocket(path)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(draft, path); err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(draft))
	}
	return listener, nil
}

// draftSocket listens on a socket beside path that can take its place: it is
// made under another name, so that nobody can connect before its permissions are
// right.
func draftSocket(path string) (listener *net.UnixListener, draft string, err error) {
	draft = filepath.Join(filepath.Dir(path), "."+strconv.Itoa(os.Getpid())+".sock")
	if max(len(path), len(draft)) > longestSocket {
		return nil, "", fmt.Errorf("the path is too long for a socket: keep its directory below %d bytes", longestSocket-len(filepath.Base(draft)))
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return nil, "", errAnswered
	case errors.Is(err, syscall.ECONNREFUSED):
		if info, err := os.Stat(path); err == nil && info.Mode().Type() != os.ModeSocket {
			return nil, "", errors.New("the file is there and is no socket: name another, or remove it")
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, "", err
	}
	listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: draft, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(draft, 0o600); err != nil {
		return nil, "", errors.Join(err, listener.Close(), os.Remove(draft))
	}
	return listener, draft, nil
}

// checkSocket looks whether a Gantry could listen on a socket.
func checkSocket(path string) []finding {
	if path == "" {
		return nil
	}
	listener, draft, err := draftSocket(path)
	if err == nil {
		err = errors.Join(listener.Close(), os.Remove(draft))
	}
	switch {
	case err == nil:
		return []finding{{ok, "socket", "this user can listen on " + path}}
	case errors.Is(err, errAnswered):
		return []finding{{ok, "socket", "a Gantry answers on " + path}}
	case errors.Is(err, os.ErrNotExist):
		return []finding{{warning, "socket", "the directory of " + path + " is not there: RuntimeDirectory of a systemd service makes it, otherwise make it for this user"}}
	}
	return []finding{{problem, "socket", fmt.Sprintf("no Gantry can listen on %s: %v", path, err)}}
}

// askStatus reads the status of the Gantry that listens on a socket.
func askStatus(ctx context.Context, path string, into any) error {
	code, body, err := ask(ctx, path, "/status")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("the Gantry on %s answers %d: %.200s", path, code, body)
	}
	return json.Unmarshal(body, into)
}

// ask makes a request on a socket.
func ask(ctx context.Context, path, page string) (code int, body []byte, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gantry"+page, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return 0, nil, fmt.Errorf("no Gantry listens on %s: is `gantry run` there, with this socket?", path)
	case err != nil:
		return 0, nil, fmt.Errorf("ask the Gantry on %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
