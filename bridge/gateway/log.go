package gateway

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// tell says that a call is over.
func (c *call) tell() {
	took := c.now().Sub(c.began)
	c.log(took)
	if c.config.Called != nil {
		c.config.Called(c.method, c.status, took)
	}
}

// log writes the one line of a call.
func (c *call) log(took time.Duration) {
	caller := ""
	if c.caller != nil {
		caller = c.caller.name
	}
	line := c.config.Log.Info()
	if c.cause != "" {
		line = c.config.Log.Warn()
	}
	line = line.Str("method", c.method).Str("caller", caller).Int("status", c.status).
		Dur("took", took).Int64("sent", c.sent)
	if c.body != nil {
		line = line.Int64("received", c.body.read.Load())
	}
	if c.from.IsValid() {
		line = line.Stringer("from", c.from)
	}
	if c.code != "" {
		line = line.Str("refused", c.code)
	}
	if c.cause != "" {
		line = line.Str("cause", c.cause)
	}
	line.Msg("call")
}

// reason says for an administrator why a call did not come to its end. Only the
// text of an error about the network, or a certificate, is in it: others quote
// what was sent.
func reason(ctx context.Context, err error) string {
	var caller *callerError
	var network *net.OpError
	switch {
	case context.Cause(ctx) == errLate:
		return errLate.Error()
	case errors.Is(err, errTooLong):
		return errTooLong.Error()
	case errors.As(err, &caller) && errors.Is(err, os.ErrDeadlineExceeded):
		return "the caller did not read on in time"
	case errors.As(err, &caller), ctx.Err() != nil:
		return "the caller left"
	case errors.As(err, &network), untrusted(err):
		return err.Error()
	}
	return "the Phorge broke off, or its answer is not one of HTTP"
}
