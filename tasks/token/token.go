// Package token is how callers of Gantry's servers say who they are: a random
// text in a header, of which the server keeps a digest; and how often they may
// call.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
)

// New makes a token and its digest. Nothing but the digest need be kept on the
// side of the server.
func New() (token, digest string) {
	token = rand.Text()
	return token, Digest(token)
}

// Digest answers what is kept of a token: its SHA-256 in hexadecimal. Tokens are
// random, so one round of a fast hash is enough.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Holders are those who have tokens.
type Holders[H any] struct {
	all   []holding[H]
	known map[[sha256.Size]byte]bool
}

type holding[H any] struct {
	digest [sha256.Size]byte
	holder H
}

// Add lets a holder in with the token of a digest.
func (h *Holders[H]) Add(digest string, holder H) error {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return errors.New("a digest is not 64 hexadecimal digits; it must be the SHA-256 of the token, not the token") // which text could be
	}
	key := [sha256.Size]byte(sum)
	switch {
	case key == sha256.Sum256(nil):
		return errors.New("a digest is that of an empty token")
	case h.known[key]:
		return errors.New("a digest stands there twice; one token cannot be two callers")
	}
	if h.known == nil {
		h.known = map[[sha256.Size]byte]bool{}
	}
	h.known[key] = true
	h.all = append(h.all, holding[H]{key, holder})
	return nil
}

// Find answers who has a token. It looks at all of them, so that the time tells
// nothing.
func (h *Holders[H]) Find(token string) (holder H, found bool) {
	digest := sha256.Sum256([]byte(token))
	for i := range h.all {
		if subtle.ConstantTimeCompare(h.all[i].digest[:], digest[:]) == 1 {
			holder, found = h.all[i].holder, true
		}
	}
	return holder, found
}

// Presented answers the tokens in the headers of a call: those of
// X-Service-Token, then those of Authorization: Bearer.
func Presented(h http.Header) (tokens []string) {
	tokens = append(tokens, h["X-Service-Token"]...)
	for _, value := range h["Authorization"] {
		if token, is := Bearer(value); is {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// Bearer answers the token of an Authorization header. Another scheme is not for
// us, but for what stands before or behind.
func Bearer(value string) (token string, is bool) {
	scheme, token, _ := strings.Cut(strings.TrimLeft(value, " \t"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}
