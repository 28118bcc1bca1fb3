package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/spf13/pflag"
)

// defaultFile is read when neither --config nor GANTRY_CONFIG names a file. A
// file in the current directory is never picked up by itself: it could name
// programs to start.
const defaultFile = "/etc/gantry/gantry.yaml"

// config is the effective configuration: flags over environment over file over
// the variables of Gorge over defaults. With instances it is what they have in
// common, and each of them is a config of its own.
type config struct {
	DSN     string `koanf:"dsn"`
	DSNFile string `koanf:"dsn_file"`
	Phorge  string `koanf:"phorge"`

	SQLite    string `koanf:"sqlite"`
	Redis     string `koanf:"redis"`
	RedisFile string `koanf:"redis_file"`
	Instance  string `koanf:"instance"`

	Plugins string `koanf:"plugins"`

	PHP            string        `koanf:"php"`
	Library        string        `koanf:"library"`
	PHPBinary      string        `koanf:"php_binary"`
	PHPProcesses   string        `koanf:"php_processes"`
	PHPPickupDelay time.Duration `koanf:"php_pickup_delay"`

	Conduit             string `koanf:"conduit"`
	ConduitKeyFile      string `koanf:"conduit_key_file"`
	ConduitHost         string `koanf:"conduit_host"`
	ConduitCA           string `koanf:"conduit_ca"`
	ConduitTokenFile    string `koanf:"conduit_token_file"`
	ConduitConnections  int    `koanf:"conduit_connections"`
	ConduitTasksPerCall int    `koanf:"conduit_tasks_per_call"`

	Slots        int           `koanf:"slots"`
	Lease        time.Duration `koanf:"lease"`
	IdlePoll     time.Duration `koanf:"idle_poll"`
	DrainTimeout time.Duration `koanf:"drain_timeout"`
	MaxCrashes   int           `koanf:"max_crashes"`
	PickupDelay  time.Duration `koanf:"pickup_delay"`

	Classes map[string]classConfig `koanf:"classes"`

	API           string        `koanf:"api"`
	Tokens        string        `koanf:"tokens"`
	APILease      time.Duration `koanf:"api_lease"`
	APIRetryWait  time.Duration `koanf:"api_retry_wait"`
	APIKeepKeys   time.Duration `koanf:"api_keep_keys"`
	APIQueryToken bool          `koanf:"api_query_token"`
	APIMaxBody    int           `koanf:"api_max_body"`

	Gateway               string `koanf:"gateway"`
	GatewayHost           string `koanf:"gateway_host"`
	GatewayCA             string `koanf:"gateway_ca"`
	GatewayListen         string `koanf:"gateway_listen"`
	GatewayCertificate    string `koanf:"gateway_certificate"`
	GatewayCertificateKey string `koanf:"gateway_certificate_key"`
	GatewayQueryToken     bool   `koanf:"gateway_query_token"`
	GatewayMaxBody        int    `koanf:"gateway_max_body"`

	Socket    string `koanf:"socket"`
	Metrics   string `koanf:"metrics"`
	LogLevel  string `koanf:"log_level"`
	LogFormat string `koanf:"log_format"`

	values    map[string]any    // by the names of settings, as in the file
	origin    map[string]string // which source has the last word on a setting
	warnings  []string
	instances []*config // each with all settings; none when there is one queue

	gorge    gorgeSettings
	observed *observed // nil: nobody is told what is done with the queue
}

// classConfig is what the file says about one class; nil where it is silent.
type classConfig struct {
	Slots       *int           `koanf:"slots"`
	Lease       *time.Duration `koanf:"lease"`
	Deadline    *time.Duration `koanf:"deadline"`
	PickupDelay *time.Duration `koanf:"pickup_delay"`
	MaxCrashes  *int           `koanf:"max_crashes"`
}

// longestPickupDelay answers how old a task must be to be taken, whatever its
// class.
func (c *config) longestPickupDelay() time.Duration {
	longest := max(c.PickupDelay, c.PHPPickupDelay)
	for _, class := range c.Classes {
		if class.PickupDelay != nil {
			longest = max(longest, *class.PickupDelay)
		}
	}
	return longest
}

// loadConfig reads all sources. fallback is the file to read when neither flag
// nor environment names one; it need not exist.
func loadConfig(flags *pflag.FlagSet, environ []string, fallback string) (*config, error) {
	fromEnv, named, err := environmentLayer(environ)
	if err != nil {
		return nil, err
	}
	if f := flags.Lookup("config"); f.Changed {
		named = f.Value.String()
	}
	fromFile, warnings, err := fileLayer(named, fallback)
	if err != nil {
		return nil, err
	}
	fromFlags, err := flagLayer(flags)
	if err != nil {
		return nil, err
	}
	fromGorge, gorge := gorgeLayer(environ)
	c, err := merge(fromGorge, fromFile, fromEnv, fromFlags)
	if err != nil {
		return nil, err
	}
	c.gorge = gorge.settle(c.origin)
	c.warnings = warnings
	for _, one := range append([]*config{c}, c.instances...) {
		one.gorge = c.gorge
		one.warnOfPublicFiles(c)
	}
	return c.choose()
}

// warnOfPublicFiles puts into a configuration a warning for each file with a
// secret that everybody may read, once.
func (c *config) warnOfPublicFiles(into *config) {
	for file, secret := range map[string]string{
		c.DSNFile: "a password", c.RedisFile: "a password", c.ConduitKeyFile: "a key", c.ConduitTokenFile: "a token",
	} {
		if file == "" {
			continue
		}
		for _, warning := range warnIfPublic(file, secret) {
			if !slices.Contains(into.warnings, warning) {
				into.warnings = append(into.warnings, warning)
			}
		}
	}
}

// storeSettings all say where the store is; a source may use one of them.
var storeSettings = []string{"dsn", "dsn_file", "phorge", "sqlite", "redis", "redis_file"}

// merge lays later layers over earlier ones.
func merge(layers ...layer) (*config, error) {
	k := koanf.New(".")
	c := &config{origin: map[string]string{}}
	var instances map[string]any
	defaults := map[string]any{}
	for _, s := range settings {
		defaults[s.name] = s.value
		c.origin[s.name] = "default"
	}
	if err := k.Load(confmap.Provider(defaults, ""), nil); err != nil {
		return nil, err
	}
	var problems []error
	for _, l := range layers {
		values, err := l.checked()
		problems = append(problems, err)
		of, hasInstances := values["instances"].(map[string]any)
		if hasInstances || len(storeNamed(values)) > 0 {
			// Whoever names the store means that one, not a mixture.
			for _, name := range storeSettings {
				k.Delete(name)
				c.origin[name] = "default"
			}
			instances = of
			delete(values, "instances")
			c.origin["instances"] = l.source
		}
		if err := k.Load(confmap.Provider(values, ""), nil); err != nil {
			return nil, err
		}
		for name := range values {
			c.origin[name] = l.from(name)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if err := c.fill(k); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		one, err := c.instanceOf(k, name, instances[name].(map[string]any))
		if err != nil {
			return nil, err
		}
		c.instances = append(c.instances, one)
	}
	return c, distinct(c.instances)
}

// fill puts values into the fields.
func (c *config) fill(k *koanf.Koanf) error {
	c.values = k.All()
	strict := &mapstructure.DecoderConfig{ErrorUnused: true}
	return k.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: strict})
}

// shown answers the value of a setting as it may be shown to anybody.
func (c *config) shown(name string) string {
	value := c.values[name]
	if text, ok := value.(string); ok && text != "" {
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "dsn":
			return phorge.ShowDSN(text)
		case "redis":
			return showRedis(text)
		}
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func storeNamed(values map[string]any) []string {
	return slices.DeleteFunc(slices.Clone(storeSettings), func(name string) bool { return values[name] == nil })
}
