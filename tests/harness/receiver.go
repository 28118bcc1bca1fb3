package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Receiver is an HTTP server that webhooks call, on the loopback interface. It
// tells them apart by their paths, and notes whether one is called while a call
// of it is under way.
type Receiver struct {
	server *http.Server
	url    string
	answer func(context.Context)

	mu       sync.Mutex
	underWay map[string]int
	calls    int
	together error
}

// StartReceiver starts one. It answers each call with 200 when answer returns,
// whose context ends with the call. Call Close when it is no longer needed.
func StartReceiver(answer func(context.Context)) (*Receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a receiver of webhooks: %w", err)
	}
	r := &Receiver{url: "http://" + l.Addr().String(), answer: answer, underWay: map[string]int{}}
	r.server = &http.Server{Handler: r}
	go r.server.Serve(l) // ends by Close
	return r, nil
}

// URL answers the address, without a slash at its end.
func (r *Receiver) URL() string { return r.url }

func (r *Receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	r.begin(request.URL.Path)
	r.answer(request.Context())
	r.end(request.URL.Path)
}

func (r *Receiver) begin(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.underWay[path]++
	if n := r.underWay[path]; n > 1 && r.together == nil {
		r.together = fmt.Errorf("%d calls of the webhook at %s were under way at once", n, path)
	}
}

func (r *Receiver) end(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[path]--
}

// Calls answers how many calls came.
func (r *Receiver) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// Together answers an error when a webhook was called while a call of it was
// under way.
func (r *Receiver) Together() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.together
}

// Close cuts the calls that are under way and stops.
func (r *Receiver) Close() error { return r.server.Close() }
