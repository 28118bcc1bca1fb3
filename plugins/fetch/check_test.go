package fetch

import (
	"strings"
	"testing"
)

// What is wanted is what requireValidRemoteURIForFetch said on PHP 8.2.
func TestURIsAreCheckedAsPhorgeChecksThem(t *testing.T) {
	open := blacklist(t)
	for uri, want := range map[string]string{
		"http://127.0.0.1:1":              "127.0.0.1",
		"http://127.0.0.1?q=1":            "127.0.0.1",
		"http://127.0.0.1#f":              "127.0.0.1",
		"https://127.0.0.1/a b":           "127.0.0.1",
		"http://u:p@127.0.0.1/":           "127.0.0.1",
		"http://a@b@127.0.0.1/":           "127.0.0.1",
		"http://127.1/":                   "127.0.0.1",
		"http://127.256/":                 "127.0.1.0",
		"http://2130706433/":              "127.0.0.1",
		"http://0177.0.0.1/":              "127.0.0.1",
		"http://01.2.3.4/":                "1.2.3.4",
		"http://127.0.0.1:/":              "127.0.0.1",
		"http://127.0.0.1:0/":             "127.0.0.1",
		"http://127.0.0.1:8a/":            "127.0.0.1",
		"http://127.0.0.1/x?y=http://z:1": "127.0.0.1",
		"http://LOCALHOST/":               "127.0.0.1",

		"":                              "one of these protocols",
		"x":                             "one of these protocols",
		"HTTP://127.0.0.1/":             "one of these protocols",
		" http://127.0.0.1/":            "one of these protocols",
		"ftp://127.0.0.1/":              "one of these protocols",
		"git@host:path":                 "one of these protocols",
		"//127.0.0.1/":                  "one of these protocols",
		"https:":                        "one of these protocols",
		"http:/127.0.0.1/":              "one of these protocols",
		"http:///x":                     "specify a domain",
		"http://0/":                     "specify a domain",
		"http://[::1]/":                 "specify a domain",
		"http://-a/":                    "specify a domain",
		"http://a_b/":                   "specify a domain",
		"http://127.0.0.1 /":            "specify a domain",
		"http://127.0.0.1%20/":          "specify a domain",
		"http://127.0.0.1:65536/":       "port",
		"http://127.0.0.1:018099/":      "port",
		"http://127.0.0.1:abc/":         "port",
		"http://127.0.0.1:1:1/":         "specify a domain",
		"http://127.0.0.1?x:y":          "ambiguous",
		"http://127.0.0.1\\@x.invalid/": "resolved",
		"http://nosuch.invalid/":        "resolved",
		"http://1.2.3.4.5/":             "resolved",
		"http://127.0.0.256/":           "resolved",
		"http://127.0.0.08/":            "resolved",
		"http://4294967296/":            "resolved",
		"http://" + strings.Repeat("a.", 140) + "com/":   "specify a domain",
		"http://" + strings.Repeat("a", 64) + ".invalid": "resolved",
	} {
		c, err := open.Check(t.Context(), uri)
		switch {
		case err == nil && c.addresses[0].String() != want:
			t.Errorf("%q resolved to %v", uri, c.addresses)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v; want %q", uri, err, want)
		}
	}
}

func TestBlacklistedAddressesAreRefused(t *testing.T) {
	for block, want := range map[string]bool{
		"127.0.0.0/8": true, "127.0.0.1/32": true, "127.9.9.9/8": true, "0.0.0.0/0": true,
		"127.0.0.2/32": false, "10.0.0.0/8": false, "::/0": false,
	} {
		_, err := blacklist(t, "192.0.2.0/24", block).Check(t.Context(), "http://127.0.0.1/")
		if refused := err != nil; refused != want {
			t.Errorf("with %s: %v", block, err)
		}
	}
	for _, block := range []string{"", "127.0.0.1", "127.0.0.0/33", "127.0.0.0/08", "127.00.0.0/8", "::ffff:1.2.3.4/96", "::1/129", "a/b", "fe80::%1/64"} {
		if _, err := ParseBlacklist([]string{block}); err == nil {
			t.Errorf("%q is a block", block)
		}
	}
}
