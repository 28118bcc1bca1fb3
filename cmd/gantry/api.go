package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/rs/zerolog"
)

// apiSettings are the settings of the queue over HTTP.
var apiSettings = []string{"api", "tokens", "api_lease", "api_retry_wait", "api_keep_keys", "api_query_token", "api_max_body"}

// queue is an instance as the API serves it.
type queue struct {
	name   string
	config *config
	store  store
}

// openQueues opens the store of each instance.
func (a *app) openQueues(ctx context.Context, c *config) (queues []queue, err error) {
	defer func() {
		if err != nil {
			closeQueues(queues)
		}
	}()
	for _, one := range c.queues() {
		name, err := one.instanceName()
		if err != nil {
			return queues, err
		}
		if slices.ContainsFunc(queues, func(other queue) bool { return other.name == name }) {
			return queues, usagef("there are two instances called %s", name)
		}
		s, err := a.open(ctx, one)
		if err != nil {
			return queues, named(c, name, err)
		}
		queues = append(queues, queue{name, one, s})
	}
	return queues, apart(ctx, queues)
}

func closeQueues(queues []queue) {
	for _, q := range queues {
		q.store.Close()
	}
}

// named puts the name of an instance to an error, where there are several.
func named(c *config, name string, err error) error {
	if len(c.instances) == 0 {
		return err
	}
	return ofInstance(name, err)
}

func ofInstance(name string, err error) error { return fmt.Errorf("instance %s: %w", name, err) }

// newAPI makes the API of queues. Its errors say what is wrong with the
// configuration.
func newAPI(c *config, queues []queue, log zerolog.Logger) (*queueapi.API, error) {
	instances := map[string]queueapi.Instance{}
	var names []string
	for _, q := range queues {
		instances[q.name] = queueapi.Instance{Store: q.store, Backend: q.config.backend(), PickupDelay: q.config.PickupDelay}
		names = append(names, q.name)
	}
	tokens, err := c.callers(names)
	if err != nil {
		return nil, err
	}
	api, err := queueapi.New(queueapi.Config{
		Observer: c.observed.metrics, Tracer: c.observed.tracer, Metrics: c.observed.metrics.Page,
		Instances: instances, Tokens: tokens, QueryToken: c.APIQueryToken,
		LeaseTime: c.APILease, RetryWait: c.APIRetryWait, KeepKeys: c.APIKeepKeys, MaxBody: int64(c.APIMaxBody), Log: log,
	})
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	return api, nil
}

// listenAPI listens where the configuration says, or at the default.
func listenAPI(api *queueapi.API, c *config) (net.Listener, error) {
	listener, err := api.Listen(cmp.Or(c.API, defaultAPI))
	if err != nil {
		return nil, coded{fmt.Errorf("api, from %s: %w", c.origin["api"], err), exitUsage}
	}
	return listener, nil
}

// serveBeside serves queues over HTTP beside the runtimes that work on them, until
// ctx ends. What it answers waits for that, and for what came of it. When the
// queues cannot be served any more, giveUp is called.
func serveBeside(ctx, stop context.Context, giveUp func(), c *config, all instances, log zerolog.Logger) (wait func() error, err error) {
	queues, err := all.queues()
	if err != nil {
		return nil, err
	}
	for n, i := range all {
		q := &queues[n]
		if i.runtime != nil {
			q.store = waking{i.store, i.runtime.Wake}
		}
	}
	api, err := newAPI(c, queues, log)
	if err != nil {
		return nil, err
	}
	listener, err := listenAPI(api, c)
	if err != nil {
		return nil, err
	}
	announceAPI(log, queues, listener.Addr().String())
	ended := make(chan error, 1)
	go func() {
		err := api.Serve(ctx, stop, listener)
		if err != nil {
			giveUp()
		}
		ended <- err
	}()
	return func() error { return <-ended }, nil
}

// waking is the store of a queue that a runtime of this process works on: what is
// queued through it wakes the runtime at once.
type waking struct {
	store
	wake func()
}

// Enqueue implements tasks.Store.
func (w waking) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	defer w.wake()
	return w.store.Enqueue(ctx, news)
}

// EnqueueOnce implements tasks.Service.
func (w waking) EnqueueOnce(ctx context.Context, once tasks.Once, news []tasks.NewTask) ([]int64, bool, error) {
	defer w.wake()
	return w.store.EnqueueOnce(ctx, once, news)
}

// SettleLive implements tasks.Service: follow-ups are queued by it.
func (w waking) SettleLive(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	if slices.ContainsFunc(settlements, func(s tasks.Settlement) bool { return len(s.Outcome.FollowUps) > 0 }) {
		defer w.wake()
	}
	return w.store.SettleLive(ctx, settlements)
}

// Awaken implements tasks.Operator.
func (w waking) Awaken(ctx context.Context, ids []int64) (int, error) {
	defer w.wake()
	return w.store.Awaken(ctx, ids)
}
