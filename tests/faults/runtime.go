package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// What the driver tells a runtime.
const (
	dsnVariable      = "GANTRY_FAULTS_DSN"
	historyVariable  = "GANTRY_FAULTS_HISTORY"
	manifestVariable = "GANTRY_FAULTS_MANIFEST"
)

// exitUnavailable says that the database was down when the runtime started.
const exitUnavailable = 3

// leaseTime is short, so that what a killed runtime held resumes soon.
const leaseTime = 3 * time.Second

// playRole plays the role of a handler, a worker or a runtime, when this process
// was started as one.
func playRole() bool {
	switch {
	case os.Getenv(pluginpb.Handshake().MagicCookieKey) != "":
		serveHandler()
	case os.Getenv(workerVariable) != "":
		if err := serveWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(dsnVariable) != "":
		err := serveRuntime()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if errors.Is(err, tasks.ErrUnavailable) {
			os.Exit(exitUnavailable)
		}
		if err != nil {
			os.Exit(1)
		}
	default:
		return false
	}
	return true
}

// serveRuntime wires what `gantry run` wires, with a recorder around the store
// and around the handlers, until SIGTERM.
func serveRuntime() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go dieWithDriver()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	store, err := phorge.Open(ctx, phorge.Config{DSN: os.Getenv(dsnVariable)})
	if err != nil {
		return err
	}
	defer store.Close()
	history, err := storetest.OpenHistory(os.Getenv(historyVariable))
	if err != nil {
		return err
	}
	recorder := storetest.NewRecorder(store, history)
	manifest, err := host.LoadManifest(os.Getenv(manifestVariable))
	if err != nil {
		return err
	}
	handlers, err := host.New(host.Config{Manifest: manifest, Log: log, MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second})
	if err != nil {
		return err
	}
	defer handlers.Close()
	if err := handlers.Start(ctx); err != nil {
		return err
	}
	classes, stopRoutes, err := startRoutes(ctx, recorder, log)
	if err != nil {
		return err
	}
	defer stopRoutes()
	if classes == nil {
		classes = map[string]runtime.Class{}
	}
	classes[class] = runtime.Class{Executor: recorder.Executor(handlers)}
	rt, err := runtime.New(runtime.Config{
		Store: recorder, LeaseTime: leaseTime, Log: log,
		// No task kills its handler here: the driver does, and often.
		MaxCrashes: 1 << 20,
		Classes:    classes,
	})
	if err != nil {
		return err
	}
	if err := rt.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return rt.Drain(context.Background())
}

// dieWithDriver ends this process when the driver is gone: it holds the other
// end of standard input.
func dieWithDriver() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
