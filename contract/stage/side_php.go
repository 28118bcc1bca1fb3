package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks"
)

// NewPHP answers the side of PHP: one resident process of a scratch Phorge, run
// as Gantry runs it. It is started when options are configured, and again when
// they are others, because PHP reads its configuration once.
func NewPHP(p *scratch.Phorge, log zerolog.Logger) Side { return &php{phorge: p, log: log} }

type php struct {
	phorge  *scratch.Phorge
	log     zerolog.Logger
	options options
	pool    *pool.Pool
	reset   func() error
}

// young is an age that no process reaches: a task that throws is no reason to
// replace the process in the middle of thousands of cases that throw. What one
// task leaves in the process the pool host clears before the next.
const young = 24 * time.Hour

// Configure implements Side.
func (p *php) Configure(ctx context.Context, options map[string]any) error {
	encoded, changed, err := p.options.change(options)
	if err != nil || !changed && p.pool != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	if p.reset, err = p.phorge.Override(options); err != nil {
		return fmt.Errorf("configure the scratch Phorge: %w", err)
	}
	p.pool, err = pool.New(pool.Config{
		Command: p.phorge.PoolCommand(), Namespace: p.phorge.Namespace(), Log: p.log, MinService: young,
	})
	if err != nil {
		return err
	}
	if err := p.pool.Start(ctx); err != nil {
		return err
	}
	if !p.pool.Ready("") {
		return fmt.Errorf("PHP does not run: %s", cmp.Or(p.pool.State().Problem, "it is not ready"))
	}
	return p.options.keep(encoded)
}

// Ready implements tasks.Executor.
func (p *php) Ready(class string) bool { return p.pool != nil && p.pool.Ready(class) }

// Execute implements tasks.Executor.
func (p *php) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	if p.pool == nil {
		return tasks.Outcome{Kind: tasks.Released, Reason: errNotConfigured.Error()}
	}
	err := awaitReady(ctx, func() bool { return p.pool.Ready(task.Class) }, func() string {
		return "PHP does not run: " + p.pool.State().Problem
	})
	if err != nil {
		return tasks.Outcome{Kind: tasks.Released, Reason: err.Error()}
	}
	return p.pool.Execute(ctx, task, require)
}

func (p *php) stop() error {
	var err error
	if p.pool != nil {
		err = p.pool.Close()
		p.pool = nil
	}
	if p.reset != nil {
		err = errors.Join(err, p.reset())
		p.reset = nil
	}
	return err
}

// Close ends PHP and puts the configuration back.
func (p *php) Close() error { return p.stop() }
