package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

// phpRoute is what runs the classes without a plugin, in PHP.
type phpRoute struct {
	name string // "pool" or "conduit", or "" when nothing does
	why  string // nothing does

	tasks.Executor
	classes func() []string // those that it names; nil: it takes all alike
	limit   *runtime.Limit
	state   func() phpState
	close   func() error

	publishers func() []string // of feed stories, as far as PHP was asked; nil: nobody can be
}

// phpState is how the route is now.
type phpState struct {
	ready   bool
	problem string // the last
	all     any    // for people who ask
}

// chooseRoute answers what is to run the classes without a plugin, or why
// nothing does. Only what was asked for by name and cannot be is an error.
func (c *config) chooseRoute() (name, why string, err error) {
	switch {
	case c.PHP == "off":
		return "", "php is off", nil
	case !c.ofPhorge() && c.PHP == "auto":
		return "", "PHP runs only what is queued in the tables of a Phorge, and the queue is in " + c.storeName(), nil
	case !c.ofPhorge():
		return "", "", usagef("php is %s, and PHP runs only what is queued in the tables of a Phorge: the queue is in %s", c.PHP, c.storeName())
	case c.PHP == "conduit" || c.PHP == "auto" && c.Conduit != "":
		return "conduit", "", c.checkConduit()
	case c.PHP == "auto" && c.Phorge == "":
		return "", "neither phorge nor conduit is set", nil
	case c.Phorge == "":
		return "", "", usagef("php is pool, which runs the PHP of a Phorge on this host: name it with --phorge")
	}
	if _, err := c.findLibrary(); err != nil {
		if c.PHP == "auto" && c.Library == "" {
			return "", err.Error(), nil
		}
		return "", "", coded{err, exitUsage}
	}
	return "pool", "", nil
}

func (c *config) checkConduit() error {
	switch {
	case c.Conduit == "":
		return usagef("php is conduit, and nothing says where the Phorge is: set conduit to its URL")
	case c.ConduitKeyFile == "":
		return usagef("conduit needs a key: make one with `gantry keys new` and set conduit_key_file")
	}
	return nil
}

// startPHP starts what the configuration says is to run PHP. PHP that does not
// run is no error here: it is logged, and tried again.
func startPHP(ctx context.Context, c *config, log zerolog.Logger) (*phpRoute, error) {
	name, why, err := c.chooseRoute()
	switch {
	case err != nil || name == "":
		return &phpRoute{why: why}, err
	case name == "conduit":
		return startConduit(ctx, c, log)
	}
	return startPool(ctx, c, log)
}

func startPool(ctx context.Context, c *config, log zerolog.Logger) (*phpRoute, error) {
	p, err := newPool(c, log)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &phpRoute{
		name: "pool", Executor: p, limit: &runtime.Limit{Slots: p.Slots}, close: p.Close,
		publishers: p.Publishers,
		state: func() phpState {
			s := p.State()
			return phpState{ready: s.Ready, problem: s.Problem, all: s}
		},
	}, nil
}

func newPool(c *config, log zerolog.Logger) (*pool.Pool, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	library, err := c.findLibrary()
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	least, most := c.processes()
	return pool.New(pool.Config{
		Command:   []string{c.PHPBinary, filepath.Join(library, hostScript), "--phorge", c.Phorge},
		Namespace: namespace, Min: least, Max: most, Log: log,
	})
}

func startConduit(ctx context.Context, c *config, log zerolog.Logger) (*phpRoute, error) {
	e, err := newConduit(c, log)
	if err != nil {
		return nil, err
	}
	if err := e.Start(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &phpRoute{
		name: "conduit", Executor: e, classes: e.Classes, limit: &runtime.Limit{Slots: e.Slots}, close: e.Close,
		publishers: e.Publishers,
		state: func() phpState {
			s := e.State()
			return phpState{ready: s.Ready, problem: s.Problem, all: s}
		},
	}, nil
}

func newConduit(c *config, log zerolog.Logger) (*conduit.Executor, error) {
	keys, err := c.keys()
	if err != nil {
		return nil, err
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	token, err := c.conduitToken()
	if err != nil {
		return nil, err
	}
	key := keys[len(keys)-1]
	e, err := conduit.New(conduit.Config{
		URL: c.Conduit, Host: c.ConduitHost, CAFile: c.ConduitCA, ServiceToken: token,
		Namespace: namespace, KeyID: key.ID, Key: conduit.Secret(key.secret),
		Connections: c.ConduitConnections, TasksPerCall: c.ConduitTasksPerCall, Log: log,
	})
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	return e, nil
}

// conduitToken reads the token of a gateway in front of the Phorge.
func (c *config) conduitToken() (conduit.Secret, error) {
	if c.ConduitTokenFile == "" {
		return "", nil
	}
	content, err := os.ReadFile(c.ConduitTokenFile)
	if err != nil {
		return "", coded{fmt.Errorf("read conduit_token_file: %w", err), exitUsage}
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", usagef("conduit_token_file %s is empty: put the service token of the gateway into it", c.ConduitTokenFile)
	}
	return conduit.Secret(token), nil
}

// runs reports whether anything runs PHP here.
func (p *phpRoute) runs() bool { return p.name != "" }

// takes reports whether PHP runs the tasks of a class. What is not ready may
// take any: nobody knows which it names.
func (p *phpRoute) takes(class string) bool {
	return p.runs() && (p.classes == nil || !p.ready() || slices.Contains(p.classes(), class))
}

// ready reports whether PHP would run a task that came now.
func (p *phpRoute) ready() bool { return p.runs() && p.state().ready }

// Close ends what runs PHP.
func (p *phpRoute) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}
