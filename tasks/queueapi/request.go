package queueapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// body reads the whole body, which must be JSON that is not read as something
// else than was meant: no bytes that are not UTF-8, no halves of surrogate pairs.
func (c *call) body() ([]byte, error) {
	if c.r.ContentLength > c.MaxBody {
		return nil, c.tooLarge()
	}
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, badRequest("Content-Encoding %.40q is not understood; send the body as it is", encoding)
	}
	var body bytes.Buffer
	_, err := io.Copy(&body, &meter{http.MaxBytesReader(c.w, c.r.Body, c.MaxBody), c})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, c.tooLarge()
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return nil, err
	}
	if err != nil {
		f := badRequest("the body did not arrive whole")
		f.cause = err
		return nil, f
	}
	if len(bytes.TrimSpace(body.Bytes())) == 0 {
		return nil, nil
	}
	// A page that a browser shows can send other types to any address.
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, badRequest("Content-Type must be application/json")
	}
	if values(body.Bytes()) > valuesPerTask*c.MaxTasks {
		return nil, refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body has more than %d values; say it in several calls", valuesPerTask*c.MaxTasks)
	}
	if err := tasks.CheckData(body.Bytes()); err != nil {
		return nil, badRequest("the body cannot be read: %.200s", err)
	}
	return body.Bytes(), nil
}

// valuesPerTask is how many values a body may hold for each of the tasks that it
// may name. One byte can be a value, and takes fifty once it is read.
const valuesPerTask = 256

// values answers how many values there are about in JSON.
func values(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

func (c *call) tooLarge() *failure {
	return refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body has more than %d bytes", c.MaxBody)
}

// smallBody is the most that is taken of a body, in bytes, while others fill what
// all may hold, unless that is less than eight of these: workers settle with short
// bodies, and whoever sends large ones slowly is not to stop them.
const smallBody = 64 << 10

// meter counts the bytes of all the bodies that are held.
type meter struct {
	io.Reader
	c *call
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.c.held += int64(n)
	if m.c.bodies.Add(int64(n)) > m.c.MaxBodies && m.c.held > min(smallBody, m.c.MaxBodies/8) {
		f := refuse(http.StatusServiceUnavailable, codeUnavailable, "too many large requests are being handled; try again")
		f.retryAfter = time.Second
		return n, f
	}
	return n, err
}

// decode reads the body into a struct. Fields that mean nothing are refused: a
// task whose delayUntil is misspelt would run at once. PHP writes an empty map
// as an empty list, so that is accepted for one.
func (c *call) decode(into any) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	if trimmed := bytes.Join(bytes.Fields(body), nil); len(body) < 16 && (len(trimmed) == 0 || string(trimmed) == "[]") {
		body = []byte("{}")
	}
	return unmarshal(body, into)
}

func unmarshal(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*failure](err); ok {
		return refused
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest("the body cannot be read: %.80q is a %.40s; it must be %s", wrong.Field, wrong.Value, named(wrong.Type.String()))
	}
	return badRequest("the body cannot be read: %.200s", strings.TrimPrefix(err.Error(), "json: "))
}

// named says in the words of JSON what a Go type is.
func named(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int") || kind == "queueapi.number":
		return "a whole number"
	case kind == "string", kind == "bool":
		return "a " + kind
	case strings.HasPrefix(kind, "[]"):
		return "a list"
	}
	return "an object"
}

// number is a whole number that may come as text, as loosely typed languages
// send it.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil // as absent
	}
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	value, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return badRequest("the body cannot be read: %.40q is no whole number", text)
	}
	*n = number(value)
	return nil
}

// owner answers how the caller calls itself: X-Lease-Owner, else its address.
func (c *call) owner() (string, error) {
	name := c.r.Header.Get("X-Lease-Owner")
	if name == "" {
		address := c.address()
		if !address.IsValid() {
			return "", badRequest("say who leases in X-Lease-Owner")
		}
		name = address.String()
	}
	if err := (tasks.Caller{Name: name}).Check(); err != nil {
		return "", badRequest("X-Lease-Owner: %s", strings.TrimPrefix(err.Error(), tasks.ErrInvalid.Error()+": "))
	}
	return name, nil
}

// address answers where the call comes from; the zero value when that is no
// address.
func (c *call) address() netip.Addr {
	from, _ := netip.ParseAddrPort(c.r.RemoteAddr)
	return from.Addr().Unmap().WithZone("")
}

// whole reads a query parameter that is a whole number.
func (c *call) whole(name string, absent, least, most int64) (int64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badRequest("%s must be a whole number from %d to %d", name, least, most)
	}
	return n, nil
}
