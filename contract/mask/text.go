package mask

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// What is recognised within a text, in the order in which it is tried: a PHID, a
// URL, an e-mail address, an IP address.
var (
	phid  = `PHID-TOKN-[a-z]+-[0-9]|PHID-[A-Z0-9]{4}-(?:[A-Z0-9]{4}-)?[A-Za-z0-9]{1,40}`
	found = regexp.MustCompile(`(` + phid + `)` +
		`|([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>\x60{}|\\^]+)` +
		`|([^\s@<>"'(),;:\\/=]+@[^\s@<>"'(),;:\\/=]+\.[^\s@<>"'(),;:\\/=.]+)` +
		`|(\b\d{1,3}(?:\.\d{1,3}){3}\b|[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)`)

	onlyPHIDs = regexp.MustCompile(phid)
)

// text masks a text that stands at a place.
func (m *Masker) text(at place, text string) string {
	switch {
	case !strings.Contains(text, braces) && (m.keep.wants(at) || m.keep.likes(text)):
		return m.phids(text)
	case kept(text):
		return text
	case wholeNumber.MatchString(text):
		return m.number(at, text)
	case isDocument(text):
		return m.document(at, text)
	}
	return m.pieces(text)
}

// isDocument reports whether a text is JSON with something in it.
func isDocument(text string) bool {
	trimmed := strings.TrimSpace(text)
	return trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(text))
}

// phids masks the PHIDs of a text that is kept otherwise: rows and data go on
// referring to one another.
func (m *Masker) phids(text string) string {
	return onlyPHIDs.ReplaceAllStringFunc(text, m.phid)
}

// pieces masks what is recognised in a text, and what stands between.
func (m *Masker) pieces(text string) string {
	var out strings.Builder
	rest := 0
	for _, at := range found.FindAllStringSubmatchIndex(text, -1) {
		piece, end := text[at[0]:at[1]], at[1]
		masked := ""
		switch {
		case at[2] >= 0:
			masked = m.phid(piece)
		case at[4] >= 0:
			piece = strings.TrimRight(piece, ".,;:!?)]")
			end = at[0] + len(piece)
			masked = m.url(piece)
		case at[6] >= 0:
			masked = m.email(piece)
		default:
			ip, err := netip.ParseAddr(piece)
			if err != nil {
				continue // it is masked with what is around it
			}
			masked = m.ip(ip)
		}
		out.WriteString(m.free(text[rest:at[0]]))
		out.WriteString(masked)
		rest = end
	}
	out.WriteString(m.free(text[rest:]))
	return out.String()
}

// free masks text in which nothing is recognised, but for the punctuation and
// the white space around it.
func (m *Masker) free(text string) string {
	if kept(text) {
		return text
	}
	head, inner, tail := "", text, ""
	if begin := strings.IndexFunc(text, telling); begin >= 0 {
		last := strings.LastIndexFunc(text, telling)
		_, size := utf8.DecodeRuneInString(text[last:])
		if h, t := text[:begin], text[last+size:]; isSeparator(h) && isSeparator(t) {
			head, inner, tail = h, text[begin:last+size], t
		}
	}
	if kept(inner) {
		return text
	}
	return head + m.secret(inner) + tail
}

// secret masks a text, whatever it is.
func (m *Masker) secret(text string) string {
	if text == "" {
		return ""
	}
	kind := "text"
	if isToken(text) || isHex(text) {
		kind = "token"
	}
	return m.standIn(kind, text, func(n, try int) string { return shaped(text, n, try) })
}

// phid masks a PHID. What it is of stays if Phorge knows of that, and so does its
// length. Those of applications and of tokens are the same everywhere.
func (m *Masker) phid(phid string) string {
	if names[phid] || names[strings.TrimPrefix(phid, "PHID-APPS-")] {
		return phid
	}
	parts := strings.Split(phid, "-") // PHID, the kind, for transactions the kind of object, and its own
	of, own := parts[:2], strings.Join(parts[2:], "-")
	if len(parts) == 4 && len(parts[2]) == len(parts[1]) {
		of, own = parts[:3], parts[3]
	}
	for i := 1; i < len(of); i++ {
		of[i] = m.phidKind(of[i])
	}
	prefix := strings.Join(of, "-") + "-"
	return m.standIn("phid "+prefix, own, func(n, try int) string {
		return prefix + fmt.Sprintf("%0*d", len(own), n+try)
	})
}

// phidKind masks a kind of PHIDs that a site has made for itself.
func (m *Masker) phidKind(kind string) string {
	if name := "PHID-" + kind; names[name] || m.keep.likes(name) {
		return kind
	}
	return m.standIn("kind", kind, func(n, try int) string {
		n += try
		return string([]byte{'Z', 'A' + byte(n/676%26), 'A' + byte(n/26%26), 'A' + byte(n%26)})
	})
}

func (m *Masker) email(address string) string {
	local, domain, _ := strings.Cut(address, "@")
	person := m.standIn("email", strings.ToLower(local), func(n, try int) string { return fmt.Sprintf("person%d", n+try) })
	return person + "@" + m.host(domain)
}

// host masks the name of a host or its address. Whether a name has a domain
// stays, because it is looked up in another way then.
func (m *Masker) host(name string) string {
	if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		if masked := m.ip(ip); ip.Is6() {
			return "[" + masked + "]"
		} else {
			return masked
		}
	}
	bare := strings.ToLower(strings.TrimSuffix(name, "."))
	if bare == "" || bare == "localhost" || bare == "localhost.localdomain" {
		return name
	}
	masked := m.standIn("host", bare, func(n, try int) string {
		word := "host"
		if strings.ContainsFunc(bare, func(r rune) bool { return r >= utf8.RuneSelf }) {
			word = "höst"
		}
		if !strings.Contains(bare, ".") {
			return fmt.Sprintf("%s%d", word, n+try)
		}
		return fmt.Sprintf("%s%d.example", word, n+try)
	})
	if strings.HasSuffix(name, ".") {
		masked += "."
	}
	return masked
}

// networks are where stand-ins of addresses come from: what kind of network an
// address is in decides what Phorge does with it. An address in none of them is
// a public one.
var networks = []struct{ of, from netip.Prefix }{
	{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/16")},
	{netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("172.16.0.0/16")},
	{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("192.168.0.0/16")},
	{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("127.1.0.0/16")},
	{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("169.254.0.0/16")},
	{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("100.64.0.0/16")},
	{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("198.18.0.0/16")}, // for tests of networks
	{netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("::ffff:198.18.0.0/112")},
	{netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fd00::/112")},
	{netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fe80::/112")},
	{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/112")}, // for documents
}

func (m *Masker) ip(ip netip.Addr) string {
	if ip = ip.WithZone(""); ip.IsUnspecified() || ip == netip.MustParseAddr("127.0.0.1") || ip == netip.IPv6Loopback() {
		return ip.String()
	}
	for _, network := range networks {
		if network.of.Contains(ip) {
			return m.standIn("ip "+network.of.String(), ip.String(), func(n, try int) string {
				bytes := network.from.Addr().AsSlice()
				bytes[len(bytes)-2], bytes[len(bytes)-1] = byte((n+try)>>8), byte(n+try)
				masked, _ := netip.AddrFromSlice(bytes)
				return masked.String()
			})
		}
	}
	return m.free(ip.String())
}

// schemes are kept; another one is a text.
var schemes = map[string]bool{"http": true, "https": true, "ssh": true, "git": true, "svn": true, "svn+ssh": true, "file": true, "ftp": true}

// url masks a URL in its parts. One that cannot be parsed is a text.
func (m *Masker) url(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || !schemes[strings.ToLower(parsed.Scheme)] {
		return m.free(text)
	}
	scheme, _, _ := strings.Cut(text, "://")
	var out strings.Builder
	out.WriteString(scheme + "://")
	if parsed.User != nil {
		out.WriteString(url.PathEscape(m.free(parsed.User.Username())))
		if password, ok := parsed.User.Password(); ok {
			out.WriteString(":" + url.PathEscape(m.secret(password)))
		}
		out.WriteString("@")
	}
	out.WriteString(m.host(bracketed(parsed.Hostname())))
	if _, port, ok := strings.Cut(parsed.Host[strings.LastIndexByte(parsed.Host, ']')+1:], ":"); ok {
		out.WriteString(":" + m.port(port))
	}
	for i, segment := range strings.Split(parsed.EscapedPath(), "/") {
		if i > 0 {
			out.WriteString("/")
		}
		out.WriteString(m.escaped(segment, url.PathUnescape, url.PathEscape))
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		out.WriteString("?" + m.query(parsed.RawQuery))
	}
	if parsed.Fragment != "" {
		out.WriteString("#" + m.escaped(parsed.EscapedFragment(), url.PathUnescape, url.PathEscape))
	}
	return out.String()
}

// ports are those of the protocols that Phorge speaks. Another one can say whose
// server it is.
var ports = wordSet("22 25 80 443 465 587 993 2222 3306 3690 5432 8000 8080 8443 9418")

func (m *Masker) port(port string) string {
	if port == "" || ports[port] {
		return port
	}
	return m.standIn("number", port, func(n, try int) string { return number(min(len(port), 5), n, try) })
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func (m *Masker) query(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, value, assigned := strings.Cut(pair, "=")
		if !kept(key) {
			key = m.escaped(key, url.QueryUnescape, url.QueryEscape)
		}
		if assigned {
			key += "=" + m.escaped(value, url.QueryUnescape, url.QueryEscape)
		}
		pairs[i] = key
	}
	return strings.Join(pairs, "&")
}

// escaped masks a part of a URL.
func (m *Masker) escaped(part string, unescape func(string) (string, error), escape func(string) string) string {
	text, err := unescape(part)
	if err != nil {
		return m.free(part)
	}
	if kept(text) {
		return part
	}
	return escape(m.pieces(text))
}
