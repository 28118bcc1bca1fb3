package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/spf13/pflag"
)

// setting is one setting of Gantry. It has one name in three spellings:
// drain_timeout in the file, GANTRY_DRAIN_TIMEOUT in the environment,
// --drain-timeout on the command line.
type setting struct {
	name  string
	value any      // the default: a string, an int, a bool or a time.Duration
	least any      // the smallest number or duration allowed, nil for text
	oneOf []string // the words allowed, nil for any text
	path  bool     // a relative path in the file starts at the file
	valid func(text string) error
	usage string
}

// settings is every setting but classes and instances, which only the file can
// hold. Flags, variables, defaults, checks and help are made from it.
var settings = []setting{
	{name: "dsn", value: "", usage: "`DSN` of the worker database, user@tcp(host:3306)/phabricator_worker; a password belongs in GANTRY_DSN, the file or dsn_file"},
	{name: "dsn_file", value: "", path: true, usage: "`file` that holds the dsn and nothing else"},
	{name: "phorge", value: "", path: true, usage: "`directory` of a Phorge, whose PHP runs the classes without a plugin; the database is the one in its conf/local/local.json"},
	{name: "sqlite", value: "", path: true, usage: "`file` that is a queue of its own, which is made when it is not there"},
	{name: "redis", value: "", valid: validRedis, usage: "`URL` of a Redis that holds the queue, redis://host:6379/0 or rediss://; a password belongs in GANTRY_REDIS, the file or redis_file"},
	{name: "redis_file", value: "", path: true, usage: "`file` that holds the URL of redis and nothing else"},
	{name: "instance", value: "", valid: validInstance, usage: "`name` of the instance to work on, where there are several"},

	{name: "plugins", value: "", path: true, usage: "`file` that is the manifest of the handler binaries, plugins.yaml"},

	{name: "php", value: "auto", oneOf: []string{"auto", "pool", "conduit", "off"}, usage: "`route` of the classes without a plugin: pool (PHP processes here), conduit (worker.execute of a Phorge elsewhere), off (they stay in the queue), or auto, which is conduit where conduit is set, and pool where phorge is set and loads Gantry's library"},
	{name: "library", value: "", path: true, usage: "`directory` of Gantry's PHP library, its php/src; without it, the one in load-libraries of the Phorge"},
	{name: "php_binary", value: "php", usage: "`program` that is the PHP command line interpreter"},
	{name: "php_processes", value: "1..4", valid: validProcesses, usage: "`number` of PHP processes of the pool, or least..most, which follows the demand; the default is as many as phd.taskmasters"},
	{name: "php_pickup_delay", value: 200 * time.Millisecond, least: time.Duration(0), usage: "age below which a task for PHP is left alone: Phorge can queue a task before it commits what the task is about"},

	{name: "conduit", value: "", valid: validURL, usage: "`URL` of a Phorge whose worker.execute runs the classes without a plugin"},
	{name: "conduit_key_file", value: "", path: true, usage: "`file` with the keys that sign its calls, which gantry keys new writes"},
	{name: "conduit_host", value: "", usage: "`name` of the Phorge, where it is not the one in the URL"},
	{name: "conduit_ca", value: "", path: true, usage: "`file` with the certificates of authorities that are trusted instead of the system's"},
	{name: "conduit_token_file", value: "", path: true, usage: "`file` that holds the service token of a gateway in front of the Phorge, and nothing else"},
	{name: "conduit_connections", value: 4, least: 1, usage: "`number` of calls that run at the same time"},
	{name: "conduit_tasks_per_call", value: 20, least: 1, usage: "`number` of tasks in a call, at most; the Phorge takes up to 64"},

	{name: "slots", value: runtime.DefaultSlots, least: 1, usage: "`number` of tasks that run at the same time, without those in PHP"},
	{name: "lease", value: runtime.DefaultLeaseTime, least: time.Second, usage: "how long a lease lasts before it must be renewed; the work of a dead host resumes after it"},
	{name: "idle_poll", value: runtime.DefaultIdlePoll, least: time.Millisecond, usage: "longest pause between two looks at an empty queue"},
	{name: "drain_timeout", value: runtime.DefaultDrainTimeout, least: time.Millisecond, usage: "how long a stop waits for running tasks before it cancels them and gives them back"},
	{name: "max_crashes", value: runtime.DefaultMaxCrashes, least: 1, usage: "`number` of times a task may take down what runs it before it is archived as failed"},
	{name: "pickup_delay", value: time.Duration(0), least: time.Duration(0), usage: "age below which a task is left alone"},

	{name: "api", value: "", valid: validAddress, usage: "`address` on which the queue is served to other programs, host:port; gantry serve has the default " + defaultAPI + ", and gantry run serves nothing without it"},
	{name: "tokens", value: "", path: true, usage: "`file` of those who may use the queue over HTTP, or call a gateway, which gantry tokens new writes; without it, everybody on this machine may use the queue"},
	{name: "api_lease", value: 2 * time.Hour, least: time.Second, usage: "how long a lease over HTTP lasts before it must be renewed"},
	{name: "api_retry_wait", value: tasks.DefaultWait, least: time.Second, usage: "how long a task waits that failed over HTTP, when the caller does not say"},
	{name: "api_keep_keys", value: 24 * time.Hour, least: time.Second, usage: "how long an Idempotency-Key is remembered"},
	{name: "api_query_token", value: false, usage: "whether the token may be given as the parameter token of the URL, which proxies log"},
	{name: "api_max_body", value: 64 << 20, least: 1 << 10, usage: "`number` of bytes that the body of a request over HTTP may have"},

	{name: "gateway", value: "", usage: "`URL` of the Phorge that gantry gateway stands in front of"},
	{name: "gateway_host", value: "", usage: "`name` of that Phorge, where it is not the one in the URL"},
	{name: "gateway_ca", value: "", path: true, usage: "`file` with the certificates of authorities that are trusted for it instead of the system's"},
	{name: "gateway_listen", value: "127.0.0.1:8150", valid: validAddress, usage: "`address` on which gantry gateway takes calls, host:port"},
	{name: "gateway_certificate", value: "", path: true, usage: "`file` with the certificate of the gateway, and those between it and an authority; without it, calls come over plain HTTP"},
	{name: "gateway_certificate_key", value: "", path: true, usage: "`file` with the key of that certificate"},
	{name: "gateway_query_token", value: false, usage: "whether callers may give their token as the parameter token of the URL, which proxies log"},
	{name: "gateway_max_body", value: 0, least: 0, usage: "`number` of bytes that a call may have; 0 is without limit but the Phorge's own"},

	{name: "socket", value: "", path: true, usage: "`file` that is the socket on which gantry run answers how it is, for gantry pool status"},
	{name: "metrics", value: "", valid: validAddress, usage: "`address` on which gantry run, serve and gateway answer Prometheus at /metrics, host:port, each its own; whoever reaches it may read"},
	{name: "log_level", value: "info", oneOf: []string{"debug", "info", "warn", "error"}, usage: "least `level` that is logged: debug, info, warn or error"},
	{name: "log_format", value: "auto", oneOf: []string{"auto", "json", "console"}, usage: "`format` of the log: json, console, or auto, which is console on a terminal and json elsewhere"},
}

// classSettings is what the file can say about one class under classes. What
// it leaves out is as the manifest says, or as for all classes.
var classSettings = []setting{
	{name: "slots", value: 0, least: 1},
	{name: "lease", value: time.Duration(0), least: time.Second},
	{name: "deadline", value: time.Duration(0), least: time.Second},
	{name: "pickup_delay", value: time.Duration(0), least: time.Duration(0)},
	{name: "max_crashes", value: 0, least: 1},
}

// instanceSettings are the settings that each instance can have for itself. What
// it leaves out is as at the top of the file.
var instanceSettings = []string{
	"dsn", "dsn_file", "phorge", "sqlite", "redis", "redis_file", "plugins",
	"php", "library", "php_binary", "php_processes", "php_pickup_delay",
	"conduit", "conduit_key_file", "conduit_host", "conduit_ca", "conduit_token_file", "conduit_connections", "conduit_tasks_per_call",
	"slots", "lease", "max_crashes", "pickup_delay",
}

const envPrefix = "GANTRY_"

func (s setting) env() string  { return envPrefix + strings.ToUpper(s.name) }
func (s setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }

// addFlags gives a command the flags of the named settings.
func addFlags(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		s, _ := find(settings, name)
		switch value := s.value.(type) {
		case string:
			flags.String(s.flag(), value, s.usage)
		case int:
			flags.Int(s.flag(), value, s.usage)
		case bool:
			flags.Bool(s.flag(), value, s.usage)
		case time.Duration:
			flags.Duration(s.flag(), value, s.usage)
		}
	}
}

func find(among []setting, name string) (setting, bool) {
	i := slices.IndexFunc(among, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return among[i], true
}

// parse makes a value of the setting's type from what a source holds. YAML
// and flags hold typed values, the environment holds text.
func (s setting) parse(raw any) (value any, err error) {
	switch s.value.(type) {
	case string:
		value, err = s.parseText(raw)
	case int:
		value, err = s.parseNumber(raw)
	case bool:
		value, err = s.parseTruth(raw)
	case time.Duration:
		value, err = s.parseDuration(raw)
	}
	return value, err
}

func (s setting) parseText(raw any) (string, error) {
	text, ok := raw.(string)
	if n, isNumber := raw.(int); isNumber && s.valid != nil {
		text, ok = strconv.Itoa(n), true
	}
	if !ok {
		return "", fmt.Errorf("must be text")
	}
	if s.valid != nil {
		if err := s.valid(text); err != nil {
			return "", err
		}
	}
	if s.oneOf != nil && !slices.Contains(s.oneOf, text) {
		return "", fmt.Errorf("%q must be one of %s", text, strings.Join(s.oneOf, ", "))
	}
	return text, nil
}

func (s setting) parseNumber(raw any) (int, error) {
	n, ok := raw.(int)
	if text, isText := raw.(string); isText {
		var err error
		n, err = strconv.Atoi(text)
		ok = err == nil
	}
	if !ok {
		return 0, fmt.Errorf("%q must be a whole number", fmt.Sprint(raw))
	}
	if least := s.least.(int); n < least {
		return 0, fmt.Errorf("%d must be at least %d", n, least)
	}
	return n, nil
}

func (s setting) parseTruth(raw any) (bool, error) {
	switch raw {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return false, fmt.Errorf("%q must be true or false", fmt.Sprint(raw))
}

// durationHelp is what text that is a duration looks like.
const durationHelp = "a duration with its unit, such as 500ms, 60s or 2h"

// parseDuration refuses bare numbers, which would be taken for nanoseconds.
func (s setting) parseDuration(raw any) (time.Duration, error) {
	d, ok := raw.(time.Duration)
	if text, isText := raw.(string); isText {
		var err error
		d, err = time.ParseDuration(text)
		ok = err == nil
	}
	if !ok {
		return 0, fmt.Errorf("%q must be %s", fmt.Sprint(raw), durationHelp)
	}
	if least := s.least.(time.Duration); d < least {
		return 0, fmt.Errorf("%v must be at least %v", d, least)
	}
	return d, nil
}
