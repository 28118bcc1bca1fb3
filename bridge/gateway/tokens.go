package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/time/rate"
)

// Token is a caller: who holds a service token, and what it is good for.
type Token struct {
	// Name is the caller in the log: at most 64 letters, digits, dots, hyphens
	// and underscores. Required, and unlike every other.
	Name string

	// Digests are the SHA-256 of the token, in hexadecimal, as NewToken answers
	// it. Two at once let it be replaced without a pause.
	Digests []string

	// Allow are the methods that it may call: exact names, or beginnings that
	// end in *. Empty means none.
	Allow []string

	// Deny are the methods, written in the same way, that it may not call even
	// when Allow has them.
	Deny []string

	// Rate is how often it may call. The zero value means without limit.
	Rate Rate

	// Exempt are the methods, written in the same way, that Rate neither limits
	// nor counts.
	Exempt []string
}

// NewToken makes a token, and the digest of it that Token.Digests takes. Nothing
// but the digest need be kept on this side.
func NewToken() (token, digest string) {
	token = rand.Text() + rand.Text()
	return token, digestOf(token)
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// caller is a Token in the form that calls are checked with.
type caller struct {
	name                string
	digests             [][sha256.Size]byte
	allow, deny, exempt []string
	limit               *rate.Limiter // nil: none
}

// callers checks tokens and answers who holds them.
func callers(tokens []Token) ([]*caller, error) {
	var all []*caller
	var problems []error
	names, digests := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for _, token := range tokens {
		c, err := token.caller()
		if err == nil && names[token.Name] {
			err = errors.New("another token has the same name")
		}
		for _, digest := range c.digests {
			if err == nil && digests[digest] {
				err = errors.New("a digest stands there twice; one token cannot be two callers")
			}
			digests[digest] = true
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("gateway: token %.80q: %w", token.Name, err))
		}
		names[token.Name] = true
		all = append(all, c)
	}
	return all, errors.Join(problems...)
}

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (t Token) caller() (*caller, error) {
	c := &caller{name: t.Name, allow: t.Allow, deny: t.Deny, exempt: t.Exempt, limit: t.Rate.limiter()}
	if !validName.MatchString(t.Name) {
		return c, errors.New("the name must be at most 64 letters, digits, dots, hyphens and underscores")
	}
	if len(t.Digests) == 0 {
		return c, errors.New("it has no digest")
	}
	for _, text := range t.Digests {
		digest, err := hex.DecodeString(text)
		if err != nil || len(digest) != sha256.Size {
			return c, errors.New("a digest is not 64 hexadecimal digits; it must be the SHA-256 of the token, not the token") // which text could be
		}
		if text == digestOf("") {
			return c, errors.New("a digest is that of an empty token")
		}
		c.digests = append(c.digests, [sha256.Size]byte(digest))
	}
	for _, list := range [][]string{t.Allow, t.Deny, t.Exempt} {
		for _, pattern := range list {
			if name, open := strings.CutSuffix(pattern, "*"); !open && !validMethod(name) || open && !validMethod(strings.TrimSuffix(name, ".")+"x") {
				return c, fmt.Errorf("%.80q is no method; it must be like user.whoami, or like user.* or *", pattern)
			}
		}
	}
	if err := t.Rate.check(); err != nil {
		return c, fmt.Errorf("its rate: %w", err)
	}
	return c, nil
}

func (c *caller) mayCall(method string) bool {
	return matches(c.allow, method) && !matches(c.deny, method)
}

// matches says whether a method is among patterns. Phorge tells methods apart by
// case, and so does this.
func matches(patterns []string, method string) bool {
	for _, pattern := range patterns {
		beginning, open := strings.CutSuffix(pattern, "*")
		if pattern == method || open && strings.HasPrefix(method, beginning) {
			return true
		}
	}
	return false
}

// find answers who holds the tokens that a call presents, or nil. A call that
// presents several different ones has none.
func (g *Gateway) find(presented []string) *caller {
	if len(presented) == 0 {
		return nil
	}
	for _, other := range presented[1:] {
		if other != presented[0] {
			return nil
		}
	}
	digest := sha256.Sum256([]byte(presented[0]))
	var found *caller
	for _, c := range g.callers {
		for i := range c.digests {
			if subtle.ConstantTimeCompare(c.digests[i][:], digest[:]) == 1 {
				found = c // and look at the others too, so that the time tells nothing
			}
		}
	}
	return found
}

// presented answers the tokens in a call's headers.
func presented(h http.Header) (tokens []string) {
	tokens = append(tokens, h["X-Service-Token"]...)
	for _, value := range h["Authorization"] {
		if token, is := bearer(value); is {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// bearer answers the token of an Authorization header. Another scheme is not for
// us, but for what stands before the Phorge.
func bearer(value string) (token string, is bool) {
	scheme, token, _ := strings.Cut(strings.TrimLeft(value, " \t"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}
