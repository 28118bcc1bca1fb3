package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks/token"
)

const (
	// DefaultConnect is how long a connection to the Phorge may take to come
	// about, and its TLS handshake.
	DefaultConnect = 5 * time.Second

	// DefaultStall is how long a body may make no progress.
	DefaultStall = 60 * time.Second

	// DefaultAnswer is how long the Phorge may take from the last byte of a call
	// to the first of its answer. worker.execute answers when its tasks are
	// done.
	DefaultAnswer = 10 * time.Minute
)

// DefaultStrangers is the rate of refusals that an address without a valid token
// gets explained.
var DefaultStrangers = token.Rate{PerSecond: 1, Burst: 20}

// Config says in front of which Phorge a gateway stands, and who may call.
type Config struct {
	// URL is where the Phorge is reached: https://phorge.example.com/. With
	// plain http the calls, and the API tokens in them, can be read on the way,
	// and worker.execute is refused, since Gantry's library wants TLS for what
	// came through a proxy. Required.
	URL string

	// Host is sent as the Host of each call when it is not the one in URL: a
	// Phorge answers only to the names of its base-uri and allowed-uris. What
	// the caller sent as Host goes no further than X-Forwarded-Host.
	Host string

	// ServerName is the name that the certificate must be for. Empty means Host,
	// or else the one in URL.
	ServerName string

	// CAFile is a PEM file of the certificate authorities to trust. Empty means
	// those of the system.
	CAFile string

	// Tokens are those who may call, at least one.
	Tokens []Token

	// QueryToken lets callers send their token as the parameter "token" of the
	// query, where others on the way may log it. The parameter is then taken out
	// of every call.
	QueryToken bool

	// Strangers is the rate at which callers without a valid token are told so,
	// by address; of IPv6 the first 64 bits count. Beyond it they are refused
	// with ERR-RATE-LIMIT. The zero value means DefaultStrangers.
	Strangers token.Rate

	// MaxBody is the longest body of a call, in bytes. 0 means that there is no
	// limit but the Phorge's own.
	MaxBody int64

	// Connect, Stall and Answer are the time limits that DefaultConnect,
	// DefaultStall and DefaultAnswer explain, which 0 means.
	Connect, Stall, Answer time.Duration

	// Called is told of each call when it is over: its method, "" for one that was
	// refused before it was looked at, and the status it was answered with. It
	// must be quick. Nil: nobody is told.
	Called func(method string, status int, took time.Duration)

	// Log gets one line for each call: its method, status, time, bytes and
	// caller. Nothing that the caller sent but the checked name of a method is
	// ever in it. The zero value discards it.
	Log zerolog.Logger
}

// withDefaults answers the configuration with every default filled in, or says
// what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	for value, otherwise := range map[*time.Duration]time.Duration{
		&c.Connect: DefaultConnect, &c.Stall: DefaultStall, &c.Answer: DefaultAnswer,
	} {
		if *value == 0 {
			*value = otherwise
		}
	}
	if c.Strangers == (token.Rate{}) {
		c.Strangers = DefaultStrangers
	}
	var problems []error
	add := func(is bool, format string, values ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	add(c.Connect < 0 || c.Stall < 0 || c.Answer < 0, "Connect, Stall and Answer cannot be negative")
	add(c.MaxBody < 0, "MaxBody is %d; it must be a number of bytes, or 0 for no limit", c.MaxBody)
	add(strings.ContainsAny(c.Host, "/@ \r\n"), "Host is %q; it must be a host name, with a port if need be", c.Host)
	add(len(c.Tokens) == 0, "there is no token, so nobody may call; make one and configure its digest")
	if err := c.Strangers.Check(); err != nil {
		problems = append(problems, fmt.Errorf("the rate of Strangers: %w", err))
	}
	target, err := c.target()
	if err != nil {
		problems = append(problems, err)
	}
	if c.Host == "" && target != nil {
		c.Host = target.Host
	}
	if c.ServerName == "" {
		c.ServerName = (&url.URL{Host: c.Host}).Hostname()
	}
	if err := errors.Join(problems...); err != nil {
		return c, fmt.Errorf("gateway: %w", err)
	}
	return c, nil
}

// target answers the checked URL.
func (c Config) target() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("URL cannot be read; it must be like https://phorge.example.com/") // err quotes it, with what may be a password
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, fmt.Errorf("URL is %q; it must be like https://phorge.example.com/", u.Redacted())
	case u.User != nil:
		return nil, errors.New("URL has a user name; callers authenticate themselves to Phorge, so leave it out")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("URL is %q; it cannot have a path, a query or a fragment, since Phorge has a host of its own", u.Redacted())
	}
	return u, nil
}

// hostOf answers a host without its port, where it has one.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
