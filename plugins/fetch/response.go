package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"

	"regexp"
	"strconv"
	"strings"
)

// libcurl's limits on the headers of a response, in bytes.
const (
	maxHeader  = 100 << 10
	maxHeaders = 300 << 10
)

// statusLine is what libcurl takes for the first line of a response.
var statusLine = regexp.MustCompile(`^HTTP/(1\.[01]|2(?:\.0)?) ([1-9]\d\d)(?:\D|$)`)

// headers are the first lines of a response: a status, and fields in their
// order.
type headers struct {
	code   int
	minor  byte // of the version: '0' of HTTP/1.0
	names  []string
	values []string
}

// readResponse reads a response to its end and answers its status and its
// Location: nobody here wants the body, but it must be one. keep says that the
// connection can be used again.
func readResponse(r *bufio.Reader) (response *http.Response, keep bool, err error) {
	var counts headers // what Phorge takes for the response
	for {
		h, err := readHeaders(r)
		if err != nil {
			return nil, false, err
		}
		// libcurl passes over all interim responses, Phorge only over these.
		if counts.code == 0 && h.code != http.StatusContinue {
			counts = h
		}
		if h.code >= 200 || h.code == http.StatusSwitchingProtocols {
			if h.code == http.StatusSwitchingProtocols {
				if _, err := r.Peek(1); err != nil {
					return nil, false, &curlError{codeNothing, err}
				}
			}
			location := http.Header{}
			if value := h.location(); value != "" {
				location.Set("Location", value)
			}
			if isRedirect(counts.code, location) {
				keep, err = skipBody(r, h)
			} else {
				keep, err = readBody(r, h, counts.get("Content-Encoding") == "gzip")
			}
			if err != nil {
				return nil, false, err
			}
			return &http.Response{StatusCode: counts.code, Header: location, Body: http.NoBody}, keep, nil
		}
	}
}

// readHeaders reads the lines up to the empty one.
func readHeaders(r *bufio.Reader) (headers, error) {
	var h headers
	for received := 0; ; {
		line, err := readLine(r, &received)
		if err != nil {
			return h, err
		}
		if h.code == 0 {
			match := statusLine.FindStringSubmatch(line)
			if match == nil {
				return h, &curlError{codeProtocol, fmt.Errorf("the response begins with %.40q", line)}
			}
			h.code, _ = strconv.Atoi(match[2])
			h.minor = match[1][len(match[1])-1]
			continue
		}
		if line == "" {
			return h, nil
		}
		name, value, ok := strings.Cut(line, ":")
		switch {
		case strings.IndexByte(line, 0) >= 0:
			return h, &curlError{codeServer, errors.New("a header holds a null byte")}
		case len(h.names) > 0 && (line[0] == ' ' || line[0] == '\t'):
			continue // the rest of a folded header; none that matters is folded
		case !ok:
			return h, &curlError{codeServer, errors.New("a header has no colon")}
		}
		h.names = append(h.names, name)
		h.values = append(h.values, strings.TrimLeft(value, " \t"))
	}
}

func readLine(r *bufio.Reader, received *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		*received += len(part)
		switch {
		case len(line) > maxHeader:
			return "", &curlError{codeMemory, errors.New("a header is too long")}
		case *received > maxHeaders:
			return "", &curlError{codeReceive, errors.New("the headers are too long")}
		case err == nil:
			return string(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))), nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case *received == 0 && isEnd(err):
			return "", &curlError{codeNothing, &silentError{err}}
		case *received == 0:
			return "", &curlError{codeReceive, &silentError{err}}
		case isEnd(err) && *received > len(line):
			return "", &parseError{"the response ends within its headers"}
		case isEnd(err) && looksLikeHTTP(line):
			return "", &curlError{codeNothing, errors.New("the response ends within its first line")}
		case isEnd(err):
			return "", &curlError{codeProtocol, errors.New("the response is no HTTP")}
		}
		return "", &curlError{codeReceive, err}
	}
}

// isEnd reports whether the other side closed the connection in order. TLS
// without its own goodbye counts as that.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// looksLikeHTTP reports whether a response that begins so can be one.
func looksLikeHTTP(line []byte) bool {
	const start = "HTTP/"
	return bytes.HasPrefix(line, []byte(start)) || strings.HasPrefix(start, string(line))
}

// get answers the first value of a field.
func (h headers) get(name string) string {
	for i := range h.names {
		if strings.EqualFold(h.names[i], name) {
			return h.values[i]
		}
	}
	return ""
}

// location answers the first Location that is not empty.
func (h headers) location() string {
	for i, name := range h.names {
		if value := strings.TrimSpace(h.values[i]); value != "" && strings.EqualFold(name, "Location") {
			return value
		}
	}
	return ""
}

// isRedirect reports whether a response is one that leads on.
func isRedirect(code int, header http.Header) bool {
	return code >= 300 && code <= 399 && header.Get("Location") != ""
}

// skipBody passes over the body of a redirect. It does not matter what is in it,
// nor whether it is complete. When the connection ends with it, libcurl goes on
// as soon as it begins, and otherwise reads on, to use the connection again.
func skipBody(r *bufio.Reader, h headers) (keep bool, err error) {
	body, keep, err := bodyOf(r, h)
	if err != nil {
		return false, err
	}
	if c, ok := body.(*counted); h.hasNoBody() || ok && c.left == 0 {
		return keep, nil
	}
	if !keep {
		if _, err := r.Peek(1); err != nil && !isEnd(err) {
			return false, &curlError{codeReceive, err}
		}
		return false, nil
	}
	fault := &faultReader{r: body}
	if _, err := io.Copy(io.Discard, fault); err == nil {
		return true, nil
	}
	if _, ok := body.(*counted); ok && isEnd(fault.fault) {
		return false, nil
	}
	return false, fault.curl()
}

// readBody reads a body to its end. Phorge decodes it when it says that it is
// gzip, and takes no response for one that is not.
func readBody(r *bufio.Reader, h headers, zipped bool) (keep bool, err error) {
	body, keep, err := bodyOf(r, h)
	if err != nil {
		return false, err
	}
	fault := &faultReader{r: body}
	var unzip error
	if zipped {
		unzip = discardZipped(fault)
	}
	if _, err := io.Copy(io.Discard, fault); err != nil {
		return false, fault.curl()
	}
	if unzip != nil {
		return false, &parseError{"the body is no gzip: " + unzip.Error()}
	}
	return keep, nil
}

// discardZipped decodes the first gzip member, as gzdecode does.
func discardZipped(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	z.Multistream(false)
	_, err = io.Copy(io.Discard, z)
	return err
}

// faultReader keeps the error by which its reader ended.
type faultReader struct {
	r     io.Reader
	fault error
}

func (f *faultReader) Read(p []byte) (int, error) {
	if f.fault != nil {
		return 0, f.fault
	}
	n, err := f.r.Read(p)
	f.fault = err
	return n, err
}

func (f *faultReader) curl() error {
	var curl *curlError
	if errors.As(f.fault, &curl) {
		return curl
	}
	if errors.Is(f.fault, io.ErrUnexpectedEOF) {
		return &curlError{codePartial, f.fault}
	}
	return &curlError{codeReceive, f.fault}
}
