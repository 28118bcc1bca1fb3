package conduit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minSecret is the shortest secret that the library accepts, in bytes.
const minSecret = 32

// Secret is the secret of a signing key. It prints as a placeholder. In an
// unexported field it would not, so it is kept in none.
type Secret string

const hidden = "(secret)"

// Format writes the placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText answers the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// signature is what the parameters of a signed request say beside its body.
type signature struct {
	KeyID     string `json:"keyID"`
	Timestamp int64  `json:"timestamp"`
	Nonce     string `json:"nonce"`
	Body      string `json:"body"`
	Signature string `json:"signature"`
}

// sign signs a body for one request. The nonce is 32 lower-case hex digits.
func (s Secret) sign(method, namespace, keyID, nonce, body string, now time.Time) signature {
	digest := sha256.Sum256([]byte(body))
	mac := hmac.New(sha256.New, []byte(s))
	mac.Write([]byte(strings.Join([]string{
		"gantry-1",
		method,
		namespace,
		keyID,
		strconv.FormatInt(now.Unix(), 10),
		nonce,
		hex.EncodeToString(digest[:]),
	}, "\n")))
	return signature{
		KeyID:     keyID,
		Timestamp: now.Unix(),
		Nonce:     nonce,
		Body:      body,
		Signature: hex.EncodeToString(mac.Sum(nil)),
	}
}
