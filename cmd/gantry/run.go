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
	"conduit", "conduit_key_file", "conduit_host", "conduit_ca", "conduit_connections", "conduit_tasks_per_call",
	"slots", "lease", "idle_poll", "drain_timeout", "max_crashes", "pickup_delay", "socket",
}

func (a *app) runCommand() *cobra.Command {
	var untilEmpty bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Lease tasks and run them in the handler binaries",
		Long: `Lease tasks of the classes that the handler binaries of the manifest take, run
them and settle their outcomes. Tasks of other classes stay as they are; each
such class is logged once.

The first SIGTERM, SIGINT or SIGHUP drains: no task is leased any more, unstarted ones go
back to the queue, running ones may end within drain_timeout. A second stops at
once: running tasks are cancelled and go back too. Neither costs a task an
attempt.

The log goes to standard error, and says every so often how far the work is. When
it ends, the counts go to standard output. Tasks that failed are counted there;
they do not make the run itself a failure.`,
		Example: `  gantry run --phorge /opt/phorge --plugins /etc/gantry/plugins.yaml
  gantry run --config /etc/gantry/gantry.yaml --slots 64
  gantry run --until-empty --output json`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), runSettings...)
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

// run joins the rooms: a store, a host of handler binaries, and the runtime
// between them.
func (a *app) run(ctx context.Context, c *config, untilEmpty bool) error {
	drain, stop, release := stopSignals(ctx)
	defer release()
	log := newLogger(a.err, a.environ, c)

	manifest, err := loadManifest(c)
	if err != nil {
		return err
	}
	s, err := a.open(drain, c)
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := startHost(drain, manifest, log)
	if err != nil {
		return err
	}
	defer h.Close()
	rt, err := runtime.New(runtime.Config{
		Store: s, Classes: classesToRun(c, h, log),
		Slots: c.Slots, LeaseTime: c.Lease, IdlePoll: c.IdlePoll,
		DrainTimeout: c.DrainTimeout, MaxCrashes: c.MaxCrashes, Log: log,
	})
	if err != nil {
		return coded{err, exitUsage}
	}
	announce(log, c, h)
	w := newWatch(a, log, s, h)
	if untilEmpty {
		return errors.Join(a.passes(drain, stop, c.DrainTimeout, rt, w), rt.Close())
	}
	if err := rt.Start(); err != nil {
		return err
	}
	w.until(drain, rt)
	log.Info().Msg("stopping; a second signal stops at once")
	return errors.Join(rt.Drain(stop), a.printCounts(rt.Stats()))
}

// startHost starts the handler binaries of a manifest.
func startHost(ctx context.Context, manifest *host.Manifest, log zerolog.Logger) (*host.Host, error) {
	h, err := host.New(host.Config{Manifest: manifest, Log: log})
	if err != nil {
		return nil, err
	}
	if err := h.Start(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// classesToRun joins what the handlers, the manifest and the configuration say
// about each class. The configuration goes over the manifest, but slots can
// only be lowered: a handler may not stand more.
func classesToRun(c *config, h *host.Host, log zerolog.Logger) map[string]runtime.Class {
	classes := map[string]runtime.Class{}
	for name, limits := range h.Classes() {
		class := runtime.Class{
			Executor: h, Slots: limits.Slots, LeaseTime: limits.Lease,
			Deadline: limits.Deadline, PickupDelay: c.PickupDelay,
		}
		own := c.Classes[name]
		if own.Slots != nil && (class.Slots == 0 || *own.Slots < class.Slots) {
			class.Slots = *own.Slots
		}
		override(&class.LeaseTime, own.Lease)
		override(&class.Deadline, own.Deadline)
		override(&class.PickupDelay, own.PickupDelay)
		override(&class.MaxCrashes, own.MaxCrashes)
		classes[name] = class
		if limits.Fallback == host.PHP {
			log.Warn().Str("taskClass", name).Msg("this Gantry cannot run PHP, the fallback of the class: tasks that the handler cannot take wait")
		}
	}
	for name := range c.Classes {
		if _, ok := classes[name]; !ok {
			log.Warn().Str("taskClass", name).Msg("the configuration has settings for a class that no handler of the manifest takes")
		}
	}
	return classes
}

func override[T any](value *T, own *T) {
	if own != nil {
		*value = *own
	}
}

// announce logs what is served, and from where.
func announce(log zerolog.Logger, c *config, h *host.Host) {
	classes := slices.Sorted(maps.Keys(h.Classes()))
	log.Info().Str("version", readVersion().Version).Str("store", c.storeName()).
		Strs("classes", classes).Int("slots", c.Slots).Stringer("lease", c.Lease).Msg("serving")
}
