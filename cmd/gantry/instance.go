package main

import (
	"context"
	"errors"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

// instance is one queue at work: its store, what runs its tasks, and the runtime
// between them.
type instance struct {
	name    string // "" when there is one alone
	config  *config
	log     zerolog.Logger
	store   store
	host    *host.Host
	php     *phpRoute
	runtime *runtime.Runtime // nil: what is queued is for others, over the API
	watch   *watch
	silence func()        // ends the heartbeat
	did     runtime.Stats // when it has ended
}

// start starts all that the queue needs to be worked on, but the runtime. The
// end of stop ends PHP.
func (i *instance) start(ctx, stop context.Context, a *app, turns *runtime.Turns) (err error) {
	c := i.config
	manifest := &host.Manifest{}
	if c.Plugins != "" {
		if manifest, err = loadManifest(c); err != nil {
			return err
		}
	}
	if i.store, err = a.open(i.log.WithContext(ctx), c); err != nil {
		return err
	}
	if err := untold(i.store); err != nil {
		i.log.Warn().Err(err).Msg("Gantry's own tables cannot be used")
	}
	if i.host, err = startHost(ctx, c, manifest, i.log); err != nil {
		return err
	}
	if i.php, err = a.php(ctx, c, i.log); err != nil {
		return err
	}
	// Cancelling does not end PHP on another host, and the runtime waits for
	// it. Closing leaves what still runs there to the next lease.
	context.AfterFunc(stop, func() { _ = i.php.Close() })
	name := c.observedName()
	if len(i.host.Classes()) == 0 && !i.php.runs() {
		if i.name == "" || c.API == "" {
			served := "`gantry serve` serves a queue whose tasks other programs run"
			if i.name != "" {
				served += ", and so does `gantry run` when api is set"
			}
			return usagef("there is nothing to run: no manifest of handler binaries is named (--plugins), and PHP does not run, because %s; %s", i.php.why, served)
		}
		c.observed.metrics.Instance(name).Queue(i.store)
		return nil
	}
	classes, others := classesToRun(c, i.host, i.php, i.log)
	i.runtime, err = runtime.New(runtime.Config{
		Observer: c.observed.watchRuntime(name, classes, others),
		Store:    i.store, Classes: classes, Others: others, OtherClasses: i.php.classes,
		Slots: c.Slots, Turns: turns, LeaseTime: c.Lease, IdlePoll: c.IdlePoll,
		DrainTimeout: c.DrainTimeout, MaxCrashes: c.MaxCrashes, Log: i.log,
	})
	if err != nil {
		return coded{err, exitUsage}
	}
	c.observed.watchInstance(name, i)
	i.watch = newWatch(a, i.log, i.store, i.host, i.php)
	return nil
}

// begin starts the runtime, and tells Phorge that its queue is drained.
func (i *instance) begin() (err error) {
	if err := i.runtime.Start(); err != nil {
		return err
	}
	if i.php.runs() { // or others drain what no plugin takes, and say so themselves
		i.silence, err = startHeartbeat(i.config, i.log)
	}
	return err
}

// work watches the runtime until the end of drain, and then lets it drain.
func (i *instance) work(drain, stop context.Context) error {
	i.watch.until(drain, i.runtime)
	i.watch.stopping.Store(true)
	err := i.runtime.Drain(stop)
	i.did = i.runtime.Stats()
	return err
}

func (i *instance) ready() error { return i.watch.ready(i.runtime) }

func (i *instance) status() statusReport[any] { return i.watch.status(i.runtime) }

// close ends what was started, but for a runtime that works.
func (i *instance) close() error {
	var problems []error
	if i.silence != nil {
		i.silence()
	}
	if i.php != nil {
		problems = append(problems, i.php.Close())
	}
	if i.host != nil {
		problems = append(problems, i.host.Close())
	}
	if i.store != nil {
		problems = append(problems, i.store.Close())
	}
	return errors.Join(problems...)
}
