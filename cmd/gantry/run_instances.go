package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

// instances are all the queues that one process works on. What they share is the
// number of tasks that run; what one of them waits for, no other waits for.
type instances []*instance

// startInstances starts the instances of a configuration side by side. One that
// does not start is an error that names it, and ends the others.
func (a *app) startInstances(ctx, stop context.Context, c *config, log zerolog.Logger) (instances, error) {
	var all instances
	var turns *runtime.Turns
	if len(c.instances) > 0 {
		if err := c.checkTurns(); err != nil {
			return nil, err
		}
		turns = &runtime.Turns{Total: c.Slots}
	}
	for _, one := range c.queues() {
		i := &instance{config: one, log: log}
		if turns != nil {
			i.name = one.Instance
			i.log = log.With().Str("instance", i.name).Logger()
		}
		all = append(all, i)
	}
	err := all.each(func(i *instance) error { return i.start(ctx, stop, a, turns) })
	if err == nil && turns != nil {
		err = all.apart(ctx)
	}
	if err == nil && len(all.working()) == 0 {
		err = usagef("none of the instances has anything to run, in handler binaries (plugins) or in PHP; `gantry serve` serves queues whose tasks other programs run")
	}
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	return all, nil
}

// working answers the instances whose tasks are run here.
func (all instances) working() instances {
	return slices.DeleteFunc(slices.Clone(all), func(i *instance) bool { return i.runtime == nil })
}

// checkTurns answers what is wrong with the slots that instances share.
func (c *config) checkTurns() error {
	if n := len(c.instances); n > c.Slots {
		return usagef("slots is %d, and %d instances share them: each needs one, so raise it", c.Slots, n)
	}
	return nil
}

// queues answers the queues of the instances, in their order.
func (all instances) queues() (queues []queue, err error) {
	for _, i := range all {
		name, err := i.config.instanceName()
		if err != nil {
			return nil, err
		}
		queues = append(queues, queue{name, i.config, i.store})
	}
	return queues, nil
}

// apart refuses instances that have one and the same queue.
func (all instances) apart(ctx context.Context) error {
	queues, err := all.queues()
	if err != nil {
		return err
	}
	return apart(ctx, queues)
}

// each does something with each instance, side by side, and answers what went
// wrong with the names of the instances.
func (all instances) each(do func(*instance) error) error {
	problems := make([]error, len(all))
	var doing sync.WaitGroup
	for n, i := range all {
		doing.Go(func() {
			if problems[n] = do(i); problems[n] != nil && i.name != "" {
				problems[n] = ofInstance(i.name, problems[n])
			}
		})
	}
	doing.Wait()
	return errors.Join(problems...)
}

func (all instances) close() error { return all.each((*instance).close) }

// ready answers nil, or what of that which is to run here does not, and where.
func (all instances) ready() error { return all.each((*instance).ready) }

func (all instances) status() any {
	if len(all) == 1 && all[0].name == "" {
		return all[0].status()
	}
	sum := statusReport[any]{
		Version: readVersion().Version, PID: os.Getpid(), Since: all[0].watch.began, Ready: true,
		Plugins: []host.Status{}, PHP: phpStatus[any]{Why: "each instance has its own"},
		Instances: map[string]statusReport[any]{},
	}
	if err := all.ready(); err != nil {
		sum.Ready, sum.Problem = false, err.Error()
	}
	var did runtime.Stats
	for _, i := range all {
		sum.Instances[i.name] = i.status()
		stats := i.runtime.Stats()
		did = add(did, stats)
		sum.Held, sum.Running = sum.Held+stats.Held, sum.Running+stats.Running
	}
	sum.Counts = countsOf(did)
	return sum
}
