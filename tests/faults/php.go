package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

const (
	// phpVariable tells a runtime how it reaches PHP, as JSON.
	phpVariable = "GANTRY_FAULTS_PHP"

	// mixedEvery is how many rounds have one among them whose tasks run by every
	// route.
	mixedEvery = 3

	// phpSlots is how many resident processes a runtime has, and how many
	// children php-fpm.
	phpSlots = 4

	// poolShare and conduitShare of the tasks that a round has for plugins run
	// in PHP as well.
	poolShare    = 5
	conduitShare = 10
)

// php is where tasks run in PHP: a Phorge for all rounds, and the web server
// before it.
type php struct {
	phorge *harness.Phorge
	web    *harness.Web
	reach  reach
}

// reach is how a runtime reaches PHP.
type reach struct {
	Command   []string
	URL       string
	Namespace string
	Key       harness.Key
}

// startPHP answers an error that wraps harness.ErrNoPhorge where none is
// installed.
func startPHP(server *scratch.MariaDB) (*php, error) {
	phorge, err := harness.InstallPhorge(server, "faultsphp")
	if err != nil {
		return nil, err
	}
	keys, err := phorge.LetExecute(conduitClass)
	if err != nil {
		return nil, errors.Join(err, phorge.Remove())
	}
	web, err := phorge.StartWeb(phpSlots)
	if err != nil {
		return nil, errors.Join(err, phorge.Remove())
	}
	return &php{phorge, web, reach{phorge.PoolCommand(), web.URL(), phorge.Namespace(), keys[0]}}, nil
}

func (p *php) stop() error { return errors.Join(p.web.Stop(), p.phorge.Remove()) }

// records is the file that GantryFaultsWorker writes.
func (p *php) records() string { return filepath.Join(p.phorge.Root(), "faults") }

// addPHP makes a round one whose tasks run by every route.
func (r *round) addPHP(p *php, o options) error {
	if err := p.phorge.Reset(); err != nil {
		return err
	}
	if err := os.Remove(p.records()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.php, r.dsn = p, p.phorge.DSN()
	r.work = append(r.work, makeWork(r.rng, poolClass, phpSlots, o.tasks/poolShare, len(r.work), r.began, o.drain)...)
	r.work = append(r.work, makeWork(r.rng, conduitClass, phpSlots, o.tasks/conduitShare, len(r.work), r.began, o.drain)...)
	r.rng.Shuffle(len(r.work), func(i, j int) { r.work[i], r.work[j] = r.work[j], r.work[i] })
	return nil
}

// startRoutes starts the routes to PHP that the driver tells of and answers their
// classes.
func startRoutes(ctx context.Context, recorder *storetest.Recorder, log zerolog.Logger) (classes map[string]runtime.Class, stop func() error, err error) {
	text := os.Getenv(phpVariable)
	if text == "" {
		return nil, func() error { return nil }, nil
	}
	var to reach
	if err := json.Unmarshal([]byte(text), &to); err != nil {
		return nil, nil, err
	}
	processes, err := pool.New(pool.Config{Command: to.Command, Namespace: to.Namespace, Min: phpSlots, Log: log})
	if err != nil {
		return nil, nil, err
	}
	calls, err := conduit.New(conduit.Config{
		URL: to.URL, Namespace: to.Namespace, KeyID: to.Key.ID, Key: conduit.Secret(to.Key.Secret), Connections: phpSlots, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	classes = map[string]runtime.Class{
		poolClass:    {Executor: recorder.Executor(processes), Limit: &runtime.Limit{Slots: processes.Slots}},
		conduitClass: {Executor: recorder.Executor(calls), Limit: &runtime.Limit{Slots: calls.Slots}},
	}
	stop = func() error { return errors.Join(processes.Close(), calls.Close()) }
	return classes, stop, errors.Join(processes.Start(ctx), calls.Start(ctx))
}

// strikePHP makes one fault around PHP.
func (r *round) strikePHP(ctx context.Context, kind string, s *seat) error {
	web := r.php.web
	switch kind {
	case "pool":
		return await(ctx, "a PHP process to kill", func() bool { return s.killChild(r.rng, isPool) })
	case "fpm-child":
		return await(ctx, "a child of php-fpm to kill", func() bool {
			children := web.Children()
			return len(children) > 0 && syscall.Kill(children[r.rng.IntN(len(children))], syscall.SIGKILL) == nil
		})
	case "nginx":
		return errors.Join(web.KillNginx(), pause(ctx, r.shortly()), web.StartNginx())
	}
	// Whoever starts it again ends first what the killed one has left.
	err := errors.Join(web.KillFPM(), pause(ctx, r.shortly()))
	for _, child := range web.Children() {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	return errors.Join(err, web.StartFPM())
}

// isPool tells a resident process from a handler.
func isPool(pid int) bool {
	title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(string(title), "pool-host.php")
}
