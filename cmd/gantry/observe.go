package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/metrics"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/tracing"
	"github.com/rs/zerolog"
)

// observed is who is told what a Gantry that works or serves does.
type observed struct {
	metrics *metrics.Metrics
	tracer  *tracing.Tracer // nil: nobody traces
}

// observe has every queue of the configuration observed from now on. Traces that
// cannot be sent are no reason not to work.
func (c *config) observe(log zerolog.Logger) *observed {
	version := readVersion().Version
	o := &observed{metrics: metrics.New(version)}
	var err error
	if o.tracer, err = tracing.Start(version, log); err != nil {
		log.Error().Err(err).Msg("nothing is traced")
	}
	for _, one := range c.queues() {
		one.observed = o
	}
	c.observed = o
	return o
}

// serveMetrics answers Prometheus where the configuration says, until hangUp is
// called.
func (c *config) serveMetrics(page http.Handler, log zerolog.Logger) (hangUp func(), err error) {
	if c.Metrics == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return nil, coded{fmt.Errorf("metrics, from %s: %w", c.origin["metrics"], err), exitUsage}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends when it is closed
	}()
	log.Info().Str("address", listener.Addr().String()).Msg("answering Prometheus")
	return func() {
		server.Close()
		<-served
	}, nil
}

// checkTraces looks whether traces can be sent, where they are to be.
func checkTraces() []finding {
	switch variable, err := tracing.Collector(); {
	case err != nil:
		return []finding{{problem, "traces", strings.TrimPrefix(err.Error(), "traces: ")}}
	case variable != "":
		return []finding{{ok, "traces", "spans are sent to the collector that " + variable + " names; whether it answers was not looked at"}}
	}
	return nil
}

// close ends it before the stores are closed. The end of ctx cuts short what is
// still to be sent.
func (o *observed) close(ctx context.Context, log zerolog.Logger) {
	o.metrics.Close()
	if err := o.tracer.Close(ctx); err != nil {
		log.Warn().Err(err).Msg("not all that was traced could be sent")
	}
}

// observedName names the queue in metrics and traces.
func (c *config) observedName() string {
	name, err := c.instanceName()
	if err != nil { // a database of a name that tells no namespace
		return "default"
	}
	return name
}

// traced reports whether trace contexts are of use here.
func (c *config) traced() bool { return c.observed != nil && c.observed.tracer != nil }

// repetitions answers who is told what the store of the queue tries again, nil
// when nobody is.
func (c *config) repetitions() func(reason string) {
	if c.observed == nil {
		return nil
	}
	return c.observed.metrics.Instance(c.observedName()).Repeated
}

// watchRuntime answers the observer of a runtime, and has its tasks run in spans.
func (o *observed) watchRuntime(name string, classes map[string]runtime.Class, others *runtime.Class) runtime.Observer {
	span := func(c runtime.Class) runtime.Class {
		c.Executor = o.tracer.Executor(c.Executor, name, c.Route)
		c.Fallback = o.tracer.Executor(c.Fallback, name, c.FallbackRoute)
		return c
	}
	for class, how := range classes {
		classes[class] = span(how)
	}
	if others != nil {
		*others = span(*others)
	}
	return o.metrics.Instance(name, slices.Collect(maps.Keys(classes))...)
}

// watchInstance has shown how an instance is.
func (o *observed) watchInstance(name string, i *instance) {
	m := o.metrics.Instance(name)
	m.Queue(i.store)
	m.Concurrency(func() (slots, running, held int) {
		stats := i.runtime.Stats()
		return stats.Slots, stats.Running, stats.Held
	})
	m.Plugins(func() map[string]int { return pluginStates(i.host.List()) })
	if i.php.name == "pool" {
		m.Pool(func() map[string]int {
			state, _ := i.php.state().all.(pool.State)
			return poolStates(state)
		})
	}
}

func pluginStates(list []host.Status) map[string]int {
	counts := map[string]int{}
	for _, state := range []host.State{host.Stopped, host.Starting, host.Ready, host.Draining, host.Backoff} {
		counts[string(state)] = 0
	}
	for _, one := range list {
		counts[string(one.State)]++
		if one.Alone != nil {
			counts[string(one.Alone.State)]++
		}
	}
	return counts
}

func poolStates(state pool.State) map[string]int {
	counts := map[string]int{}
	for _, phase := range []pool.Phase{pool.Starting, pool.Idle, pool.Busy, pool.Leaving, pool.Stopped, pool.Failed} {
		counts[string(phase)] = 0
	}
	for _, one := range state.Processes {
		counts[string(one.Phase)]++
	}
	return counts
}
