package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/phorge-gantry/gantry/tasks/phorge"
)

// instanceOf answers the configuration of one instance: its own settings over
// those of the whole.
func (c *config) instanceOf(whole *koanf.Koanf, name string, own map[string]any) (*config, error) {
	k := whole.Copy()
	one := &config{origin: maps.Clone(c.origin)}
	if len(storeNamed(own)) > 0 {
		for _, other := range storeSettings {
			k.Delete(other)
			one.origin[other] = "default"
		}
	}
	if err := k.Load(confmap.Provider(own, ""), nil); err != nil {
		return nil, err
	}
	for setting := range own {
		one.origin[setting] = c.origin["instances"]
	}
	if err := one.fill(k); err != nil {
		return nil, err
	}
	one.Instance = name
	one.values["instance"] = name
	return one, nil
}

// distinct refuses instances that are one and the same queue by what the
// configuration says, and apart refuses the others. A Redis keeps instances apart.
func distinct(instances []*config) error {
	var problems []error
	seen := map[string]string{}
	for _, c := range instances {
		place := c.DSN + "\n" + c.DSNFile + "\n" + c.Phorge + "\n" + c.SQLite
		switch other, twice := seen[place]; {
		case c.Redis != "" || c.RedisFile != "":
		case strings.TrimSpace(place) == "":
			problems = append(problems, fmt.Errorf("instances.%s: nothing says where its store is: give it one of %s", c.Instance, strings.Join(storeSettings, ", ")))
		case twice:
			problems = append(problems, fmt.Errorf("instances.%s: its store is that of instances.%s: give each its own", c.Instance, other))
		default:
			seen[place] = c.Instance
		}
	}
	return errors.Join(problems...)
}

// apart refuses queues that are one and the same, under whatever names: what each
// of them is allowed would be allowed twice, and a token for one of them would be
// one for the other.
func apart(ctx context.Context, queues []queue) error {
	for n, q := range queues {
		for _, other := range queues[:n] {
			same, err := sameQueue(ctx, q.store, other.store)
			if err == nil && same {
				err = usagef("its store is that of instances.%s: give each its own", other.name)
			}
			if err != nil {
				return ofInstance(q.name, err)
			}
		}
	}
	return nil
}

func sameQueue(ctx context.Context, one, other store) (bool, error) {
	switch one := one.(type) {
	case *embedded.Store:
		other, is := other.(*embedded.Store)
		return is && one.Same(other), nil
	case *phorge.Store:
		if other, is := other.(*phorge.Store); is {
			return one.Same(ctx, other)
		}
	}
	return false, nil
}

// choose answers the configuration of the instance that the setting instance
// names, or the whole when it names none.
func (c *config) choose() (*config, error) {
	if c.Instance == "" || len(c.instances) == 0 {
		return c, nil
	}
	var names []string
	for _, one := range c.instances {
		if one.Instance == c.Instance {
			one.warnings = c.warnings
			one.origin["instance"] = c.origin["instance"]
			return one, nil
		}
		names = append(names, one.Instance)
	}
	return nil, fmt.Errorf("%s: there is no instance %s; there are %s", c.origin["instance"], c.Instance, strings.Join(names, ", "))
}

// queues answers the configuration of each queue.
func (c *config) queues() []*config {
	if len(c.instances) == 0 {
		return []*config{c}
	}
	return c.instances
}

// one answers the configuration of the queue that a command for one works on.
func (c *config) one() (*config, error) {
	queues := c.queues()
	if len(queues) == 1 {
		return queues[0], nil
	}
	var names []string
	for _, one := range queues {
		names = append(names, one.Instance)
	}
	return nil, usagef("there are several instances: say which one with --instance; they are %s", strings.Join(names, ", "))
}

// instanceName answers how the queue is called: as the configuration says, or
// as the namespace of the Phorge, or "default".
func (c *config) instanceName() (string, error) {
	if c.Instance != "" {
		return c.Instance, nil
	}
	if !c.ofPhorge() {
		return "default", nil
	}
	return c.namespace()
}
