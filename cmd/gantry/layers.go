package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/spf13/pflag"
)

// layer is what one source holds, by the names of settings.
type layer struct {
	source string
	spell  func(setting) string // how the source spells a setting
	values map[string]any
	nested bool              // it can hold classes and instances
	detail map[string]string // where in the source a value is, by the names of settings
}

// from answers where a value is from.
func (l layer) from(name string) string {
	if detail := l.detail[name]; detail != "" {
		return l.source + ", " + detail
	}
	return l.source
}

func environmentLayer(environ []string) (l layer, configFile string, err error) {
	k := koanf.New("")
	err = k.Load(env.Provider("", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			switch name {
			case "GANTRY_CONFIG":
				configFile = value
				return "", nil
			case "GANTRY_ACTIVE_HELP", "GANTRY_COMPLETION_DESCRIPTIONS":
				return "", nil // cobra's, for completion scripts
			case serverVariable:
				return "", nil // of one command
			}
			return strings.ToLower(strings.TrimPrefix(name, envPrefix)), value
		},
	}), nil)
	return layer{source: "environment", spell: setting.env, values: k.Raw()}, configFile, err
}

func flagLayer(flags *pflag.FlagSet) (layer, error) {
	k := koanf.New(".")
	err := k.Load(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		name := strings.ReplaceAll(f.Name, "-", "_")
		if _, ok := find(settings, name); !ok || !f.Changed {
			return "", nil
		}
		return name, posflag.FlagVal(flags, f)
	}), nil)
	l := layer{source: "command line", spell: func(s setting) string { return "--" + s.flag() }, values: k.Raw()}
	if dsn, ok := l.values["dsn"].(string); ok && phorge.PasswordIn(dsn) != "" {
		return l, errors.New("--dsn holds a password, which everyone on this machine can read in the list of processes: " +
			"set GANTRY_DSN, or dsn in the configuration file, or name a file that holds it with --dsn-file, " +
			"or use the credentials of a Phorge with --phorge")
	}
	if address, ok := l.values["redis"].(string); ok && validRedis(address) == nil && redisPassword(address) != "" {
		return l, errors.New("--redis holds a password, which everyone on this machine can read in the list of processes: " +
			"set GANTRY_REDIS, or redis in the configuration file, or name a file that holds it with --redis-file")
	}
	return l, err
}

// fileLayer reads the file that was named, or else the fallback if there is
// one. Relative paths in it start at the file.
func fileLayer(named, fallback string) (l layer, warnings []string, err error) {
	name := named
	if name == "" {
		name = fallback
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return layer{}, nil, nil
		}
	}
	k := koanf.New(".")
	switch err := k.Load(file.Provider(name), yaml.Parser()); {
	case err != nil && strings.Contains(err.Error(), "cannot unmarshal"):
		// Its text quotes values, and passwords are values.
		return l, nil, fmt.Errorf("read the configuration: %s must hold names of settings and their values, as in `slots: 8`", name)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return l, nil, fmt.Errorf("read the configuration: %w", err)
	case err != nil:
		return l, nil, fmt.Errorf("read the configuration %s: %w", name, err)
	}
	l = layer{source: name, spell: func(s setting) string { return s.name }, values: k.Raw(), nested: true}
	secret := anchor(l.values, filepath.Dir(name))
	instances, _ := l.values["instances"].(map[string]any)
	for _, of := range instances {
		if of, ok := of.(map[string]any); ok {
			secret = anchor(of, filepath.Dir(name)) || secret
		}
	}
	if secret {
		warnings = warnIfPublic(name, "a password")
	}
	return l, warnings, nil
}

// anchor makes relative paths start at a directory, and reports whether there is
// a password among the values.
func anchor(values map[string]any, dir string) (secret bool) {
	for _, s := range settings {
		if value, ok := values[s.name].(string); ok && s.path && value != "" && !filepath.IsAbs(value) {
			values[s.name] = filepath.Join(dir, value)
		}
	}
	dsn, _ := values["dsn"].(string)
	address, _ := values["redis"].(string)
	return dsn != "" && phorge.PasswordIn(dsn) != "" || address != "" && redisPassword(address) != ""
}

// warnIfPublic answers a warning when everybody may read a file that a secret
// is in.
func warnIfPublic(name, secret string) []string {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&0o004 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s is where %s is and everybody on this machine may read it: chmod o-rwx %s", name, secret, name)}
}

// checked answers the values in the types of their settings, or one error that
// lists everything that is wrong with the layer. Empty values count as absent.
func (l layer) checked() (map[string]any, error) {
	values := map[string]any{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(l.values)) {
		raw := l.values[name]
		var value any
		var err error
		switch s, known := find(settings, name); {
		case known && (raw == nil || raw == ""):
			continue
		case known:
			if value, err = s.parse(raw); err != nil {
				err = fmt.Errorf("%s: %s: %w", l.source, l.spell(s), err)
			}
		case name == "classes" && l.nested:
			value, err = l.checkedClasses(raw, name)
		case name == "instances" && l.nested:
			value, err = l.checkedInstances(raw)
		default:
			err = l.unknown(setting{name: name}, settings, l.spell)
		}
		problems = append(problems, err)
		values[name] = value
	}
	problems = append(problems, l.oneStore(values, ""))
	return values, errors.Join(problems...)
}

// oneStore refuses values that say in several ways where the store is.
func (l layer) oneStore(values map[string]any, prefix string) error {
	named := storeNamed(values)
	if len(named) < 2 {
		return nil
	}
	return fmt.Errorf("%s: %s all say where the store is: keep one of them", l.source, prefix+strings.Join(named, ", "+prefix))
}

func (l layer) checkedClasses(raw any, path string) (map[string]any, error) {
	classes, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %s must hold names of classes and their settings", l.source, path)
	}
	values := map[string]any{}
	var problems []error
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		known, err := l.checkedSection(classes[class], path+"."+class, classSettings)
		problems = append(problems, err)
		values[class] = known
	}
	return values, errors.Join(problems...)
}

// checkedSection answers the settings below a path.
func (l layer) checkedSection(raw any, path string, among []setting) (map[string]any, error) {
	spell := func(s setting) string { return path + "." + s.name }
	of, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %s must hold names of settings and their values", l.source, path)
	}
	known := map[string]any{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(of)) {
		s, ok := find(among, name)
		if !ok {
			problems = append(problems, l.unknown(setting{name: name}, among, spell))
			continue
		}
		if of[name] == nil || of[name] == "" {
			continue
		}
		var err error
		if known[name], err = s.parse(of[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", l.source, spell(s), err))
		}
	}
	return known, errors.Join(problems...)
}

func (l layer) checkedInstances(raw any) (map[string]any, error) {
	instances, ok := raw.(map[string]any)
	if !ok || len(instances) == 0 {
		return nil, fmt.Errorf("%s: instances must hold names of instances and their settings", l.source)
	}
	var among []setting
	for _, name := range instanceSettings {
		s, _ := find(settings, name)
		among = append(among, s)
	}
	values := map[string]any{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		path := "instances." + name
		if err := validInstance(name); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", l.source, path, err))
			continue
		}
		of, ok := instances[name].(map[string]any)
		if !ok && instances[name] != nil {
			problems = append(problems, fmt.Errorf("%s: %s must hold names of settings and their values", l.source, path))
			continue
		}
		settingsOf := map[string]any{}
		maps.Copy(settingsOf, of)
		classes, has := of["classes"]
		delete(settingsOf, "classes")
		known, err := l.checkedSection(settingsOf, path, among)
		problems = append(problems, err, l.oneStore(known, path+"."))
		if has {
			known["classes"], err = l.checkedClasses(classes, path+".classes")
			problems = append(problems, err)
		}
		values[name] = known
	}
	return values, errors.Join(problems...)
}

// unknown names a key that means nothing, and what it may have been meant for.
// Its value is not repeated: it may be a secret under a misspelt name.
func (l layer) unknown(s setting, among []setting, spell func(setting) string) error {
	var near []string
	for _, known := range among {
		if distance(s.name, known.name) <= max(2, len(known.name)/3) || strings.Contains(s.name, known.name) {
			near = append(near, spell(known))
		}
	}
	remedy := "`gantry help config` lists them all"
	if near != nil {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s: there is no setting %s; %s", l.source, spell(s), remedy)
}

// distance is how many letters must be changed, left out or added to make b
// of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
