package conduit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	// DefaultConnections is how many calls are under way at the same time. Each
	// occupies a php-fpm process of the web server while it lasts.
	DefaultConnections = 4

	// DefaultTasksPerCall is how many tasks a call has at most.
	DefaultTasksPerCall = 20

	// MaxTasksPerCall is the most that worker.execute takes.
	MaxTasksPerCall = 64
)

// Config says which Phorge runs the tasks.
type Config struct {
	// URL is where the Phorge is reached: https://phorge.example.com/. Plain
	// http is only for a loopback address, as the library refuses it elsewhere
	// too. Required.
	URL string

	// Host is sent as the Host of each request when it is not the one in URL: a
	// Phorge answers only to the names of its base-uri and allowed-uris.
	Host string

	// ServerName is the name that the certificate must be for. Empty means Host,
	// or else the one in URL.
	ServerName string

	// CAFile is a PEM file of the certificate authorities to trust. Empty means
	// those of the system.
	CAFile string

	// Namespace is the storage.default-namespace of the Phorge. Required.
	Namespace string

	// KeyID names the key in Phorge's configuration, and Key is its secret, at
	// least 32 bytes. Required.
	KeyID string
	Key   Secret

	// ServiceToken is sent as X-Service-Token with each request, to a gateway in
	// front of the Phorge. Empty means none.
	ServiceToken Secret

	// Connections is the number of calls at the same time. 0 means
	// DefaultConnections.
	Connections int

	// TasksPerCall is the most tasks that share a call, at most MaxTasksPerCall.
	// 0 means DefaultTasksPerCall.
	TasksPerCall int

	// Log is told when the Phorge stops answering as it should and when it does
	// so again. The zero value discards it.
	Log zerolog.Logger

	times times
}

// times are the waits, which tests shorten.
type times struct {
	// ask is how long a request that executes nothing may take.
	ask time.Duration

	// silence is how long a run may go without an answer before its receipts
	// are looked up beside it.
	silence time.Duration

	// lookup is the pause before the second look at receipts, and lookupMost
	// the longest while PHP runs.
	lookup, lookupMost time.Duration

	// pause is the pause after the second failure in a row, pauseMost the
	// longest, and toldMost the longest of those that the server asks for.
	pause, pauseMost, toldMost time.Duration

	// refresh is how often the capabilities are asked for again.
	refresh time.Duration

	// patience is how long a task waits for a call before it goes back to the
	// queue.
	patience time.Duration
}

var standardTimes = times{
	ask:        30 * time.Second,
	silence:    time.Minute,
	lookup:     250 * time.Millisecond,
	lookupMost: 15 * time.Second,
	pause:      500 * time.Millisecond,
	pauseMost:  5 * time.Second,
	toldMost:   30 * time.Second,
	refresh:    time.Minute,
	patience:   5 * time.Second,
}

// validKeyID is what GantrySignedRequest::isKeyID accepts.
var validKeyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// validServiceToken reports whether a header can carry a token. An error never
// quotes it.
func validServiceToken(token string) bool {
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// withDefaults answers the configuration with every default filled in, or says
// what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Connections == 0 {
		c.Connections = DefaultConnections
	}
	if c.TasksPerCall == 0 {
		c.TasksPerCall = DefaultTasksPerCall
	}
	if c.times == (times{}) {
		c.times = standardTimes
	}
	var problems []error
	add := func(is bool, format string, values ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	add(c.Namespace == "", "Namespace is empty; it is Phorge's storage.default-namespace")
	add(strings.ContainsAny(c.Namespace, "\n\r"), "Namespace cannot have line breaks")
	add(!validKeyID.MatchString(c.KeyID), "KeyID is %.80q; it is the name of a key in Phorge's configuration, at most 64 letters, digits, dots, hyphens and underscores", c.KeyID)
	add(len(c.Key) < minSecret, "the secret of the key must have at least %d bytes; make one with `gantry keys new`", minSecret)
	add(!validServiceToken(string(c.ServiceToken)), "ServiceToken must be printable ASCII without spaces")
	add(c.Connections < 1, "Connections is %d; it must be positive", c.Connections)
	add(c.TasksPerCall < 1 || c.TasksPerCall > MaxTasksPerCall,
		"TasksPerCall is %d; it must be 1 to %d", c.TasksPerCall, MaxTasksPerCall)
	add(strings.ContainsAny(c.Host, "/@ \r\n"), "Host is %q; it must be a host name, with a port if need be", c.Host)
	address, err := c.address()
	if err != nil {
		problems = append(problems, err)
	}
	c.URL = address
	if c.ServerName == "" {
		c.ServerName = hostname(c.Host)
	}
	if err := errors.Join(problems...); err != nil {
		return c, fmt.Errorf("conduit: %w", err)
	}
	return c, nil
}

// address answers the checked URL without a slash at its end.
func (c Config) address() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", errors.New("URL cannot be read; it must be like https://phorge.example.com/") // err quotes it, with what may be a password
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return "", fmt.Errorf("URL is %q; it must be like https://phorge.example.com/", u.Redacted())
	case u.User != nil:
		return "", errors.New("URL has a user name; requests are signed with the key instead, so leave it out")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("URL is %q; it cannot have a query or a fragment", u.Redacted())
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", fmt.Errorf("URL is %q; plain http is only for a loopback address, use https", u.Redacted())
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostname answers a host without its port.
func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }
