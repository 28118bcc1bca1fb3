package fetch

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// target is where one request goes: a URL as libcurl reads it.
type target struct {
	scheme  string // http or https
	login   string // user:password, decoded and maybe empty; "" when there is none
	host    string // as in the URL, but IPv4 addresses in their usual form
	port    string // a number, never empty
	request string // path and query, as the request line has them
}

// badURL answers the error of libcurl for a URL that it cannot read.
func badURL(why string) error { return &curlError{codeURL, errors.New(why)} }

// parseTarget reads a URL. In one that came with a redirect libcurl encodes
// what the receiver did not; in the URL of the caller it encodes the path alone
// and refuses spaces.
func parseTarget(text string, redirect bool) (target, error) {
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f || text[i] == ' ' && !redirect {
			return target{}, badURL("the URL holds a space or a control character")
		}
	}
	scheme, rest, ok := strings.Cut(text, ":")
	slashes := len(rest) - len(strings.TrimLeft(rest, "/"))
	t := target{scheme: strings.ToLower(scheme)}
	switch {
	case !ok:
		return target{}, badURL("the URL has no protocol")
	case t.scheme != "http" && t.scheme != "https":
		return target{}, &curlError{codeProtocol, errors.New("the protocol is neither http nor https")}
	case slashes < 1 || slashes > 3:
		return target{}, badURL("the protocol is not followed by //")
	}
	rest, _, _ = strings.Cut(rest[slashes:], "#")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if err := t.authority(rest[:end]); err != nil {
		return target{}, err
	}
	path, query, asked := strings.Cut(rest[end:], "?")
	t.request = encode(removeDots(path), "%20")
	if asked {
		if redirect {
			query = encode(query, "+")
		}
		if query != "" || !redirect {
			t.request += "?" + query
		}
	}
	return t, nil
}

// notInHost are characters that libcurl refuses in the name of a host.
const notInHost = " \r\n\t/:#?!@{}[]\\$'\"^`*<>=;,+&()"

func (t *target) authority(text string) error {
	login, host, ok := strings.Cut(text, "@")
	if ok {
		user, password, _ := strings.Cut(login, ":")
		t.login = decode(user) + ":" + decode(password)
	} else {
		host = text
	}
	if strings.IndexByte(t.login, 0) >= 0 {
		return badURL("the login holds a null byte")
	}
	host, rest, err := splitHost(host)
	if err != nil {
		return err
	}
	t.host, t.port = host, strings.TrimPrefix(rest, ":")
	switch {
	case t.port != "":
		number, err := strconv.ParseUint(t.port, 10, 16)
		if err != nil {
			return badURL("the port is no number from 0 to 65535")
		}
		t.port = strconv.FormatUint(number, 10)
	case t.scheme == "https":
		t.port = "443"
	default:
		t.port = "80"
	}
	return nil
}

// splitHost separates the host of an authority from its port.
func splitHost(text string) (host, port string, err error) {
	if strings.HasPrefix(text, "[") {
		host, port, ok := strings.Cut(text[1:], "]")
		if _, err := netip.ParseAddr(host); err != nil || !ok || port != "" && port[0] != ':' {
			return "", "", badURL("the URL holds no IPv6 address between [ and ]")
		}
		return "[" + host + "]", port, nil
	}
	host, port, _ = strings.Cut(text, ":")
	host = decode(host)
	if host == "" || strings.ContainsAny(host, notInHost) {
		return "", "", badURL("the URL has no host, or one that cannot be")
	}
	if address, ok := parseIPv4(host); ok {
		host = address.String()
	}
	return host, port, nil
}

// hostHeader answers the value of the header Host.
func (t target) hostHeader() string {
	if t.scheme == "http" && t.port == "80" || t.scheme == "https" && t.port == "443" {
		return t.host
	}
	return t.host + ":" + t.port
}

// origin is what two targets have in common that are served by the same server.
func (t target) origin() string { return t.scheme + "://" + strings.ToLower(t.host) + ":" + t.port }

// url answers the target without its login, for an http.Request. Its Opaque
// keeps the bytes of the path and the query.
func (t target) url() *url.URL {
	return &url.URL{Scheme: t.scheme, Host: t.hostHeader(), Opaque: "//" + t.hostHeader() + t.request}
}

func (t target) authorization() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(t.login))
}

// follow answers where a Location leads from here.
func (t target) follow(location string) (target, error) {
	here := t.scheme + "://" + t.hostHeader()
	path, _, _ := strings.Cut(t.request, "?")
	switch {
	case isAbsolute(location):
		return parseTarget(location, true)
	case strings.HasPrefix(location, "//"):
		return parseTarget(t.scheme+":"+location, true)
	case strings.HasPrefix(location, "/"):
		return parseTarget(here+location, true)
	case strings.HasPrefix(location, "?"):
		return parseTarget(here+path+location, true)
	}
	return parseTarget(here+path[:strings.LastIndexByte(path, '/')+1]+location, true)
}

// isAbsolute reports whether a Location begins with the name of a protocol.
func isAbsolute(location string) bool {
	scheme, _, ok := strings.Cut(location, ":")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range []byte(strings.ToLower(scheme)) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c != '+' && c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}

// removeDots resolves . and .. in a path, as RFC 3986 has it. What is encoded
// stays.
func removeDots(path string) string {
	if path == "" {
		return "/"
	}
	var kept []string
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
			if last {
				kept = append(kept, "")
			}
		case ".":
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, part)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// encode encodes spaces and what is beyond ASCII, and nothing else.
func encode(text, space string) string {
	const hex = "0123456789abcdef"
	var encoded strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == ' ':
			encoded.WriteString(space)
		case c >= 0x80:
			encoded.Write([]byte{'%', hex[c>>4], hex[c&15]})
		default:
			encoded.WriteByte(c)
		}
	}
	return encoded.String()
}

// decode resolves %XX, and leaves a % alone that is not followed by two digits.
func decode(text string) string {
	var decoded strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				decoded.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		decoded.WriteByte(text[i])
	}
	return decoded.String()
}
