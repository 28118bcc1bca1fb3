package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
)

// Go answers the side of the handlers of a manifest, each in its process, as
// Gantry runs them. The processes are started when options are configured, and
// again when they are others.
func (s *Stage) Go(manifest *host.Manifest, log zerolog.Logger) Shadower {
	return &binaries{stage: s, manifest: manifest, log: log}
}

// cancelGrace is how long a handler may go on after the end of its time. Nothing
// is lost with the process.
const cancelGrace = time.Second

type binaries struct {
	stage    *Stage
	manifest *host.Manifest
	log      zerolog.Logger
	options  options
	host     *host.Host
	never    map[string]string // classes that did not become ready, and why
	printed  printed
}

// Configure implements Side.
func (b *binaries) Configure(ctx context.Context, options map[string]any) error {
	encoded, changed, err := b.options.change(options)
	if err != nil || !changed && b.host != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return err
	}
	b.host, err = host.New(host.Config{
		Manifest: b.manifest, Log: b.log, Printed: b.printed.line, CancelGrace: cancelGrace,
		Site: func(applications, wanted []string) (*plugins.Site, error) {
			return b.stage.site(applications, wanted, encoded)
		},
	})
	if err != nil {
		return err
	}
	if err := b.host.Start(ctx); err != nil {
		return err
	}
	b.never = map[string]string{}
	for class := range b.host.Classes() {
		if !b.host.Ready(class) {
			b.never[class] = b.problem(class)
		}
	}
	return b.options.keep(encoded)
}

// Try starts the binaries of a manifest once, ends them, and answers why one of the
// classes cannot run: what is wrong with a manifest is wrong in every case.
func (s *Stage) Try(ctx context.Context, manifest *host.Manifest, classes []string) (err error) {
	b := &binaries{stage: s, manifest: manifest, log: zerolog.Nop()}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Configure(ctx, nil); err != nil {
		return err
	}
	for _, class := range classes {
		if problem, never := b.never[class]; never {
			return errors.New(problem)
		}
	}
	return nil
}

// Ready implements tasks.Executor.
func (b *binaries) Ready(class string) bool { return b.host != nil && b.host.Ready(class) }

// Execute implements tasks.Executor.
func (b *binaries) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	if err := b.await(ctx, task.Class); err != nil {
		return tasks.Outcome{Kind: tasks.Released, Reason: err.Error()}
	}
	return b.host.Execute(ctx, task, require)
}

// Shadow implements Shadower.
func (b *binaries) Shadow(ctx context.Context, task tasks.Task) (tasks.Outcome, plugins.Effects, error) {
	if err := b.await(ctx, task.Class); err != nil {
		return tasks.Outcome{}, plugins.Effects{}, err
	}
	return b.host.Shadow(ctx, task)
}

// await waits until the process that takes a class runs again. One that never
// did will not.
func (b *binaries) await(ctx context.Context, class string) error {
	if b.host == nil {
		return errNotConfigured
	}
	if _, taken := b.host.Classes()[class]; !taken {
		return fmt.Errorf("no handler binary of the manifest takes class %s", class)
	}
	if problem, never := b.never[class]; never {
		return errors.New(problem)
	}
	return awaitReady(ctx, func() bool { return b.host.Ready(class) }, func() string { return b.problem(class) })
}

func (b *binaries) problem(class string) string {
	for _, status := range b.host.List() {
		for _, c := range status.Classes {
			if c.Class == class {
				return fmt.Sprintf("handler binary %s does not take class %s: %s", status.Name, class, cmp.Or(c.Problem, status.Problem))
			}
		}
	}
	return fmt.Sprintf("class %s is not ready", class)
}

// Close ends the processes.
func (b *binaries) Close() error {
	if b.host == nil {
		return nil
	}
	err := b.host.Close()
	b.host = nil
	return err
}

// Handlers answers the side of handlers in this process, which share what they
// reach of the Phorge, as those of one binary do.
func (s *Stage) Handlers(of ...plugins.Handler) Shadower {
	side := &handlers{stage: s, of: map[string]plugins.Handler{}}
	for _, h := range of {
		side.of[h.Class] = h
	}
	return side
}

type handlers struct {
	stage   *Stage
	of      map[string]plugins.Handler // by class
	options options
	site    *plugins.Site
}

// Configure implements Side.
func (h *handlers) Configure(_ context.Context, options map[string]any) error {
	encoded, changed, err := h.options.change(options)
	if err != nil || !changed && h.site != nil {
		return err
	}
	if err := h.Close(); err != nil {
		return err
	}
	var applications, wanted []string
	for _, handler := range h.of {
		databases, options := handler.Needs()
		applications, wanted = append(applications, databases...), append(wanted, options...)
	}
	if h.site, err = h.stage.site(applications, wanted, encoded); err != nil {
		return err
	}
	return h.options.keep(encoded)
}

// Ready implements tasks.Executor.
func (h *handlers) Ready(class string) bool { return h.of[class].Handle != nil }

// Execute implements tasks.Executor.
func (h *handlers) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	if !h.Ready(task.Class) {
		return tasks.Outcome{Kind: tasks.Released, Reason: noHandler(task.Class).Error()}
	}
	return h.of[task.Class].ExecuteAt(ctx, h.site, task, require)
}

// Shadow implements Shadower.
func (h *handlers) Shadow(ctx context.Context, task tasks.Task) (tasks.Outcome, plugins.Effects, error) {
	if !h.Ready(task.Class) {
		return tasks.Outcome{}, plugins.Effects{}, noHandler(task.Class)
	}
	outcome, effects := h.of[task.Class].Shadow(ctx, h.site, task)
	return outcome, effects, nil
}

func noHandler(class string) error {
	return fmt.Errorf("no handler of this process takes class %s", class)
}

// Close ends the connections of the handler.
func (h *handlers) Close() error {
	if h.site == nil {
		return nil
	}
	err := h.site.Close()
	h.site = nil
	return err
}

// site answers the Phorge that handlers find: the databases of the namespace,
// and the options of the case as if conf/local/local.json said them. Of what
// was recorded there may be no table in a database: locks are in one that many
// handlers want nothing else of.
func (s *Stage) site(applications, wanted []string, encoded map[string]json.RawMessage) (*plugins.Site, error) {
	site := &plugins.Site{Namespace: s.config.Namespace, DSNs: map[string]string{}, Options: map[string]json.RawMessage{}}
	for _, application := range applications {
		if s.made.any() {
			if err := s.made.create(context.Background(), s.db, s.names.Database(application)); err != nil {
				return nil, fmt.Errorf("make the database of %s: %w", application, err)
			}
		}
		site.DSNs[application] = s.DSN(application)
	}
	for _, key := range wanted {
		if value, set := encoded[key]; set {
			site.Options[key] = value
		}
	}
	return site, nil
}
