package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// hasNoBody reports whether a response has no body, whatever its headers say.
func (h headers) hasNoBody() bool {
	return h.code < 200 || h.code == http.StatusNoContent || h.code == http.StatusNotModified
}

// all answers the values of a field.
func (h headers) all(name string) (values []string) {
	for i := range h.names {
		if strings.EqualFold(h.names[i], name) {
			values = append(values, h.values[i])
		}
	}
	return values
}

// bodyOf answers the body that belongs to headers, which ends by io.EOF, and by
// io.ErrUnexpectedEOF when the connection was closed before.
func bodyOf(r *bufio.Reader, h headers) (body io.Reader, keep bool, err error) {
	keep = h.minor == '1' && !strings.EqualFold(h.get("Connection"), "close")
	if h.hasNoBody() {
		return strings.NewReader(""), keep, nil
	}
	length, err := h.length()
	if err != nil {
		return nil, false, err
	}
	chunked, unknown := h.coding()
	if h.get("Transfer-Encoding") != "" {
		length = -1
	}
	switch {
	case chunked:
		body = &chunks{r: r}
	case length < 0:
		body, keep = untilClosed{r}, false
	default:
		body = &counted{r, length}
	}
	if unknown != "" {
		body = &unreadable{body, unknown}
	}
	return body, keep, nil
}

// decimal is what libcurl reads a length from; what stands behind it does not
// matter.
var decimal = regexp.MustCompile(`^ *\+?(\d+)`)

// length answers what the last Content-Length says, or -1 when there is none or
// it is beyond all bounds.
func (h headers) length() (length int64, err error) {
	length = -1
	for _, value := range h.all("Content-Length") {
		digits := decimal.FindStringSubmatch(value)
		if digits == nil {
			return 0, &curlError{codeServer, errors.New("Content-Length is no number")}
		}
		if length, err = strconv.ParseInt(digits[1], 10, 64); err != nil {
			length = -1
		}
	}
	return length, nil
}

// coding answers what the fields Transfer-Encoding say: whether the body is in
// chunks, and a coding that libcurl does not know. Those that it knows are not
// decoded here.
func (h headers) coding() (chunked bool, unknown string) {
	for _, value := range h.all("Transfer-Encoding") {
		for name := range strings.SplitSeq(strings.ToLower(value), ",") {
			switch name = strings.TrimSpace(name); name {
			case "chunked":
				chunked = true
			case "", "identity", "none", "gzip", "x-gzip", "deflate", "br":
			default:
				unknown = name
			}
		}
	}
	return chunked, unknown
}

// unreadable is a body in an unknown coding, which may be empty.
type unreadable struct {
	io.Reader
	coding string
}

func (u *unreadable) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if n > 0 {
		return 0, &curlError{codeEncoding, fmt.Errorf("an unknown transfer coding %.40q", u.coding)}
	}
	return 0, err
}

// untilClosed is a body that ends with the connection.
type untilClosed struct{ io.Reader }

func (u untilClosed) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && isEnd(err) {
		err = io.EOF
	}
	return n, err
}

// cut is the error of a body that had not ended when its reader did.
func cut(err error) error {
	if err != nil && isEnd(err) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// counted is a body of known length.
type counted struct {
	io.Reader
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); c.left == 0 {
		return n, nil
	}
	return n, cut(err)
}

// chunks is a body in chunks, with what follows the last one. It is read as
// libcurl reads it, which wants no carriage returns.
type chunks struct {
	r     *bufio.Reader
	left  int64 // of the chunk
	begun bool
}

var errChunk = errors.New("a chunk does not begin with its length, or does not end there")

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, cut(err)
}

// next goes from the end of one chunk to the start of the next one. The error
// is io.EOF when there is none.
func (c *chunks) next() error {
	if c.begun {
		if err := c.endOfLine(); err != nil {
			return err
		}
	}
	c.begun = true
	size, digits := int64(0), 0
	for ; ; digits++ {
		b, err := c.r.ReadByte()
		if err != nil {
			return cut(err)
		}
		digit, err := strconv.ParseInt(string(rune(b)), 16, 8)
		if err != nil {
			break
		}
		if digits == 16 || size > math.MaxInt64>>4 {
			return errChunk
		}
		size = size<<4 | digit
	}
	if digits == 0 {
		return errChunk
	}
	c.r.UnreadByte()
	for {
		_, err := c.r.ReadSlice('\n') // what stands behind the length
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return cut(err)
		}
	}
	if size > 0 {
		c.left = size
		return nil
	}
	return c.trailer()
}

func (c *chunks) endOfLine() error {
	for {
		switch b, err := c.r.ReadByte(); {
		case err != nil:
			return cut(err)
		case b == '\n':
			return nil
		case b != '\r':
			return errChunk
		}
	}
}

// trailer reads the fields behind the last chunk.
func (c *chunks) trailer() error {
	for received := 0; ; {
		switch first, err := c.r.Peek(1); {
		case err != nil:
			return cut(err)
		case first[0] == '\r' || first[0] == '\n':
			if err := c.endOfLine(); err != nil && !isEnd(err) {
				return err
			}
			return io.EOF
		}
		line, err := readLine(c.r, &received)
		if err != nil {
			return io.ErrUnexpectedEOF
		}
		if line[0] != ' ' && line[0] != '\t' && !strings.Contains(line, ":") {
			return &curlError{codeArgument, errors.New("what follows the last chunk is no header")}
		}
	}
}
