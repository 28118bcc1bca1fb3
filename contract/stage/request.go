package stage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
)

// maxHead and maxBody bound what a receiver takes, in bytes.
const (
	maxHead = 1 << 20
	maxBody = 64 << 20
)

var errTooLong = errors.New("the request is too long for a receiver")

// readRequest reads a request as it is on the wire. net/http would hide the
// bytes of the target, headers that it acts upon, and more. w takes what a
// client that asks first waits for.
func readRequest(r *bufio.Reader, w io.Writer) (contract.Request, error) {
	request := contract.Request{Headers: map[string]string{}}
	left := maxHead
	line, err := readLine(r, &left)
	if err != nil {
		return request, err
	}
	method, rest, ok := strings.Cut(line, " ")
	end := strings.LastIndexByte(rest, ' ')
	if !ok || end < 0 || !strings.HasPrefix(rest[end+1:], "HTTP/") {
		return request, fmt.Errorf("%.80q is no request line", line)
	}
	request.Method, request.Target = method, rest[:end]
	if version := rest[end+1:]; version != "HTTP/1.1" {
		request.Version = version
	}
	var order []string
	for {
		if line, err = readLine(r, &left); err != nil {
			return request, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return request, fmt.Errorf("%.80q is no header", line)
		}
		order = append(order, name)
		// One blank stands behind the colon; more are those of whoever wrote it.
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.TrimPrefix(value, " ")
		if before, twice := request.Headers[name]; twice {
			value = before + ", " + value
		}
		request.Headers[name] = value
	}
	request.Order = strings.Join(order, ", ")
	if strings.EqualFold(blank(request.Headers["Expect"]), "100-continue") {
		if _, err := io.WriteString(w, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return request, err
		}
	}
	request.Body, err = readBody(r, request.Headers)
	return request, err
}

// blank is the value of a header without the blanks around it, which mean nothing.
func blank(value string) string { return strings.Trim(value, " \t") }

func readBody(r *bufio.Reader, headers map[string]string) (string, error) {
	if strings.EqualFold(blank(headers["Transfer-Encoding"]), "chunked") {
		return readChunks(r)
	}
	length, given := headers["Content-Length"]
	if !given {
		return "", nil
	}
	n, err := strconv.ParseUint(blank(length), 10, 63)
	if err != nil {
		return "", fmt.Errorf("Content-Length: %w", err)
	}
	return readN(r, n)
}

// surplusOf answers what came behind a request on its connection: requests, as
// far as the bytes are some, and in the body of a last one those that are none.
func surplusOf(receiver, surplus string) []contract.Request {
	var requests []contract.Request
	for surplus != "" {
		rest := strings.NewReader(surplus)
		r := bufio.NewReader(rest)
		request, err := readRequest(r, io.Discard)
		if err != nil {
			return append(requests, contract.Request{Receiver: receiver, Headers: map[string]string{}, Body: surplus})
		}
		request.Receiver = receiver
		requests = append(requests, request)
		surplus = surplus[len(surplus)-rest.Len()-r.Buffered():]
	}
	return requests
}

// readChunks reads a body that comes in pieces, and what follows it.
func readChunks(r *bufio.Reader) (string, error) {
	var body strings.Builder
	for {
		left := maxHead
		line, err := readLine(r, &left)
		if err != nil {
			return "", err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 63)
		if err != nil {
			return "", fmt.Errorf("the size of a chunk: %w", err)
		}
		if n == 0 {
			break
		}
		chunk, err := readN(r, n)
		if err != nil {
			return "", err
		}
		body.WriteString(chunk)
		if body.Len() > maxBody {
			return "", errTooLong
		}
		if _, err := readLine(r, &left); err != nil {
			return "", err
		}
	}
	for left := maxHead; ; {
		if line, err := readLine(r, &left); err != nil || line == "" {
			return body.String(), err
		}
	}
}

func readN(r *bufio.Reader, n uint64) (string, error) {
	if n > maxBody {
		return "", errTooLong
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return string(body), err
}

// readLine reads up to the end of a line, which it drops.
func readLine(r *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if *left -= len(part); *left < 0 {
			return "", errTooLong
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return "", err
		default:
			return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
		}
	}
}
