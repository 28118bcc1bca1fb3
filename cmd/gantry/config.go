package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// defaultFile is read when neither --config nor GANTRY_CONFIG names a file. A
// file in the current directory is never picked up by itself: it could name
// programs to start.
const defaultFile = "/etc/gantry/gantry.yaml"

// config is the effective configuration: flags over environment over file over
// defaults.
type config struct {
	DSN     string `koanf:"dsn"`
	DSNFile string `koanf:"dsn_file"`
	Phorge  string `koanf:"phorge"`
	Plugins string `koanf:"plugins"`

	Slots        int           `koanf:"slots"`
	Lease        time.Duration `koanf:"lease"`
	IdlePoll     time.Duration `koanf:"idle_poll"`
	DrainTimeout time.Duration `koanf:"drain_timeout"`
	MaxCrashes   int           `koanf:"max_crashes"`
	PickupDelay  time.Duration `koanf:"pickup_delay"`

	Classes map[string]classConfig `koanf:"classes"`

	LogLevel  string `koanf:"log_level"`
	LogFormat string `koanf:"log_format"`

	values   map[string]any    // by the names of settings, as in the file
	origin   map[string]string // which source has the last word on a setting
	warnings []string
}

// classConfig is what the file says about one class; nil where it is silent.
type classConfig struct {
	Slots       *int           `koanf:"slots"`
	Lease       *time.Duration `koanf:"lease"`
	Deadline    *time.Duration `koanf:"deadline"`
	PickupDelay *time.Duration `koanf:"pickup_delay"`
	MaxCrashes  *int           `koanf:"max_crashes"`
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
	c, err := merge(fromFile, fromEnv, fromFlags)
	if err != nil {
		return nil, err
	}
	c.warnings = warnings
	if c.DSNFile != "" {
		c.warnings = append(c.warnings, warnIfPublic(c.DSNFile)...)
	}
	return c, nil
}

// storeSettings all say where the store is; a source may use one of them.
var storeSettings = []string{"dsn", "dsn_file", "phorge"}

// merge lays later layers over earlier ones.
func merge(layers ...layer) (*config, error) {
	k := koanf.New(".")
	c := &config{origin: map[string]string{}}
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
		if len(storeNamed(values)) > 0 {
			// Whoever names the store means that one, not a mixture.
			for _, name := range storeSettings {
				k.Delete(name)
				c.origin[name] = "default"
			}
		}
		if err := k.Load(confmap.Provider(values, ""), nil); err != nil {
			return nil, err
		}
		for name := range values {
			c.origin[name] = l.source
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.values = k.All()
	strict := &mapstructure.DecoderConfig{ErrorUnused: true}
	return c, k.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: strict})
}

func storeNamed(values map[string]any) []string {
	return slices.DeleteFunc(slices.Clone(storeSettings), func(name string) bool { return values[name] == nil })
}

// passwordIn answers the password of a DSN. In one that the driver cannot read
// it takes user:password@ up to the last @, from the first colon behind the
// scheme of a URL. Text that is no DSN at all may be all password.
func passwordIn(dsn string) string {
	if parsed, err := mysql.ParseDSN(dsn); err == nil {
		return parsed.Passwd
	}
	if scheme, rest, found := strings.Cut(dsn, "://"); found && !strings.ContainsAny(scheme, ":@/") {
		dsn = rest
	}
	at := strings.LastIndexByte(dsn, '@')
	if at < 0 {
		if strings.Contains(dsn, "/") {
			return ""
		}
		return dsn
	}
	_, password, _ := strings.Cut(dsn[:at], ":")
	return password
}

// shownDSN answers of a DSN the user, the address, the database and the names
// of the parameters: any value may be a secret.
func shownDSN(dsn string) string {
	parsed, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "***"
	}
	shown := mysql.NewConfig()
	shown.User, shown.Net, shown.Addr, shown.DBName = parsed.User, parsed.Net, parsed.Addr, parsed.DBName
	if parsed.Passwd != "" {
		shown.Passwd = "***"
	}
	// The driver takes the last slash too, and skips what has no =.
	_, parameters, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/'):], "?")
	text, separator := shown.FormatDSN(), "?"
	for parameter := range strings.SplitSeq(parameters, "&") {
		if name, _, found := strings.Cut(parameter, "="); found {
			text += separator + name + "=***"
			separator = "&"
		}
	}
	return text
}

// shown answers the value of a setting as it may be shown to anybody.
func (c *config) shown(name string) string {
	value := c.values[name]
	if dsn, ok := value.(string); ok && name == "dsn" && dsn != "" {
		return shownDSN(dsn)
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
