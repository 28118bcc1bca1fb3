package queueapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// principal is a caller.
type principal struct {
	Token
	bucket *token.Bucket
}

func (p *principal) may(right Right) bool { return right == "" || slices.Contains(p.Rights, right) }

// identify answers who calls.
func (a *API) identify(r *http.Request) (*principal, error) {
	if a.everybody != nil {
		if !local(r) {
			return nil, refuse(http.StatusForbidden, codeUnauthorized, "no token is configured, so only callers on this machine are served, under its own address")
		}
		if pages.Check(r) != nil {
			return nil, refuse(http.StatusForbidden, codeUnauthorized, "no token is configured, so pages of other sites that a browser shows are not served")
		}
		return a.everybody, nil
	}
	secret := a.presented(r)
	if secret == "" {
		return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "give the token in X-Service-Token")
	}
	p, found := a.holders.Find(secret)
	if !found {
		return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "the token is not known")
	}
	return p, nil
}

// presented answers the token of a request.
func (a *API) presented(r *http.Request) string {
	for _, secret := range token.Presented(r.Header) {
		if secret != "" {
			return secret
		}
	}
	if a.QueryToken {
		return r.URL.Query().Get("token")
	}
	return ""
}

// pages refuses what a browser sends for a page of another site. A call without a
// body needs no leave of ours for that, and one would be enough to lease a task.
var pages http.CrossOriginProtection

// local reports whether a request comes from this machine and was meant for it:
// a page that a browser shows can have it call any address, but not under a Host
// of its choice.
func local(r *http.Request) bool {
	return loopback(r.RemoteAddr) && loopback(r.Host)
}

func loopback(address string) bool {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// admit takes one call from the caller's rate.
func (p *principal) admit(now time.Time) error {
	wait := p.bucket.Take(now)
	if wait == 0 {
		return nil
	}
	e := refuse(http.StatusTooManyRequests, codeUnavailable, "this token makes more than %s calls a second", strconv.FormatFloat(p.Rate, 'g', -1, 64))
	e.retryAfter = wait
	return e
}
