package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/spf13/cobra"
)

func (a *app) poolCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "pool",
		Short:   "Look at what runs PHP in a running Gantry",
		Long:    "Look at what runs PHP in a running Gantry.",
		Example: "  gantry pool status --socket /run/gantry/gantry.sock",
	}, a.poolStatusCommand())
}

func (a *app) poolStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the PHP processes of a running Gantry",
		Long: `Ask the Gantry that listens on the socket how its PHP is: the processes of the
pool, what each of them does and what it has done, or how worker.execute answers.
The exit code is 1 when nothing listens, or when something that is to run there
does not.

JSON is the whole status of that Gantry, its plugins and counts among it. The
socket speaks HTTP, so that others can ask too: /readyz is 200 or 503, /status is
this document.`,
		Example: `  gantry pool status --socket /run/gantry/gantry.sock
  curl --unix-socket /run/gantry/gantry.sock http://gantry/readyz`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), "socket")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		if c.Socket == "" {
			return usagef("name the socket of the running Gantry with --socket, GANTRY_SOCKET or socket in the configuration file")
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return a.poolStatus(ctx, c.Socket)
	}
	return cmd
}

func (a *app) poolStatus(ctx context.Context, socket string) error {
	var report statusReport[json.RawMessage]
	if err := askStatus(ctx, socket, &report); err != nil {
		return err
	}
	if a.print.json {
		if err := a.print.document(report); err != nil {
			return err
		}
	} else if err := a.printEachPHP(report, time.Now()); err != nil {
		return err
	}
	if !report.Ready {
		return errors.New(report.Problem)
	}
	return nil
}

// printEachPHP prints the PHP of a Gantry, or of each of its instances.
func (a *app) printEachPHP(report statusReport[json.RawMessage], now time.Time) error {
	if len(report.Instances) == 0 {
		return a.printPHP(report.PHP, now)
	}
	for n, name := range slices.Sorted(maps.Keys(report.Instances)) {
		if n > 0 {
			a.print.linef("")
		}
		a.print.linef("Instance %s:", plain(name))
		if err := a.printPHP(report.Instances[name].PHP, now); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printPHP(php phpStatus[json.RawMessage], now time.Time) error {
	switch php.Route {
	case "pool":
		var s pool.State
		if err := json.Unmarshal(*php.State, &s); err != nil {
			return fmt.Errorf("read the state of the pool: %w", err)
		}
		a.printPool(s, now)
	case "conduit":
		var s conduit.State
		if err := json.Unmarshal(*php.State, &s); err != nil {
			return fmt.Errorf("read the state of Conduit: %w", err)
		}
		a.printConduit(s, now)
	default:
		a.print.linef("Nothing runs PHP here: %s.", plain(php.Why))
	}
	return nil
}

func (a *app) printPool(s pool.State, now time.Time) {
	ready := "ready"
	if !s.Ready {
		ready = "not ready"
	}
	a.print.linef("The pool is %s: %d to %d processes, %s for one. Phorge %s, PHP %s, namespace %s.",
		ready, s.Min, s.Max, plural(s.Waiting, "task waits", "tasks wait"), plain(orDash(s.Phorge)), plain(orDash(s.PHP)), plain(orDash(s.Namespace)))
	if s.Problem != "" {
		a.print.linef("The last that failed: %s", plain(s.Problem))
	}
	var rows [][]string
	for _, p := range s.Processes {
		task, memory := "-", "-" // which is told after a task
		if p.Task != 0 {
			task = strconv.FormatInt(p.Task, 10)
		}
		if p.Memory != 0 {
			memory = fmt.Sprintf("%d MiB", p.Memory>>20)
		}
		rows = append(rows, []string{strconv.Itoa(p.PID), string(p.Phase), age(p.Since, now), task,
			strconv.Itoa(p.Tasks), memory, age(p.Began, now), plain(orDash(p.Leaving))})
	}
	a.print.table([]string{"PID", "STATE", "FOR", "TASK", "TASKS DONE", "MEMORY", "AGE", "LEAVING BECAUSE"}, rows)
}

func (a *app) printConduit(s conduit.State, now time.Time) {
	if s.Ready {
		a.print.linef("%s is ready for %s: %s, %s for one.", plain(s.URL), age(s.Since, now),
			plural(s.Calls, "call is under way", "calls are under way"), plural(s.Waiting, "task waits", "tasks wait"))
	} else {
		a.print.linef("%s is not ready for %s: %s", plain(s.URL), age(s.Since, now), plain(s.Problem))
	}
	a.print.linef("It runs %s: %s", plural(len(s.TaskClasses), "class", "classes"), plain(fmt.Sprint(s.TaskClasses)))
}

func age(since, now time.Time) string {
	return span(int64(now.Sub(since) / time.Second))
}
