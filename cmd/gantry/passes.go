package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
)

// passes runs the queue until a pass finds nothing due, even after the pickup
// delay, before which nobody knows how old a task is. No pass begins after the
// end of drain; the end of stop cuts one short, and so does the drain timeout.
func (i *instance) passes(drain, stop context.Context) (err error) {
	defer func() { err = errors.Join(err, i.runtime.Close()) }()
	w := i.watch
	worked, waited, ripe := w.php.ready(), false, false
	for {
		if err := drain.Err(); err != nil {
			return err
		}
		pass, err := i.runtime.RunOnce(stop)
		i.did = add(i.did, pass)
		w.look(drain, time.Now(), i.did)
		if err != nil {
			return err
		}
		switch {
		case pass.Leased > 0:
			waited, ripe = false, false
		case !ripe:
			ripe = pause(drain, i.config.longestPickupDelay())
		case !waited && (restarted(drain, w.host.List) || worked && w.php.restarted(drain)):
			waited, ripe = true, false
		default:
			return errors.Join(w.notReady(), w.givenBack(drain, i.did))
		}
	}
}

// pause waits, and reports true.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return true
}

// phpRestart is how long PHP that worked may take to work again.
const phpRestart = 30 * time.Second

// restarted waits for PHP that is down, and reports whether it runs again.
func (p *phpRoute) restarted(ctx context.Context) bool {
	if p.ready() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, phpRestart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !p.ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// notReady is an error when PHP is to run classes and does not.
func (p *phpRoute) notReady() error {
	if !p.runs() || p.ready() {
		return nil
	}
	return fmt.Errorf("PHP cannot run, so the tasks of its classes stay in the queue: %s", cmp.Or(p.state().problem, "it is not ready"))
}

// restarted waits for the next start of each handler process that is down, and
// reports whether one of them runs again: a queue is not empty while whoever
// takes its tasks is about to come back.
func restarted(ctx context.Context, list func() []host.Status) bool {
	down := map[string]int{} // restarts by the name of the process
	for p := range processes(list()) {
		if p.State == host.Starting || p.State == host.Draining || p.State == host.Backoff {
			down[p.Name] = p.Restarts
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(down) > 0 {
		for p := range processes(list()) {
			restarts, wasDown := down[p.Name]
			switch {
			case wasDown && p.State == host.Ready:
				return true
			case p.State == host.Stopped, p.State == host.Backoff && p.Restarts > restarts:
				delete(down, p.Name)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// processes goes through the processes of all binaries.
func processes(list []host.Status) func(yield func(host.Status) bool) {
	return func(yield func(host.Status) bool) {
		for _, binary := range list {
			if !yield(binary) || binary.Alone != nil && !yield(*binary.Alone) {
				return
			}
		}
	}
}

// notReady is an error that names the classes which cannot run, neither in their
// handlers nor in PHP. A queue is not empty because nobody could look after it.
func (w *watch) notReady() error {
	problems := []error{w.php.notReady()}
	for _, plugin := range w.host.List() {
		for _, class := range plugin.Classes {
			if !class.Ready && !(class.Fallback == host.PHP && w.php.ready()) {
				problems = append(problems, fmt.Errorf("class %s cannot run, so its tasks stay in the queue: %s",
					class.Class, cmp.Or(class.Problem, plugin.Problem, "its handler binary is not ready")))
			}
		}
	}
	return errors.Join(problems...)
}

// givenBack is an error when tasks that were due went back to the queue to wait:
// what ran them died or declined them.
func (w *watch) givenBack(ctx context.Context, sum runtime.Stats) error {
	if sum.Released == 0 {
		return nil
	}
	now, err := w.operator.Now(ctx)
	if err != nil {
		return err
	}
	count := 0
	var all selection
	_, err = all.each(ctx, w.operator, tasks.Active, func(page []tasks.Record) error {
		for _, r := range page {
			if word, _ := standing(r, now); word == "back" && *r.Expires >= now && w.takes(r.Class) {
				count++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s given back and must wait before being tried again, because a handler was down or declined: run again later, or see `gantry tasks list --active`",
		plural(count, "task was", "tasks were"))
}

func add(a, b runtime.Stats) runtime.Stats {
	return runtime.Stats{
		Leased: a.Leased + b.Leased, Started: a.Started + b.Started,
		Succeeded: a.Succeeded + b.Succeeded, Yielded: a.Yielded + b.Yielded,
		Retried: a.Retried + b.Retried, Failed: a.Failed + b.Failed,
		Crashed: a.Crashed + b.Crashed, Released: a.Released + b.Released,
		Lost: a.Lost + b.Lost, Revived: a.Revived + b.Revived,
	}
}

// counts is what a run did, as it is printed at its end.
type counts struct {
	Leased    int `json:"leased"`
	Succeeded int `json:"succeeded"`
	Yielded   int `json:"yielded"`
	Retried   int `json:"retried"`
	Failed    int `json:"failed"`
	Crashed   int `json:"crashed"`
	Released  int `json:"released"`
	Lost      int `json:"lost"`
}

func countsOf(s runtime.Stats) counts {
	return counts{s.Leased, s.Succeeded, s.Yielded, s.Retried, s.Failed, s.Crashed, s.Released, s.Lost}
}

// printCounts prints what each instance did, and its name where there are
// several.
func (a *app) printCounts(all instances) error {
	for _, i := range all {
		c := countsOf(i.did)
		var err error
		switch {
		case a.print.json && i.name != "":
			err = a.print.document(struct {
				Instance string `json:"instance"`
				counts
			}{i.name, c})
		case a.print.json:
			err = a.print.document(c)
		case i.name != "":
			a.print.linef("%s: %s", i.name, c)
		default:
			a.print.linef("%s", c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c counts) String() string {
	return fmt.Sprintf("%s leased: %d succeeded, %d yielded, %d to be tried again, %d failed, %d crashed, %d given back, %d lost",
		plural(c.Leased, "task", "tasks"), c.Succeeded, c.Yielded, c.Retried, c.Failed, c.Crashed, c.Released, c.Lost)
}
