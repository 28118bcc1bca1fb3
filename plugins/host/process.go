package host

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// goodService is how long a process must have lived for its death to be taken
// as the first.
const goodService = time.Minute

// process keeps one binary running: it starts it, and starts it again when it
// has died.
type process struct {
	plugin Plugin
	config Config
	log    zerolog.Logger

	settle sync.Once
	tried  chan struct{} // closed after the first start, whatever came of it

	mu      sync.Mutex
	state   State
	since   time.Time
	live    *link  // of the running process; nil when none runs
	problem string // of the last start or death
	starts  int
}

func newProcess(plugin Plugin, c Config) *process {
	return &process{
		plugin: plugin,
		config: c,
		log:    c.Log.With().Str("plugin", plugin.Name).Logger(),
		tried:  make(chan struct{}),
		state:  Stopped,
		since:  time.Now(),
	}
}

// supervise runs the binary until ctx ends, and leaves nothing of it.
func (p *process) supervise(ctx context.Context, s *spawn.Thread) {
	for failures := 0; ctx.Err() == nil; failures++ {
		p.enter(Starting, nil, nil)
		began := time.Now()
		err := p.run(ctx, s)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) >= goodService {
			failures = 0
		}
		wait := backoff(failures, p.config.MinBackoff, p.config.MaxBackoff, rand.Float64())
		p.log.Error().Err(err).Stringer("again_in", wait.Round(time.Millisecond)).Msg("handler binary does not run")
		p.enter(Backoff, nil, err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	p.enter(Stopped, nil, nil)
}

// run starts the binary and serves it until it is dead.
func (p *process) run(ctx context.Context, s *spawn.Thread) error {
	r, err := p.launch(ctx, s)
	if err != nil {
		return err
	}
	l := newLink(r, p.plugin, p.config.CancelGrace)
	p.log.Info().Int("pid", r.child.pid).Str("sdk", r.sdk).Msg("handler binary is ready")
	p.warnOfMissing(r)
	p.enter(Ready, l, nil)
	return l.serve(ctx, func() { p.enter(Draining, l, nil) })
}

// enter takes a step of the state machine.
func (p *process) enter(next State, live *link, problem error) {
	p.mu.Lock()
	p.state = p.state.must(next)
	p.since = time.Now()
	p.live = live
	if problem != nil {
		p.problem = problem.Error()
	}
	if next == Starting {
		p.starts++
	}
	p.mu.Unlock()
	if next != Starting {
		p.settle.Do(func() { close(p.tried) })
	}
}

// warnOfMissing logs classes that the manifest expects of the binary in vain.
func (p *process) warnOfMissing(r *peer) {
	for class := range p.plugin.Classes {
		if problem := r.lacks(class); problem != "" {
			p.log.Error().Str("taskClass", class).Msg(problem)
		}
	}
}

// link answers the connection on which a task of the class can run now, or
// nil.
func (p *process) link(class string) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != Ready || p.live.lacks(class) != "" {
		return nil
	}
	if end, _ := p.live.ending(); end != open {
		return nil
	}
	return p.live
}

// class answers the settings of one of its classes.
func (p *process) class(name string) Class {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := p.plugin.Classes[name]
	if class.Fallback == "" {
		class.Fallback = Hold
	}
	if p.live != nil {
		if limit := p.live.limits[name]; limit > 0 && (class.Slots == 0 || class.Slots > limit) {
			class.Slots = limit
		}
	}
	return class
}

func (p *process) status() Status {
	classes := slices.Sorted(maps.Keys(p.plugin.Classes))
	s := Status{Name: p.plugin.Name, Path: p.plugin.Path}
	for _, name := range classes {
		class := p.class(name)
		s.Classes = append(s.Classes, ClassStatus{Class: name, Slots: class.Slots, Fallback: class.Fallback, Ready: p.link(name) != nil})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.State, s.Since, s.Problem = p.state, p.since, p.problem
	s.Restarts = max(0, p.starts-1)
	if p.live != nil {
		s.PID, s.SDK, s.Running = p.live.child.pid, p.live.sdk, p.live.held()
		s.Databases, s.Options = p.live.databases, p.live.options
		for i, name := range classes {
			s.Classes[i].Problem = p.live.lacks(name)
		}
	}
	return s
}

// backoff answers how long to wait before start number failures+1: doubling,
// and somewhere in its upper half, so that the binaries of many hosts that
// died together do not come back together. random is in [0, 1).
func backoff(failures int, shortest, longest time.Duration, random float64) time.Duration {
	wait := longest
	if failures < 32 && shortest<<failures > 0 {
		wait = min(shortest<<failures, longest)
	}
	return wait/2 + time.Duration(random*float64(wait/2))
}
