package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// runSettings are the settings that only run uses, and config check checks.
var runSettings = []string{
	"plugins", "php", "library", "php_binary", "php_processes", "php_pickup_delay",
	"conduit", "conduit_key_file", "conduit_host", "conduit_ca", "conduit_token_file", "conduit_connections", "conduit_tasks_per_call",
	"slots", "lease", "idle_poll", "drain_timeout", "max_crashes", "pickup_delay", "socket", "metrics",
}

func (a *app) runCommand() *cobra.Command {
	var untilEmpty bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Lease tasks and run them in handler binaries and in PHP",
		Long: `Lease tasks, run them and settle their outcomes. The classes that the handler
binaries of the manifest take run there, all others in PHP: in resident processes
of the Phorge on this host, or through worker.execute of one elsewhere. Without
PHP their tasks stay as they are, and each such class is logged once.

Several instances are worked on side by side, each with handlers and PHP of its own.
They share the slots by turns, so that a busy one cannot starve another.

With api set, the queues are served over HTTP as well, as by ` + "`gantry serve`" + `, and
what comes in there starts at once; not with --until-empty.

The first SIGTERM, SIGINT or SIGHUP drains: no task is leased any more, unstarted ones go
back to the queue, running ones may end within drain_timeout. A second stops at
once: running tasks are cancelled and go back too. Neither costs a task an
attempt.

The log goes to standard error, and says every so often how far the work is. When
it ends, the counts go to standard output. Tasks that failed are counted there;
they do not make the run itself a failure.`,
		Example: `  gantry run --phorge /opt/phorge --plugins /etc/gantry/plugins.yaml
  gantry run --phorge /opt/phorge --php-processes 2..8
  gantry run --dsn-file dsn --conduit https://phorge.example.com/ --conduit-key-file keys.json
  gantry run --config /etc/gantry/gantry.yaml --slots 64
  gantry run --sqlite queue.db --plugins plugins.yaml --api 127.0.0.1:8090
  gantry run --until-empty --output json`,
		Args: noArgs,
	}
	addRunFlags(cmd)
	cmd.Flags().BoolVar(&untilEmpty, "until-empty", false,
		"end once nothing that can run here is due, for cron jobs and CI; tasks that wait are not waited for")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		err = a.run(cmd.Context(), c, untilEmpty)
		if errors.Is(err, context.Canceled) && !untilEmpty {
			return nil // a signal came before there was anything to stop
		}
		return err
	}
	return cmd
}

// run joins the rooms: for each instance a store, what runs tasks, and the
// runtime between them; and the API beside all of them.
func (a *app) run(ctx context.Context, c *config, untilEmpty bool) error {
	drain, second, release := stopSignals(ctx)
	defer release()
	stop, cancel := stopAt(drain, second, c.DrainTimeout)
	defer cancel()
	log := newLogger(a.err, a.environ, c)
	c.gorge.tell(log, append([]string{"dsn", "slots", "idle_poll"}, apiSettings...)...)

	seen := c.observe(log)
	all, err := a.startInstances(drain, stop, c, log)
	if err != nil {
		seen.close(second, log)
		return err
	}
	defer all.close()
	defer seen.close(second, log)
	working := all.working()
	if c.Socket != "" && !untilEmpty {
		hangUp, err := serveStatus(c.Socket, working.ready, working.status, seen.metrics)
		if err != nil {
			return coded{err, exitUsage}
		}
		defer hangUp()
	}
	if !untilEmpty {
		hangUp, err := c.serveMetrics(seen.metrics, log)
		if err != nil {
			return err
		}
		defer hangUp()
	}
	for _, i := range working {
		announce(i.log, i.config, i.host, i.php)
	}
	if untilEmpty {
		err := working.each(func(i *instance) error { return i.passes(drain, stop) })
		return errors.Join(a.printCounts(working), err)
	}
	drain, giveUp := context.WithCancel(drain)
	defer giveUp()
	ended := func() error { return nil }
	if c.API != "" {
		if ended, err = serveBeside(drain, stop, giveUp, c, all, log); err != nil {
			return err
		}
	}
	if err := working.each((*instance).begin); err != nil {
		giveUp()
		return errors.Join(err, working.each(func(i *instance) error { return i.runtime.Close() }), ended())
	}
	drained := make(chan error, 1)
	go func() { drained <- working.each(func(i *instance) error { return i.work(drain, stop) }) }()
	<-drain.Done()
	log.Info().Msg("stopping; a second signal stops at once")
	return errors.Join(<-drained, ended(), a.printCounts(working))
}

// startHost starts the handler binaries of a manifest.
func startHost(ctx context.Context, c *config, manifest *host.Manifest, log zerolog.Logger) (*host.Host, error) {
	h, err := host.New(host.Config{Manifest: manifest, Site: c.handlerSite(), Log: log})
	if err != nil {
		return nil, err
	}
	if err := h.Start(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// classesToRun joins what the handlers, the manifest and the configuration say
// about each class, and answers how the classes run that none of them names.
// The configuration goes over the manifest, but slots can only be lowered: a
// handler may not stand more.
func classesToRun(c *config, h *host.Host, php *phpRoute, log zerolog.Logger) (classes map[string]runtime.Class, others *runtime.Class) {
	classes = map[string]runtime.Class{}
	for name, limits := range h.Classes() {
		if php.keeps(name, log) {
			continue
		}
		class := runtime.Class{
			Executor: h, Route: "plugin", Slots: limits.Slots, LeaseTime: limits.Lease,
			Deadline: limits.Deadline, PickupDelay: c.PickupDelay,
		}
		switch {
		case limits.Fallback == host.PHP && php.runs():
			class.Fallback, class.FallbackRoute = php.Executor, php.name
		case limits.Fallback == host.PHP:
			log.Warn().Str("taskClass", name).Str("because", php.why).
				Msg("nothing runs PHP here, the fallback of the class: tasks that the handler cannot take wait")
		}
		classes[name] = c.Classes[name].over(class)
	}
	if php.runs() {
		others = &runtime.Class{Executor: php.Executor, Route: php.name, Limit: php.limit, PickupDelay: c.PHPPickupDelay}
	}
	for name, own := range c.Classes {
		if _, ok := classes[name]; ok {
			continue
		}
		if others == nil {
			log.Warn().Str("taskClass", name).Msg("the configuration has settings for a class that nothing here runs")
			continue
		}
		classes[name] = own.over(*others)
	}
	return classes, others
}

// over lays what the file says about a class over what is known of it.
func (own classConfig) over(class runtime.Class) runtime.Class {
	if own.Slots != nil && (class.Slots == 0 || *own.Slots < class.Slots) {
		class.Slots = *own.Slots
	}
	override(&class.LeaseTime, own.Lease)
	override(&class.Deadline, own.Deadline)
	override(&class.PickupDelay, own.PickupDelay)
	override(&class.MaxCrashes, own.MaxCrashes)
	return class
}

func override[T any](value *T, own *T) {
	if own != nil {
		*value = *own
	}
}

// announce logs what is served, and from where.
func announce(log zerolog.Logger, c *config, h *host.Host, php *phpRoute) {
	classes := slices.Sorted(maps.Keys(h.Classes()))
	event := log.Info().Str("version", readVersion().Version).Str("store", c.storeName()).
		Strs("classes", classes).Int("slots", c.Slots).Stringer("lease", c.Lease)
	if php.runs() {
		event = event.Str("others", php.name)
	}
	event.Msg("serving")
	if !php.runs() && c.PHP != "off" && c.Phorge != "" {
		log.Warn().Str("because", php.why).Msg("nothing runs PHP here, so classes without a plugin stay in the queue")
	}
}
