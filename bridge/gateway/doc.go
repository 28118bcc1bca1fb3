// Package gateway is an authenticated reverse proxy in front of the Conduit of a
// Phorge: ANY /api/{method}.
//
//	caller ─▶ token ─▶ path ─▶ method allowed ─▶ rate ─▶ Phorge
//	             │        │            │           │        │
//	            401      404          403         429      502
//
// What it refuses, it answers in Conduit's own envelope. What Phorge answers is
// passed on byte for byte: status, headers, compressed or not, page or JSON,
// redirect or error. Neither body is held in memory; both are passed on as they
// come. Each call leaves one line in the log.
//
// # Why not httputil.ReverseProxy
//
// It forwards upgrades, and with one to HTTP/2 everything that is checked here
// could be gone around. It sorts and mends the query. Of what a client claims
// about its address it drops four headers of many. It writes error texts of its
// own to a log of its own. It leaves unnoticed that a caller or a server has
// stopped in the middle of a body, and an answer that comes before the call has
// been read whole it can cut short. Working around all of this takes as much
// code as a call of http.Transport.RoundTrip, which is what is here.
//
// RoundTrip has traps too. It repeats GET on a connection that broke, while a
// Conduit method called by GET may have done its work: so no call is repeated
// (body.go). It goes on reading the body of a call when that is over: so the
// handler stops it before it returns. It has no time limit for a server that
// takes a body slowly: so a watch runs beside it (watch.go).
//
// # What is not passed on
//
// Headers between two hosts only, among them those that Connection names, and
// what a caller says about where it came from; the service token; trailers and
// answers 1xx, of which Conduit has none; header names that are not of letters,
// digits and hyphens, since PHP cannot tell them from others.
//
// Answers that net/http gives before a handler is asked, to bytes that are no
// HTTP request, are its own.
package gateway
