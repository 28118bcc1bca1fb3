package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/redis"
	"github.com/rs/zerolog"
)

// openStore opens the queue that the configuration names.
func openStore(ctx context.Context, c *config) (store, error) {
	if c.SQLite != "" {
		s, err := embedded.Open(ctx, embedded.Config{Path: c.SQLite, Repeated: c.repetitions()})
		if err != nil {
			return nil, coded{err, exitUnavailable}
		}
		return s, nil
	}
	if c.backend() == "redis" {
		return openRedis(ctx, c)
	}
	dsn, err := c.storeDSN()
	if err != nil {
		return nil, err
	}
	s, err := phorge.Open(ctx, phorge.Config{DSN: dsn, Traces: c.traced(), Repeated: c.repetitions()})
	if err != nil {
		return nil, coded{err, exitUnavailable}
	}
	return s, nil
}

// openRedis opens the queue of an instance, whose name is in the keys. The log is
// that of ctx.
func openRedis(ctx context.Context, c *config) (store, error) {
	address, err := c.redisURL()
	if err != nil {
		return nil, err
	}
	name, err := c.instanceName()
	if err != nil {
		return nil, err
	}
	s, err := redis.Open(ctx, redis.Config{URL: address, Instance: name, Repeated: c.repetitions(), Log: *zerolog.Ctx(ctx)})
	if err != nil {
		return nil, coded{err, exitUnavailable}
	}
	return s, nil
}

// redisURL answers the URL, read from where the configuration says it is.
func (c *config) redisURL() (string, error) {
	if c.RedisFile == "" {
		return c.Redis, nil
	}
	content, err := os.ReadFile(c.RedisFile)
	if err != nil {
		return "", coded{fmt.Errorf("read redis_file: %w", err), exitUsage}
	}
	address := strings.TrimSpace(string(content))
	if err := validRedis(address); err != nil {
		return "", usagef("redis_file %s: it %w", c.RedisFile, err)
	}
	return address, nil
}

// missingFile reports whether the queue is in a file that nobody has made. Only
// what serves a queue or works on it makes one: a name that is misspelt in a look
// at it would become an empty queue.
func (c *config) missingFile() bool {
	if c.SQLite == "" {
		return false
	}
	_, err := os.Stat(c.SQLite)
	return errors.Is(err, fs.ErrNotExist)
}

// backend answers what kind of store it is.
func (c *config) backend() string {
	switch {
	case c.SQLite != "":
		return "sqlite"
	case c.Redis != "" || c.RedisFile != "":
		return "redis"
	}
	return "mysql"
}

// ofPhorge reports whether the queue is in the tables of a Phorge.
func (c *config) ofPhorge() bool { return c.backend() == "mysql" }

// storeName names the store in logs, without its password.
func (c *config) storeName() string {
	switch {
	case c.DSN != "":
		return c.shown("dsn")
	case c.Redis != "":
		return c.shown("redis")
	}
	return cmp.Or(c.DSNFile, c.SQLite, c.RedisFile, c.Phorge)
}

// namespace answers the storage namespace of the Phorge.
func (c *config) namespace() (string, error) {
	dsn, err := c.storeDSN()
	if err != nil {
		return "", err
	}
	namespace, err := phorge.NamespaceIn(dsn)
	if err != nil {
		return "", coded{err, exitUsage}
	}
	return namespace, nil
}

// daemonDSN answers the DSN of the database that Phorge's daemons report to.
func (c *config) daemonDSN() (string, error) {
	if c.Phorge == "" {
		return c.storeDSN()
	}
	site, err := phorge.ReadPhorge(c.Phorge)
	if err != nil {
		return "", coded{err, exitUsage}
	}
	return site.DaemonDSN, nil
}

// handlerSite answers what tells handlers of the Phorge that the configuration
// names, as its own configuration is when they start; nil when it names none.
func (c *config) handlerSite() func(applications, options []string) (*plugins.Site, error) {
	if c.Phorge == "" {
		return nil
	}
	return func(applications, options []string) (*plugins.Site, error) {
		site, err := phorge.ReadPhorge(c.Phorge)
		if err != nil {
			return nil, err
		}
		told := &plugins.Site{Namespace: site.Namespace, DSNs: map[string]string{}, Options: map[string]json.RawMessage{}}
		for _, application := range applications {
			if told.DSNs[application], err = site.Database(application); err != nil {
				return nil, err
			}
		}
		for _, key := range options {
			if value, set := site.Options[key]; set {
				told.Options[key] = value
			}
		}
		return told, nil
	}
}

// storeDSN answers the DSN, read from where the configuration says it is.
func (c *config) storeDSN() (string, error) {
	switch {
	case !c.ofPhorge():
		return "", usagef("this needs the tables of a Phorge, and the queue is in %s", c.storeName())
	case c.DSN != "":
		return c.DSN, nil
	case c.DSNFile != "":
		content, err := os.ReadFile(c.DSNFile)
		if err != nil {
			return "", coded{fmt.Errorf("read dsn_file: %w", err), exitUsage}
		}
		return strings.TrimSpace(string(content)), nil
	case c.Phorge != "":
		site, err := phorge.ReadPhorge(c.Phorge)
		if err != nil {
			return "", coded{err, exitUsage}
		}
		if site.ReadOnly {
			return "", fmt.Errorf("%w: the Phorge at %s is read-only (cluster.read-only), so nothing may be leased or changed; try again once it is false",
				tasks.ErrUnavailable, c.Phorge)
		}
		return site.DSN, nil
	}
	if _, err := c.one(); err != nil {
		return "", err
	}
	return "", usagef("there is no store: name a Phorge with --phorge, or its worker database with GANTRY_DSN or --dsn-file; " +
		"or a queue of its own with --sqlite or --redis")
}
