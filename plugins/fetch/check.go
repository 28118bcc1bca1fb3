package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Blacklist is security.outbound-blacklist: netblocks that are never called.
type Blacklist struct{ blocks []netip.Prefix }

var blockForm = regexp.MustCompile(`^[\d.:a-fA-F]+/(0|[1-9]\d*)$`)

// ParseBlacklist reads netblocks in CIDR notation, as PhutilCIDRList. The error
// names the block that is none.
func ParseBlacklist(blocks []string) (Blacklist, error) {
	var b Blacklist
	for _, text := range blocks {
		block, err := netip.ParsePrefix(text)
		// Unlike netip, Phorge knows no IPv6 address that ends in an IPv4 one.
		if err != nil || !blockForm.MatchString(text) || strings.Contains(text, ":") && strings.Contains(text, ".") {
			return Blacklist{}, fmt.Errorf("CIDR block %q is not formatted correctly; expected an IP block in CIDR notation, like 172.30.0.0/16", text)
		}
		b.blocks = append(b.blocks, block.Masked())
	}
	return b, nil
}

func (b Blacklist) contains(address netip.Addr) bool {
	for _, block := range b.blocks {
		if block.Contains(address) {
			return true
		}
	}
	return false
}

// Checked is a URI that may be called, with the addresses that this was found
// out of.
type Checked struct {
	host      string
	addresses []netip.Addr
	blacklist Blacklist
}

// isOf reports whether a host, as parseTarget gives it, is that of the URI.
func (c *Checked) isOf(host string) bool {
	if address, ok := parseIPv4(c.host); ok {
		return host == address.String()
	}
	return strings.EqualFold(host, c.host)
}

// Check answers whether a URI may be called, as
// PhabricatorEnv::requireValidRemoteURIForFetch does for http and https: it
// must have a domain that resolves, to IPv4 addresses of which none is in the
// blacklist. The error is for people, and does not hold the URI, in which there may
// be a password.
func (b Blacklist) Check(ctx context.Context, uri string) (*Checked, error) {
	host, err := domainOf(uri)
	if err != nil {
		return nil, fmt.Errorf("the URI is not a valid fetchable resource: %w", err)
	}
	addresses, err := b.resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("the URI is not a valid fetchable resource: %w", err)
	}
	return &Checked{host, addresses, b}, nil
}

// resolve answers the addresses of a host, all of which are allowed.
func (b Blacklist) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addresses, err := lookup(ctx, "ip4", host)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if b.contains(address) {
			return nil, &refusedError{fmt.Errorf("the domain %q resolves to the address %q, which is blacklisted for outbound requests", host, address)}
		}
	}
	return addresses, nil
}

// lookup answers the addresses of a host, at least one. The error is a
// curlError, unless the context has ended.
func lookup(ctx context.Context, network, host string) ([]netip.Addr, error) {
	unresolved := &curlError{codeResolve, fmt.Errorf("the domain %q could not be resolved", host)}
	if isNumeric(host) {
		address, ok := parseIPv4(host)
		if !ok {
			return nil, unresolved
		}
		return []netip.Addr{address}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(addresses) == 0 {
		return nil, unresolved
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, nil
}

// isNumeric reports whether the C library takes a host for an IPv4 address and
// never for a name.
func isNumeric(host string) bool {
	return host != "" && strings.Trim(host, "0123456789.") == "" && host[0] != '.' && !strings.HasSuffix(host, ".")
}

// parseIPv4 reads an address as inet_aton does: one to four numbers, octal with
// a leading 0 and hexadecimal with 0x, the last one for all bytes that are left.
func parseIPv4(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var address uint32
	for i, part := range parts {
		base, bits := 10, 8
		if digits, ok := strings.CutPrefix(strings.ToLower(part), "0x"); ok {
			base, part = 16, digits
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		number, err := strconv.ParseUint(part, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		address |= uint32(number) << (32 - 8*i - bits)
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

// ambiguous is what PhutilURI refuses because programs read it differently.
var ambiguous = regexp.MustCompile(`^[^/:]*://[^/]*[#?].*:`)

// domainOf answers the domain of a URI by the rules of PhutilURI and of PHP's
// parse_url, under which it was allowed.
func domainOf(uri string) (string, error) {
	if ambiguous.MatchString(uri) {
		return "", fmt.Errorf("it is ambiguous, and not formatted or encoded properly")
	}
	rest, ok := strings.CutPrefix(uri, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(uri, "https://")
	}
	if !ok {
		return "", fmt.Errorf("it must use one of these protocols: http, https")
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	host := authority[strings.LastIndexByte(authority, '@')+1:]
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		if !isPort(host[colon+1:]) {
			return "", fmt.Errorf("its port is no number from 0 to 65535")
		}
		host = host[:colon]
	}
	// "0" is no domain because PHP takes it for false.
	if !isDomain(host) || host == "0" || len(host) > 255 {
		return "", fmt.Errorf("it must specify a domain")
	}
	return host, nil
}

// port is what strtol reads a number from: what follows the digits is left for
// libcurl to refuse.
var port = regexp.MustCompile(`^[ \t\n\v\f\r]*\+?(\d+)`)

// isPort reports whether parse_url takes a text for a port.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	digits := port.FindStringSubmatch(text)
	if len(text) > 5 || digits == nil {
		return false
	}
	number, err := strconv.Atoi(digits[1])
	return err == nil && number <= 65535
}

func isDomain(host string) bool {
	if host == "" || !utf8.ValidString(host) {
		return false
	}
	for i, r := range host {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && (i == 0 || r != '.' && r != '-') {
			return false
		}
	}
	return true
}
