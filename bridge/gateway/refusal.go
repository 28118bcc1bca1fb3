package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer of the gateway's own, in the envelope of Conduit. Its
// texts are fixed: nothing of the call, of the Phorge or of an error is in them.
type refusal struct {
	status     int
	code, info string
	wait       time.Duration // until it is worth trying again
}

const (
	codeCore  = "ERR-CONDUIT-CORE"
	codeAuth  = "ERR-CONDUIT-AUTH"
	codeRate  = "ERR-RATE-LIMIT"
	codeProxy = "ERR-CONDUIT-PROXY"
)

var (
	noToken    = &refusal{status: http.StatusUnauthorized, code: codeAuth, info: "The call has no valid service token. Send it as X-Service-Token, or as Authorization: Bearer."}
	noPath     = &refusal{status: http.StatusNotFound, code: codeCore, info: "There is nothing at this path. Methods are called at /api/ and their name, written plainly."}
	noMethod   = &refusal{status: http.StatusForbidden, code: codeAuth, info: "This service token is not for this method."}
	noVerb     = &refusal{status: http.StatusBadRequest, code: codeCore, info: "Methods are not called by this HTTP method. Use POST."}
	noUpgrade  = &refusal{status: http.StatusBadRequest, code: codeCore, info: "No other protocol is spoken here. Send the call without Upgrade."}
	tooLong    = &refusal{status: http.StatusRequestEntityTooLarge, code: codeCore, info: "The call is longer than is allowed here."}
	tooSlow    = &refusal{status: http.StatusBadRequest, code: codeCore, info: "The rest of the call did not come in time."}
	notWhole   = &refusal{status: http.StatusBadRequest, code: codeCore, info: "The call could not be read to its end."}
	noPhorge   = &refusal{status: http.StatusBadGateway, code: codeProxy, info: "Phorge cannot be reached. The call was not made."}
	latePhorge = &refusal{status: http.StatusBadGateway, code: codeProxy, info: "Phorge did not go on in time. Whether the call was carried out is not known."}
	badPhorge  = &refusal{status: http.StatusBadGateway, code: codeProxy, info: "The connection to Phorge broke, or what came was no answer. Whether the call was carried out is not known."}
)

// tooOften refuses a call until it is worth trying again.
func tooOften(wait time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, code: codeRate, info: "There were too many calls. Try again after as many seconds as Retry-After says.", wait: wait}
}

// refuse answers a call in the place of Phorge.
func (c *call) refuse(why *refusal) {
	c.status, c.code = why.status, why.code
	text := fmt.Sprintf(`{"result":null,"error_code":%q,"error_info":%q}`, why.code, why.info)
	h := c.w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case why.wait > 0:
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(why.wait.Seconds())), 10))
	case why == noToken:
		h.Set("WWW-Authenticate", "Bearer")
	}
	if c.body == nil && c.r.ContentLength != 0 {
		_ = c.control.SetReadDeadline(time.Now().Add(c.linger)) // net/http reads what is left of it
	}
	if c.mustClose() {
		h.Set("Connection", "close")
	}
	_ = c.control.SetWriteDeadline(time.Now().Add(c.config.Stall))
	c.w.WriteHeader(why.status)
	if c.r.Method != http.MethodHead {
		n, _ := c.w.Write([]byte(text)) // the caller may be gone
		c.sent += int64(n)
	}
}
