package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// Config is what a Host needs.
type Config struct {
	// Manifest names the binaries. Required.
	Manifest *Manifest

	// Log receives what happens to the processes and, line by line, what they
	// print.
	Log zerolog.Logger

	// Printed is called with each line that a process prints, beside the log, from
	// several goroutines. It must not block. May be nil.
	Printed func(line string)

	// Site answers what the handlers of a binary reach of a Phorge, by what
	// plugins.Handler.Needs answers of them. It is asked at every start of a
	// process of a binary that the manifest allows a Phorge. Nil: there is
	// none.
	Site func(applications, options []string) (*plugins.Site, error)

	// CancelGrace is how long a handler may go on after its context has been
	// cancelled before its process is killed. 5 s when 0.
	CancelGrace time.Duration

	// StartTimeout is how long a process may take until it is ready. 10 s
	// when 0.
	StartTimeout time.Duration

	// MinBackoff and MaxBackoff bound the wait before a dead process is
	// started again; it doubles each time and is reset by a minute of good
	// service. 500 ms and 1 min when 0.
	MinBackoff, MaxBackoff time.Duration
}

func (c *Config) defaults() {
	for _, d := range []struct {
		value *time.Duration
		is    time.Duration
	}{
		{&c.CancelGrace, 5 * time.Second},
		{&c.StartTimeout, 10 * time.Second},
		{&c.MinBackoff, 500 * time.Millisecond},
		{&c.MaxBackoff, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.is
		}
	}
}

// Host runs the binaries of a manifest. It is a tasks.Executor for their
// classes.
type Host struct {
	config    Config
	processes []*process
	byClass   map[string]*process
	alone     map[*process]*solitary

	mu      sync.Mutex
	started bool
	closed  bool
	life    context.Context // of every process
	stop    context.CancelFunc
	spawner *spawn.Thread
	running sync.WaitGroup
}

// New answers a host that has started nothing yet.
func New(c Config) (*Host, error) {
	if c.Manifest == nil {
		return nil, errors.New("plugin host: Config.Manifest is missing")
	}
	c.defaults()
	h := &Host{config: c, byClass: map[string]*process{}, alone: map[*process]*solitary{}}
	for _, plugin := range c.Manifest.Plugins {
		p := newProcess(plugin, c)
		h.processes = append(h.processes, p)
		h.alone[p] = newSolitary(plugin, c)
		for class := range plugin.Classes {
			h.byClass[class] = p
		}
	}
	return h, nil
}

// Start starts every binary and returns when each is ready or has failed to
// start once, or when ctx ends. A binary that cannot be started is no error
// here: it is logged, shows in List, is tried again later, and its classes are
// not Ready meanwhile. Start can be called once.
func (h *Host) Start(ctx context.Context) error {
	if err := h.launchAll(); err != nil {
		return err
	}
	for _, p := range h.processes {
		select {
		case <-p.tried:
		case <-ctx.Done():
			return fmt.Errorf("waiting for handler binary %s to start: %w", p.plugin.Name, ctx.Err())
		}
	}
	return nil
}

func (h *Host) launchAll() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.closed {
		return errors.New("plugin host: started or closed already")
	}
	h.started = true
	h.spawner = spawn.NewThread()
	h.life, h.stop = context.WithCancel(context.Background())
	for _, p := range h.processes {
		h.running.Go(func() { p.supervise(h.life, h.spawner) })
	}
	return nil
}

// Close stops every process and returns when none is left. Tasks that still
// run are cut short and answered as released. It can be called any number of
// times.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.started {
		h.stop()
		h.running.Wait()
		h.spawner.Close()
	}
	return nil
}

// Classes answers the classes of the manifest with their settings. Slots is
// lowered to the concurrency that the handler allows, once it is known.
func (h *Host) Classes() map[string]Class {
	classes := map[string]Class{}
	for name, p := range h.byClass {
		classes[name] = p.class(name)
	}
	return classes
}

// List answers the state of every binary's process, in the order of the
// manifest.
func (h *Host) List() []Status {
	list := make([]Status, len(h.processes))
	for i, p := range h.processes {
		list[i] = p.status()
		if alone := h.alone[p].status(); alone.State != Stopped {
			list[i].Alone = &alone
		}
	}
	return list
}

// Ready reports whether the process that takes the class runs.
func (h *Host) Ready(class string) bool {
	p := h.byClass[class]
	return p != nil && p.link(class) != nil
}

// Execute runs a task in the process that takes its class. See
// tasks.Executor; a handler that does not return within Config.CancelGrace
// after ctx has ended is killed with its whole process.
func (h *Host) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	p := h.byClass[task.Class]
	if p == nil {
		return released("no handler binary takes class %s", task.Class)
	}
	if suspect(task) {
		return h.executeAlone(ctx, h.alone[p], task, require)
	}
	link := p.link(task.Class)
	if link == nil {
		return released("handler binary %s is not ready", p.plugin.Name)
	}
	return link.execute(ctx, task, require)
}

// Shadow has the handler of a task run in shadow: see plugins.Handler.Shadow.
// The error says that it did not run, or not to its end. The task need not be
// leased, and nothing that comes of the run may be settled. It shares the
// process, and so the handler's Concurrency, with what Execute runs.
func (h *Host) Shadow(ctx context.Context, task tasks.Task) (tasks.Outcome, plugins.Effects, error) {
	p := h.byClass[task.Class]
	if p == nil {
		return tasks.Outcome{}, plugins.Effects{}, fmt.Errorf("no handler binary takes class %s", task.Class)
	}
	link := p.link(task.Class)
	if link == nil {
		return tasks.Outcome{}, plugins.Effects{}, fmt.Errorf("handler binary %s is not ready", p.plugin.Name)
	}
	done := link.run(ctx, task, true, nil)
	if done.Kind == tasks.Released || done.Kind == tasks.Crashed {
		return tasks.Outcome{}, plugins.Effects{}, fmt.Errorf("shadow run of task %d: %s", task.ID, done.Reason)
	}
	return done.Outcome, effectsOf(done.effects), nil
}

// released answers the outcome of a task that never ran, or whose run was cut
// short by no fault of its own.
func released(format string, args ...any) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Released, Reason: fmt.Sprintf(format, args...)}
}
