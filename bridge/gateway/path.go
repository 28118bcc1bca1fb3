package gateway

import (
	"net/url"
	"strings"
)

// maxMethod is the longest name of a method, in bytes. Phorge's longest has 41.
const maxMethod = 128

// methodOf answers the Conduit method that a path names. There is one way to
// write it: nothing escaped, no second slash, no empty part, so that nobody on
// the way can read another method in it than the one that was checked. A query
// with a space, which HTTP/2 lets through, would end the request line of
// HTTP/1.1.
func methodOf(u *url.URL) (method string, is bool) {
	method, is = strings.CutPrefix(u.Path, "/api/")
	return method, is && u.RawPath == "" && u.Opaque == "" && validMethod(method) && !strings.Contains(u.RawQuery, " ")
}

// validMethod says whether a text is a name such as differential.revision.search.
func validMethod(text string) bool {
	if len(text) > maxMethod {
		return false
	}
	part := 0
	for i := range len(text) {
		switch c := text[i]; {
		case letter(c), c == '-', c == '_':
			part++
		case c == '.' && part > 0:
			part = 0
		default:
			return false
		}
	}
	return part > 0
}

// letter says whether a byte is an ASCII letter or digit.
func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// withoutToken takes the parameters named token out of a query, and leaves the
// rest of it as it is, byte for byte.
func withoutToken(query string) (rest string, tokens []string) {
	var kept []string
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "token" {
			kept = append(kept, parameter)
			continue
		}
		if text, err := url.QueryUnescape(value); err == nil {
			value = text
		}
		tokens = append(tokens, value)
	}
	return strings.Join(kept, "&"), tokens
}
