package plugins

import (
	"cmp"
	"io"
	"net/http"
)

// Transport answers what a handler's HTTP client sends its requests through:
// base, or http.DefaultTransport when that is nil. In a shadow run a request
// is noted instead and answered with 200 and an empty body.
func (t *Task) Transport(base http.RoundTripper) http.RoundTripper {
	if s := t.reach().shadow; s != nil {
		return s
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return base
}

// RoundTrip notes a request.
func (s *shadow) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	sent := Sent{Method: cmp.Or(request.Method, http.MethodGet), URL: request.URL.String(), Header: request.Header.Clone()}
	if request.Body != nil {
		defer request.Body.Close()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		sent.Body = body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.databases == nil {
		return nil, errOver
	}
	s.effects.Requests = append(s.effects.Requests, sent)
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: request,
	}, nil
}
