package queueapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const digestSize = sha256.Size

// NewToken makes a token and its digest.
func NewToken() (token, digest string) {
	token = rand.Text()
	return token, Digest(token)
}

// Digest answers what is kept of a token. Tokens are random, so one round of a
// fast hash is enough.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// principal is a caller.
type principal struct {
	Token
	digest  []byte
	limiter *rate.Limiter // nil: as many calls as it likes
}

func newPrincipal(t Token) *principal {
	digest, _ := hex.DecodeString(t.Digest) // Config.check has looked at it
	p := &principal{Token: t, digest: digest}
	if t.Rate > 0 {
		burst := t.Burst
		if burst == 0 {
			burst = max(1, int(math.Ceil(t.Rate)))
		}
		p.limiter = rate.NewLimiter(rate.Limit(t.Rate), burst)
	}
	return p
}

func (p *principal) may(right Right) bool { return right == "" || slices.Contains(p.Rights, right) }

// identify answers who calls.
func (a *API) identify(r *http.Request) (*principal, error) {
	if len(a.principals) == 0 {
		if !local(r) {
			return nil, refuse(http.StatusForbidden, codeUnauthorized, "no token is configured, so only callers on this machine are served, under its own address")
		}
		return a.everybody, nil
	}
	token := a.presented(r)
	if token == "" {
		return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "give the token in X-Service-Token")
	}
	sum := sha256.Sum256([]byte(token))
	var found *principal
	for _, p := range a.principals { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(sum[:], p.digest) == 1 {
			found = p
		}
	}
	if found == nil {
		return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "the token is not known")
	}
	return found, nil
}

// presented answers the token of a request.
func (a *API) presented(r *http.Request) string {
	if token := r.Header.Get("X-Service-Token"); token != "" {
		return token
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if a.QueryToken {
		return r.URL.Query().Get("token")
	}
	return ""
}

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
	if p.limiter == nil {
		return nil
	}
	reserved := p.limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reserved.CancelAt(now)
	e := refuse(http.StatusTooManyRequests, codeUnavailable, "this token makes more than %s calls a second", strconv.FormatFloat(p.Rate, 'g', -1, 64))
	e.retryAfter = wait
	return e
}
