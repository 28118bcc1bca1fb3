package gateway

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// hops are the headers between two hosts only.
var hops = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// claims are the headers by which a caller could say who it is or where it came
// from, beside Forwarded and X-Forwarded-*. Phorge believes some from the
// address of the gateway, and code before it others.
var claims = map[string]bool{
	"Forwarded": true, "X-Real-Ip": true, "X-Client-Ip": true, "Client-Ip": true, "True-Client-Ip": true,
	"X-Cluster-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "X-Original-Forwarded-For": true,
	"X-Forwarded": true, "Forwarded-For": true, "X-Original-Url": true, "X-Rewrite-Url": true,
	"X-Phabricator-Cluster": true, // a request that a host of the cluster passes on
	"Proxy":                 true, // PHP sees HTTP_PROXY in it
}

// copyHeaders copies the headers that are for more than the next host.
func copyHeaders(to, from http.Header) {
	var named map[string]bool
	for _, value := range from["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if named == nil {
				named = map[string]bool{}
			}
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from {
		if !hops[name] && !named[name] {
			to[name] = values
		}
	}
}

// headers answers the headers of a call as the Phorge gets them.
func (g *Gateway) headers(r *http.Request, from netip.Addr) http.Header {
	h := make(http.Header, len(r.Header)+5)
	copyHeaders(h, r.Header)
	for name := range h {
		if claims[name] || strings.HasPrefix(name, "X-Forwarded-") || !plain(name) {
			delete(h, name)
		}
	}
	delete(h, "X-Service-Token")
	for _, value := range h["Authorization"] {
		if _, is := token.Bearer(value); is {
			delete(h, "Authorization")
			break
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, is := h[name]; is {
			// Phorge knows no such key. The transport would repeat the call for
			// it, and looks for it in this spelling only.
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	if _, is := h["User-Agent"]; !is {
		h["User-Agent"] = []string{""} // or net/http would make one up
	}
	setForwarded(h, r, from)
	return h
}

// setForwarded says where a call came from.
func setForwarded(h http.Header, r *http.Request, from netip.Addr) {
	proto, node, host := "http", "unknown", ""
	if r.TLS != nil {
		proto = "https"
	}
	if from.IsValid() {
		node = from.String()
		h["X-Forwarded-For"] = []string{node}
		if from.Is6() {
			node = `"[` + node + `]"`
		}
	}
	if r.Host != "" && !strings.ContainsFunc(r.Host, oddInHost) {
		host = `;host="` + r.Host + `"`
		h["X-Forwarded-Host"] = []string{r.Host}
	}
	h["X-Forwarded-Proto"] = []string{proto}
	h["Forwarded"] = []string{"for=" + node + host + ";proto=" + proto}
}

// oddInHost says whether a character has no place in a host with a port.
func oddInHost(c rune) bool {
	return c > 127 || !letter(byte(c)) && !strings.ContainsRune(".-_:[]", c)
}

// plain says whether a header name is of letters, digits and hyphens. PHP reads
// X_Forwarded_For as X-Forwarded-For.
func plain(name string) bool {
	for i := range len(name) {
		if !letter(name[i]) && name[i] != '-' {
			return false
		}
	}
	return true
}

// wantsUpgrade says whether a call asks to speak another protocol.
func wantsUpgrade(h http.Header) bool {
	if len(h["Upgrade"]) > 0 {
		return true
	}
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
				return true
			}
		}
	}
	return false
}
