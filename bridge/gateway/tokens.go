package gateway

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// Token is a caller: who holds a service token, and what it is good for.
type Token struct {
	// Name is the caller in the log: at most 64 letters, digits, dots, hyphens
	// and underscores. Required, and unlike every other.
	Name string

	// Digests are the SHA-256 of the token, in hexadecimal, as token.New answers
	// it. Two at once let it be replaced without a pause.
	Digests []string

	// Allow are the methods that it may call: exact names, or beginnings that
	// end in *. Empty means none.
	Allow []string

	// Deny are the methods, written in the same way, that it may not call even
	// when Allow has them.
	Deny []string

	// Rate is how often it may call. The zero value means without limit.
	Rate token.Rate

	// Exempt are the methods, written in the same way, that Rate neither limits
	// nor counts.
	Exempt []string
}

// caller is a Token in the form that calls are checked with.
type caller struct {
	name                string
	allow, deny, exempt []string
	limit               *token.Bucket
}

// callers checks tokens and answers who holds them.
func callers(tokens []Token) (all token.Holders[*caller], err error) {
	var problems []error
	names := map[string]bool{}
	for _, t := range tokens {
		c, err := t.caller()
		if err == nil && names[t.Name] {
			err = errors.New("another token has the same name")
		}
		for _, digest := range t.Digests {
			if err == nil {
				err = all.Add(digest, c)
			}
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("gateway: token %.80q: %w", t.Name, err))
		}
		names[t.Name] = true
	}
	return all, errors.Join(problems...)
}

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (t Token) caller() (*caller, error) {
	c := &caller{name: t.Name, allow: t.Allow, deny: t.Deny, exempt: t.Exempt, limit: t.Rate.Bucket()}
	if !validName.MatchString(t.Name) {
		return c, errors.New("the name must be at most 64 letters, digits, dots, hyphens and underscores")
	}
	if len(t.Digests) == 0 {
		return c, errors.New("it has no digest")
	}
	for _, list := range [][]string{t.Allow, t.Deny, t.Exempt} {
		for _, pattern := range list {
			if name, open := strings.CutSuffix(pattern, "*"); !open && !validMethod(name) || open && !validMethod(strings.TrimSuffix(name, ".")+"x") {
				return c, fmt.Errorf("%.80q is no method; it must be like user.whoami, or like user.* or *", pattern)
			}
		}
	}
	if err := t.Rate.Check(); err != nil {
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
	found, _ := g.callers.Find(presented[0])
	return found
}
