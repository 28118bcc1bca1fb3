package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/rs/zerolog"
)

// gorgeVariable is a variable of Gorge's services that is read below all of our
// own sources, so that Gantry can take the place of one where it runs.
type gorgeVariable struct {
	names   []string // the first that holds something that can be read counts
	setting string   // what it sets, or one of the parts below
	unit    string   // of the number, as Gorge reads it; empty for text
	read    func(text string) (any, error)
}

// The parts of what Gorge spells apart.
const (
	partHost      = "dsn: host"
	partPort      = "dsn: port"
	partUser      = "dsn: user"
	partPassword  = "dsn: password"
	partNamespace = "dsn: namespace"
	partToken     = "tokens: one with all rights"
)

// gorgeVariables are the variables that are read. The table in GORGE.md is
// held against them.
var gorgeVariables = []gorgeVariable{
	{[]string{"GORGE_TASKQUEUE_MYSQL_HOST", "MYSQL_HOST"}, partHost, "", asText},
	{[]string{"GORGE_TASKQUEUE_MYSQL_PORT", "MYSQL_PORT"}, partPort, "", asPort},
	{[]string{"GORGE_TASKQUEUE_MYSQL_USER", "MYSQL_USER"}, partUser, "", asText},
	{[]string{"GORGE_TASKQUEUE_MYSQL_PASS", "MYSQL_PASS"}, partPassword, "", asText},
	{[]string{"GORGE_TASKQUEUE_NAMESPACE", "GORGE_TASKQUEUE_STORAGE_NAMESPACE", "STORAGE_NAMESPACE"}, partNamespace, "", asText},
	{[]string{"GORGE_TASKQUEUE_LISTEN_ADDR", "GORGE_LISTEN_ADDR", "LISTEN_ADDR"}, "api", "", asText},
	{[]string{"GORGE_TASKQUEUE_SERVICE_TOKEN", "GORGE_SERVICE_TOKEN", "SERVICE_TOKEN"}, partToken, "", asText},
	{[]string{"GORGE_TASKQUEUE_LEASE_DURATION", "LEASE_DURATION"}, "api_lease", "seconds", in(time.Second)},
	{[]string{"GORGE_TASKQUEUE_RETRY_WAIT", "RETRY_WAIT"}, "api_retry_wait", "seconds", in(time.Second)},
	{[]string{"GORGE_WORKER_POLL_INTERVAL_MS", "POLL_INTERVAL_MS", "GORGE_WORKER_POLL_INTERVAL", "POLL_INTERVAL"}, "idle_poll", "milliseconds", in(time.Millisecond)},
	{[]string{"GORGE_WORKER_MAX_WORKERS", "MAX_WORKERS"}, "slots", "", asNumber},
	{[]string{"GORGE_CONDUIT_UPSTREAM_URL", "UPSTREAM_URL"}, "gateway", "", asText},
	{[]string{"GORGE_CONDUIT_LISTEN_ADDR", "GORGE_LISTEN_ADDR", "LISTEN_ADDR"}, "gateway_listen", "", asText},
}

func asText(text string) (any, error) { return text, nil }

func asNumber(text string) (any, error) { return strconv.Atoi(text) }

func asPort(text string) (any, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	return strconv.FormatUint(port, 10), err
}

func in(unit time.Duration) func(string) (any, error) {
	return func(text string) (any, error) {
		n, err := strconv.ParseInt(text, 10, 32)
		return time.Duration(n) * unit, err
	}
}

// gorgeSettings is what Gorge's variables came to.
type gorgeSettings struct {
	token   string            // SERVICE_TOKEN
	tokenIn string            // the variable that it is in
	sets    map[string]string // the variables by the settings that they set
	unread  []string          // variables whose values cannot be read, and why
}

// gorgeLayer reads the variables of Gorge. As Gorge does, it goes on to the next
// name when a value cannot be read.
func gorgeLayer(environ []string) (layer, gorgeSettings) {
	l := layer{source: "environment", spell: func(s setting) string { return s.name }, values: map[string]any{}, detail: map[string]string{}}
	found := gorgeSettings{sets: map[string]string{}}
	parts := map[string]string{}
	var of []string
	for _, v := range gorgeVariables {
		name, value := v.find(environ, &found)
		switch s, known := find(settings, v.setting); {
		case name == "":
		case known:
			if _, err := s.parse(value); err != nil {
				found.unread = append(found.unread, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			l.values[v.setting], l.detail[v.setting], found.sets[v.setting] = value, name, name
		case v.setting == partToken:
			found.token, found.tokenIn, found.sets["tokens"] = value.(string), name, name
		default:
			parts[v.setting] = value.(string)
			of = append(of, name)
		}
	}
	if len(of) > 0 {
		or := func(part, otherwise string) string {
			if parts[part] != "" {
				return parts[part]
			}
			return otherwise
		}
		names := strings.Join(of, ", ")
		l.values["dsn"] = phorge.WorkerDSN(net.JoinHostPort(or(partHost, "127.0.0.1"), or(partPort, "3306")),
			or(partUser, "phorge"), parts[partPassword], or(partNamespace, "phorge"))
		l.detail["dsn"], found.sets["dsn"] = names, names
	}
	return l, found
}

// find answers the first of the names that holds something that can be read.
func (v gorgeVariable) find(environ []string, found *gorgeSettings) (name string, value any) {
	for _, name := range v.names {
		i := slices.IndexFunc(environ, func(variable string) bool { return strings.HasPrefix(variable, name+"=") })
		if i < 0 {
			continue
		}
		text := environ[i][len(name)+1:]
		if text == "" {
			continue
		}
		value, err := v.read(text)
		if err != nil {
			found.unread = append(found.unread, name+": "+v.wanted())
			continue
		}
		return name, value
	}
	return "", nil
}

func (v gorgeVariable) wanted() string {
	if v.unit != "" {
		return "must be a whole number of " + v.unit
	}
	return "must be a whole number"
}

// settle forgets the variables that something of our own goes over.
func (g gorgeSettings) settle(origin map[string]string) gorgeSettings {
	for name, variable := range g.sets {
		own := origin[name] != "environment, "+variable
		if name == "tokens" {
			own = origin[name] != "default" // the token itself is no value of the setting
		}
		if own {
			delete(g.sets, name)
		}
	}
	return g
}

// tell logs which variables of Gorge took effect on the named settings, and which
// cannot be read.
func (g gorgeSettings) tell(log zerolog.Logger, names ...string) {
	for _, name := range names {
		if variable, is := g.sets[name]; is {
			log.Warn().Str("variable", variable).Str("setting", name).Msg("a variable of Gorge sets this; give the setting a value of its own, or take the variable away")
		}
	}
	for _, problem := range g.unread {
		log.Warn().Str("variable", problem).Msg("a variable of Gorge is passed over, because it cannot be read")
	}
}
