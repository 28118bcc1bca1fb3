package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/rs/zerolog"
)

// noStore stands for a store where only the names of the instances matter.
type noStore struct{ tasks.Service }

// checkAPI looks at who may use the queues over HTTP, and whether this user can
// listen for them.
func checkAPI(c *config) []finding {
	if c.API == "" && c.Tokens == "" && c.gorge.token == "" {
		return nil
	}
	if entries, _, err := readTokens(c.Tokens); c.API == "" && err == nil && len(entries) > 0 && !slices.ContainsFunc(entries, tokenEntry.forQueue) {
		return nil // they are for a gateway
	}
	var names []string
	instances := map[string]queueapi.Instance{}
	for _, one := range c.queues() {
		name, err := one.instanceName()
		if err != nil {
			return nil // the store has said so
		}
		names = append(names, name)
		instances[name] = queueapi.Instance{Store: noStore{}}
	}
	tokens, err := c.callers(names)
	if err != nil {
		return []finding{{problem, "tokens", err.Error()}}
	}
	api, err := queueapi.New(queueapi.Config{Instances: instances, Tokens: tokens, Log: zerolog.Nop()})
	if err != nil {
		return []finding{{problem, "tokens", strings.TrimPrefix(err.Error(), "queue API: ") + "; the instances are " + strings.Join(names, ", ")}}
	}
	defer api.Close()
	var findings []finding
	switch {
	case c.Tokens != "":
		findings = append(findings, finding{ok, "tokens", plural(len(tokens), "token", "tokens") + " for " + strings.Join(names, ", ")})
		for _, w := range warnIfPublic(c.Tokens, "who may use the queue") {
			findings = append(findings, finding{warning, "tokens", w})
		}
	case len(tokens) > 0:
		findings = append(findings, finding{ok, "tokens", c.gorge.tokenIn + " is a token with all rights on " + names[0]})
	default:
		findings = append(findings, finding{warning, "tokens", "there are none, so everybody on this machine may use the queue, and nobody else: make some with `gantry tokens new`"})
	}
	if c.API != "" {
		findings = append(findings, checkListen(api, c.API))
	}
	return findings
}

func checkListen(api *queueapi.API, address string) finding {
	listener, err := api.Listen(address)
	switch {
	case err == nil:
		listener.Close()
		return finding{ok, "api", "this user can listen on " + address}
	case errors.Is(err, syscall.EADDRINUSE):
		return finding{ok, "api", "something listens on " + address + " already, a running Gantry perhaps"}
	}
	var where *net.OpError
	if errors.As(err, &where) {
		return finding{problem, "api", fmt.Sprintf("nobody can listen on %s here: %v", address, where.Err)}
	}
	return finding{problem, "api", strings.TrimPrefix(err.Error(), "queue API: ")}
}
