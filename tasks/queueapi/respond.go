package queueapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// The codes of errors.
const (
	codeBadRequest    = "ERR_BAD_REQUEST"
	codeUnauthorized  = "ERR_UNAUTHORIZED"
	codeNotFound      = "ERR_NOT_FOUND"
	codeConflict      = "ERR_CONFLICT"
	codeLeaseConflict = "ERR_LEASE_CONFLICT"
	codeEventConflict = "ERR_EVENT_CONFLICT"
	codeTooLarge      = "ERR_TOO_LARGE"
	codeUnavailable   = "ERR_UNAVAILABLE"
	codeInternal      = "ERR_INTERNAL"
)

// answer is what a handler answers: data of the envelope and what stands beside
// it.
type answer struct {
	Data      any    `json:"data"`
	Next      string `json:"next,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`

	plain bool   // Data is the whole body
	bytes []byte // is the whole body, of this type:
	mime  string

	status int // 0 stands for 200

	// unheard is called when the answer cannot be written.
	unheard func()
}

// failure is an error as a caller sees it. The cause is for the log alone: it
// can name hosts, files and statements.
type failure struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	status     int
	retryAfter time.Duration
	cause      error
}

func (f *failure) Error() string {
	if f.cause != nil {
		return fmt.Sprintf("%s: %v", f.Code, f.cause)
	}
	return f.Code + ": " + f.Message
}

func (f *failure) Unwrap() error { return f.cause }

func refuse(status int, code, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...), status: status}
}

func badRequest(format string, args ...any) *failure {
	return refuse(http.StatusBadRequest, codeBadRequest, format, args...)
}

// errGone is for the log: nobody is there to read it.
var errGone = refuse(http.StatusServiceUnavailable, codeUnavailable, "the client went away")

// failureOf says to the caller what an error of the store means.
func failureOf(err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	f := explain(err)
	f.cause = err
	if f.status == http.StatusServiceUnavailable {
		f.retryAfter = time.Second
	}
	return f
}

func explain(err error) *failure {
	var size *tasks.SizeError
	switch {
	case errors.Is(err, tasks.ErrLeaseLost):
		return refuse(http.StatusConflict, codeLeaseConflict, "the lease is not held under this owner and fence any more, or has expired; nothing was changed")
	case errors.As(err, &size):
		return refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "data has %d bytes and the store takes %d; keep the content elsewhere and queue a reference to it", size.Size, size.Limit)
	case errors.Is(err, tasks.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "data is larger than the store takes; keep the content elsewhere and queue a reference to it")
	case errors.Is(err, tasks.ErrInvalid):
		return badRequest("the store cannot hold one of these values")
	case errors.Is(err, tasks.ErrNotFound):
		return refuse(http.StatusNotFound, codeNotFound, "there is no such task, neither active nor archived")
	case errors.Is(err, tasks.ErrArchived):
		return refuse(http.StatusConflict, codeConflict, "the task is archived already")
	case errors.Is(err, tasks.ErrKeyReused):
		return refuse(http.StatusConflict, codeConflict, "this Idempotency-Key was used for something else")
	case errors.Is(err, tasks.ErrNoKeys):
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "this queue is not set up to keep idempotency keys")
	case errors.Is(err, tasks.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "the queue cannot be reached or cannot work now; try again")
	}
	return refuse(http.StatusInternalServerError, codeInternal, "something went wrong; the log has it under this request id")
}

// respond writes an answer or an error.
func (c *call) respond(a answer, err error) {
	status, body, mime := max(a.status, http.StatusOK), a.bytes, a.mime
	var f *failure
	if err == nil && body == nil {
		var content any = a
		if a.plain {
			content = a.Data
		}
		body, err = encode(content)
		mime = "application/json"
	}
	if err != nil {
		f = failureOf(err)
		c.failed = f
		status, mime = f.status, "application/json"
		body, _ = encode(map[string]any{"error": f})
		if f.retryAfter > 0 {
			c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
		}
	}
	header := c.w.Header()
	header.Set("Content-Type", mime)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	c.status = status
	if a.unheard != nil && c.r.Context().Err() != nil {
		c.failed = errGone
		a.unheard()
		return
	}
	c.w.WriteHeader(status)
	n, err := c.w.Write(body)
	c.written = n
	if err == nil && a.unheard != nil {
		err = http.NewResponseController(c.w).Flush()
	}
	if err != nil && a.unheard != nil {
		c.failed = errGone
		a.unheard()
	}
}

// encode writes JSON as it is meant: without the escapes for pages of HTML.
func encode(content any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return text.Bytes(), nil
}
