package host

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Manifest is plugins.yaml: which handler binaries may run, what their bytes
// must be, and which classes they take.
//
//	plugins:
//	  - path: handlers/handler-testworker # relative to this file
//	    sha256: 0f3c…                     # `gantry plugins pin` writes it
//	    env: [HTTPS_PROXY]                # passed through; nothing else is
//	    phorge: true                      # it may reach Phorge's databases
//	    classes:
//	      PhabricatorTestWorker:
//	        slots: 16
//	        deadline: 10m
//	        fallback: php
type Manifest struct {
	Plugins []Plugin `yaml:"plugins"`

	file string
}

// Plugin is one handler binary.
type Plugin struct {
	// Name stands in logs and listings. The base name of the path when not
	// given; unique in the manifest.
	Name string `yaml:"name"`

	// Path of the binary; a relative one is relative to the manifest.
	Path string `yaml:"path"`

	// SHA256 is the digest of the binary in hexadecimal. A binary without one,
	// or whose bytes differ, is not started.
	SHA256 string `yaml:"sha256"`

	// Env names the variables of Gantry's environment that the binary sees.
	// It sees no others.
	Env []string `yaml:"env"`

	// Phorge says that the binary may reach the databases of the Phorge, with
	// its password, and read its options. A binary whose handlers want that is
	// not started without.
	Phorge bool `yaml:"phorge"`

	// Classes holds the task classes that the binary takes, by their exact
	// spelling. At least one.
	Classes map[string]Class `yaml:"classes"`
}

// Class is what the manifest says about one task class. Zero fields leave the
// matter to the handler or to the runtime's configuration.
type Class struct {
	// Slots is how many tasks of the class run at once.
	Slots int `yaml:"slots"`

	// Lease is how long a lease of the class lasts before it must be renewed.
	// At least one second.
	Lease time.Duration `yaml:"lease"`

	// Deadline ends a run that takes longer, as a failure.
	Deadline time.Duration `yaml:"deadline"`

	// MaxRetries and Wait replace the retry policy of the handler, as
	// PhabricatorWorker::getMaximumRetryCount and getWaitBeforeRetry.
	MaxRetries *int           `yaml:"max_retries"`
	Wait       *time.Duration `yaml:"wait"`

	// Fallback says what becomes of the class's tasks while the binary cannot
	// run, and of tasks that its handler declines. Hold when not given.
	Fallback Fallback `yaml:"fallback"`
}

// Fallback is a way for tasks whose handler cannot take them.
type Fallback string

const (
	Hold Fallback = "hold" // they wait in the queue
	PHP  Fallback = "php"  // PHP executes them
)

// LoadManifest reads a manifest. It refuses unknown keys and impossible values
// with an error that names the file and what to mend. It does not look at the
// binaries; Manifest.Verify does.
func LoadManifest(path string) (*Manifest, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read plugin manifest: %w", err)
	}
	m, err := parseManifest(content)
	if err != nil {
		return nil, fmt.Errorf("plugin manifest %s: %w", path, err)
	}
	if m.file, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("plugin manifest %s: %w", path, err)
	}
	for i := range m.Plugins {
		if p := &m.Plugins[i]; !filepath.IsAbs(p.Path) {
			p.Path = filepath.Join(filepath.Dir(m.file), p.Path)
		}
	}
	return m, nil
}

func parseManifest(content []byte) (*Manifest, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var m Manifest
	if err := decoder.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return nil, plainYAMLError(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document; put all plugins into one")
	}
	if err := checkZeros(content); err != nil {
		return nil, err
	}
	for i := range m.Plugins {
		p := &m.Plugins[i]
		if p.Name == "" {
			p.Name = filepath.Base(p.Path)
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("plugin %d (%s): %w", i+1, p.Name, err)
		}
	}
	return &m, m.checkUnique()
}

func (p *Plugin) check() error {
	if p.Path == "" {
		return errors.New("path is missing")
	}
	if p.SHA256 != "" {
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 {
			return fmt.Errorf("sha256 %q is not 64 hexadecimal digits; `gantry plugins pin` writes it", p.SHA256)
		}
	}
	for _, name := range p.Env {
		if name == "" || strings.Contains(name, "=") {
			return fmt.Errorf("env %q must be the name of a variable; values come from Gantry's own environment", name)
		}
	}
	if len(p.Classes) == 0 {
		return errors.New("classes is empty; name at least one task class")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Classes)) {
		if strings.TrimSpace(name) != name {
			return fmt.Errorf("class %q has spaces around its name, and no task's class has; remove them", name)
		}
		if err := p.Classes[name].check(); err != nil {
			return fmt.Errorf("class %s: %w", name, err)
		}
	}
	return nil
}

func (c Class) check() error {
	switch {
	case c.Slots < 0:
		return fmt.Errorf("slots %d must be 1 or more", c.Slots)
	case c.Lease != 0 && c.Lease < time.Second:
		return fmt.Errorf("lease %v is less than a second", c.Lease)
	case c.Deadline != 0 && c.Deadline < time.Second:
		return fmt.Errorf("deadline %v is less than a second", c.Deadline)
	case c.MaxRetries != nil && *c.MaxRetries < 0:
		return fmt.Errorf("max_retries %d must be 0 or more", *c.MaxRetries)
	case c.Wait != nil && *c.Wait != 0 && *c.Wait < time.Second:
		return fmt.Errorf("wait %v is less than a second", *c.Wait)
	case c.Fallback != "" && c.Fallback != Hold && c.Fallback != PHP:
		return fmt.Errorf("fallback %q must be %q or %q", c.Fallback, Hold, PHP)
	}
	return nil
}

func (m *Manifest) checkUnique() error {
	named := map[string]bool{}
	owner := map[string]string{}
	for _, p := range m.Plugins {
		if named[p.Name] {
			return fmt.Errorf("two plugins are named %s; give one another name", p.Name)
		}
		named[p.Name] = true
		for class := range p.Classes {
			if other := owner[class]; other != "" {
				return fmt.Errorf("class %s is listed by %s and by %s; one binary takes a class", class, other, p.Name)
			}
			owner[class] = p.Name
		}
	}
	return nil
}
