package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

const (
	demoGoClass  = "DemoGoWorker"
	demoPHPClass = "DemoPHPWorker"

	// demoHandler is the name under which this program is a handler binary: that
	// of the demo, so that it needs no other.
	demoHandler = "handler-demo"

	// demoLease is short, so that nobody waits long for what a kill interrupted.
	demoLease = 5 * time.Second

	// demoCrashes is how often a demo may be killed with the same task.
	demoCrashes = 1000

	demoSlots     = 16
	demoProcesses = 2 // of PHP
)

//go:embed demo_host.php
var demoHost []byte

// demoWork is the data of a task of the demo.
type demoWork struct {
	Milliseconds int    `json:"milliseconds"`
	Fail         string `json:"fail,omitempty"` // "for good", or "for now"
}

// serveDemo makes of this process the handler binary of the demo in whose folder
// it lies.
func serveDemo(path string) {
	plugins.Serve(demoWorker(filepath.Join(filepath.Dir(path), "ledger")))
}

func demoWorker(ledger string) plugins.Handler {
	return plugins.Handler{
		Class: demoGoClass,
		Handle: func(ctx context.Context, task *plugins.Task) error {
			var work demoWork
			if err := task.Decode(&work); err != nil {
				return err
			}
			select {
			case <-time.After(time.Duration(work.Milliseconds) * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := noteIn(ledger, "ran %d go %d %d", task.ID, os.Getpid(), os.Getppid()); err != nil {
				return err
			}
			switch work.Fail {
			case "for good":
				return plugins.Fail(errors.New("it was told to fail for good"))
			case "for now":
				return errors.New("it was told to fail, and to be tried again")
			}
			return nil
		},
		WaitBeforeRetry: func(*plugins.Task, error) time.Duration { return 10 * time.Minute },
	}
}

// demoRun is what works in a demo: a runtime, the handler binary and, if there
// is one that works, PHP.
type demoRun struct {
	host    *host.Host
	pool    *pool.Pool // nil without PHP
	why     string     // there is none
	runtime *runtime.Runtime
}

// startDemoRun starts it in a folder.
func startDemoRun(ctx context.Context, dir string, store tasks.Store, log zerolog.Logger) (r *demoRun, err error) {
	r = &demoRun{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.startHandler(ctx, dir, log); err != nil {
		return nil, err
	}
	if err := r.startPHP(ctx, dir, log); err != nil {
		return nil, err
	}
	classes := map[string]runtime.Class{demoGoClass: {Executor: r.host, Route: "plugin"}}
	if r.pool != nil {
		classes[demoPHPClass] = runtime.Class{Executor: r.pool, Route: "pool", Limit: &runtime.Limit{Slots: r.pool.Slots}}
	}
	r.runtime, err = runtime.New(runtime.Config{Store: store, Classes: classes, Slots: demoSlots, LeaseTime: demoLease, MaxCrashes: demoCrashes, Log: log})
	if err != nil {
		return nil, err
	}
	return r, r.runtime.Start()
}

// startHandler starts this program as the handler binary.
func (r *demoRun) startHandler(ctx context.Context, dir string, log zerolog.Logger) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	handler := filepath.Join(dir, demoHandler)
	if err := os.Remove(handler); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(self, handler); err != nil {
		return err
	}
	file := filepath.Join(dir, "plugins.yaml")
	text := fmt.Sprintf("plugins:\n  - path: %s\n    classes:\n      %s: {}\n", demoHandler, demoGoClass)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if _, err := host.Pin(file); err != nil {
		return err
	}
	manifest, err := host.LoadManifest(file)
	if err != nil {
		return err
	}
	if r.host, err = host.New(host.Config{Manifest: manifest, Log: log}); err != nil {
		return err
	}
	if err := r.host.Start(ctx); err != nil {
		return err
	}
	if !r.host.Ready(demoGoClass) {
		return fmt.Errorf("the handler binary does not start: %s", r.host.List()[0].Problem)
	}
	return nil
}

// startPHP starts the pool. That it does not work is no error.
func (r *demoRun) startPHP(ctx context.Context, dir string, log zerolog.Logger) error {
	php, err := exec.LookPath("php")
	if err != nil {
		r.why = "there is no program php here"
		return nil
	}
	script := filepath.Join(dir, "demo_host.php")
	if err := os.WriteFile(script, demoHost, 0o600); err != nil {
		return err
	}
	p, err := pool.New(pool.Config{
		Command: []string{php, script, filepath.Join(dir, "ledger"), strconv.Itoa(os.Getpid())},
		Min:     demoProcesses, Namespace: "demo", Log: log,
	})
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return errors.Join(err, p.Close())
	}
	if !p.Ready(demoPHPClass) {
		r.why = "PHP does not start: " + p.State().Problem
		return p.Close()
	}
	r.pool = p
	return nil
}

// stop ends it as a signal ends `gantry run`: what runs may end, the rest goes
// back.
func (r *demoRun) stop() error {
	return errors.Join(r.runtime.Drain(context.Background()), r.close())
}

func (r *demoRun) close() (err error) {
	if r.runtime != nil {
		err = r.runtime.Close()
	}
	if r.pool != nil {
		err = errors.Join(err, r.pool.Close())
	}
	if r.host != nil {
		err = errors.Join(err, r.host.Close())
	}
	return err
}
