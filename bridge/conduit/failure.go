package conduit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// credential is the one answer to everything that can be wrong with a key or a
// signature.
const credential = "ERR-GANTRY-CREDENTIAL"

// failure is why a call has no result.
type failure struct {
	method  string
	unbegun bool          // it is certain that the method did nothing
	status  int           // of the answer, if there was one
	code    string        // error_code of the envelope, if there was one
	after   time.Duration // how long the server wants to be left alone
	cause   error
}

func (f *failure) Error() string { return fmt.Sprintf("conduit: %s: %v", f.method, f.cause) }
func (f *failure) Unwrap() error { return f.cause }

// read answers the result of a whole answer, or a *failure.
func (c *client) read(method string, answer *http.Response, content []byte) (json.RawMessage, error) {
	failed := &failure{method: method, status: answer.StatusCode, after: retryAfter(answer.Header, c.now())}
	envelope, err := parseEnvelope(answer.StatusCode, answer.Header, content)
	switch {
	case err != nil:
		failed.cause = err
		failed.unbegun = answer.StatusCode == http.StatusTooManyRequests // that is its meaning
	case envelope.code != "":
		failed.code = envelope.code
		failed.cause = fmt.Errorf("it failed with %.64s (%.300q)%s", envelope.code, envelope.info, c.remedy(envelope, answer.Header))
		failed.unbegun = strings.HasPrefix(envelope.code, "ERR-GANTRY-") || envelope.code == "ERR-CONDUIT-CALL"
	default:
		return envelope.result, nil
	}
	return nil, failed
}

// remedy answers what a person can do about an error_code.
func (c *client) remedy(e envelope, header http.Header) string {
	switch e.code {
	case credential:
		return fmt.Sprintf("; check that key %q is in Phorge's gantry.key-file or gantry.keys with this secret, that its storage.default-namespace is %q%s",
			c.config.KeyID, c.config.Namespace, c.skew(header))
	case "ERR-GANTRY-ADDRESS":
		return "; add this host to gantry.allowed-addresses"
	case "ERR-GANTRY-TLS":
		return "; Phorge takes the request for plain http: use https, and let a proxy before Phorge say so"
	case "ERR-GANTRY-RATE":
		return "; too many requests from this host were refused: mend what the log said before"
	case "ERR-GANTRY-READ-ONLY":
		return "; it goes on when Phorge can write again"
	case "ERR-CONDUIT-CALL":
		return "; is Gantry's php/src in Phorge's load-libraries?"
	}
	return ""
}

// skew says how far the server's clock is from this one, when signatures cannot
// hold because of it.
func (c *client) skew(header http.Header) string {
	theirs, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return " and that the clocks agree"
	}
	if apart := c.now().Sub(theirs).Round(time.Second); apart.Abs() > 50*time.Second {
		return fmt.Sprintf(", and set the clocks: this host is %v from the server's time, and a signature holds for a minute", apart)
	}
	return " (the clocks agree); a request that waits longer than a minute for a free process of php-fpm is refused too"
}

// retryAfter answers how long the server asks to be left alone: 0 when it does
// not ask, or not for a time to come. Whoever waits caps it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(max(0, min(seconds, 1<<31))) * time.Second // more overflows
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
