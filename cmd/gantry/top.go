package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
)

func (a *app) topCommand() *cobra.Command {
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the queue live",
		Long: `Show how many tasks are queued, leased, waiting and failing, in all and by class,
the age of the one that was queued first, and how fast the queue grows. Counting
stops at a bound, shown as 10000+. With the socket of a ` + "`gantry run`" + `, show its
processes too, how many tasks it archives a second (OUT/S), and from that how many
are queued (IN/S, too low while others work on the queue as well).

On a terminal the picture is drawn anew until q is typed, and s sorts it another
way. Elsewhere, with --once and in JSON, there is one picture, without rates.`,
		Example: `  gantry top
  gantry top --interval 5s --socket /run/gantry/gantry.sock
  gantry top --output json`,
		Args: noArgs,
	}
	addFlags(cmd.Flags(), "socket")
	cmd.Flags().DurationVar(&every, "interval", time.Second, "how often the picture is drawn; "+durationHelp)
	cmd.Flags().BoolVar(&once, "once", false, "draw one picture and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 100*time.Millisecond {
			return usagef("--interval %v must be at least 100ms", every)
		}
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		w := &topWatch{app: a, queues: c.queues(), socket: c.Socket, stores: make([]store, len(c.queues()))}
		defer w.close()
		if err := w.open(ctx); err != nil {
			return err
		}
		in, isFile := a.in.(*os.File)
		if once || a.print.json || !isFile || !terminal(in) || !terminal(a.out) {
			return a.topOnce(w.look(ctx))
		}
		return topLive(ctx, in, a.out.(*os.File), every, colours(a.out, a.environ), w.look)
	}
	return cmd
}

// topOnce prints one picture.
func (a *app) topOnce(v topView) error {
	if a.print.json {
		return a.print.document(v)
	}
	for _, line := range v.draw(1<<16, 1<<16, 0, a.print.colour) {
		a.print.linef("%s", line)
	}
	return nil
}

// topLive draws pictures until q or a signal comes. Whatever ends it, the
// terminal is as it was.
func topLive(ctx context.Context, in, out *os.File, every time.Duration, colour bool, look func(context.Context) topView) (err error) {
	screen, err := openScreen(in, out)
	if err != nil {
		return err
	}
	defer screen.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	typed := make(chan byte)
	go screen.keys(typed) // which ends with the program
	views, panicked := lookAgain(ctx, every, look)

	var view topView
	order := 0
	for {
		if width, height := screen.size(); !view.At.IsZero() {
			if err := screen.show(view.draw(width, height, order, colour)); err != nil {
				return err
			}
		}
		select {
		case view = <-views:
		case what := <-panicked:
			panic(what)
		case <-resized:
		case key, more := <-typed:
			switch {
			case key == 'q' || !more:
				return nil
			case key == 's':
				order = (order + 1) % len(topOrders)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// lookAgain looks beside what draws, so that keys work while a store does not
// answer.
func lookAgain(ctx context.Context, every time.Duration, look func(context.Context) topView) (views <-chan topView, panicked <-chan any) {
	seen, failed := make(chan topView), make(chan any, 1)
	go func() {
		defer func() {
			if what := recover(); what != nil {
				failed <- what
			}
		}()
		tick := time.NewTicker(every)
		defer tick.Stop()
		var before topView
		for {
			view := look(ctx)
			view.Every = every
			select {
			case seen <- view.rates(before):
			case <-ctx.Done():
				return
			}
			before = view
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return seen, failed
}

// topWatch looks at the queues of a configuration.
type topWatch struct {
	app    *app
	queues []*config
	socket string  // "" when none is named
	stores []store // nil where it cannot be opened
}

// open opens the stores. It fails when none of them can be.
func (w *topWatch) open(ctx context.Context) error {
	var problems []error
	for i := range w.queues {
		if _, err := w.store(ctx, i); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == len(w.queues) {
		return problems[0]
	}
	return nil
}

// store answers a store, opened now if it could not be before.
func (w *topWatch) store(ctx context.Context, i int) (store, error) {
	if w.stores[i] == nil {
		s, err := w.app.open(ctx, w.queues[i])
		if err != nil {
			return nil, err
		}
		w.stores[i] = s
	}
	return w.stores[i], nil
}

func (w *topWatch) close() {
	for _, s := range w.stores {
		if s != nil {
			s.Close()
		}
	}
}

// look asks each queue, and the Gantry on the socket. What does not answer is a
// part of the view, not an error.
func (w *topWatch) look(ctx context.Context) topView {
	v := topView{Queues: []topQueue{}}
	for i, c := range w.queues {
		name, err := c.instanceName()
		var q topQueue
		var s store
		if err == nil {
			s, err = w.store(ctx, i)
		}
		if err == nil {
			q, err = lookAtQueue(ctx, s)
		}
		if err != nil {
			q = topQueue{Problem: err.Error(), Classes: []topClass{}}
		}
		q.Instance = name
		v.Queues = append(v.Queues, q)
	}
	if w.socket != "" {
		running, err := lookAtRunning(ctx, w.socket)
		v.Running = running
		if err != nil {
			v.Problem = err.Error()
		}
	}
	v.At = time.Now()
	return v
}

func lookAtQueue(ctx context.Context, queue tasks.Operator) (topQueue, error) {
	q := topQueue{Classes: []topClass{}}
	stats, err := queue.Stats(ctx)
	if err != nil {
		return q, err
	}
	if q.Oldest, err = oldest(ctx, queue, stats.Now); err != nil {
		return q, err
	}
	for _, class := range stats.Classes {
		q.Active += class.Active
		q.Leased += class.Leased
		q.Waiting += class.Waiting
		q.Failing += class.Failing
		q.More = q.More || class.More
		q.Classes = append(q.Classes, topClass{ClassStats: class})
	}
	return q, nil
}

// oldest answers the age of the task with the lowest id, in seconds. That is the
// one that was queued first, but for those that an operator queued again.
func oldest(ctx context.Context, queue tasks.Operator, now int64) (*int64, error) {
	page, err := queue.List(ctx, tasks.Filter{State: tasks.Active, Limit: 1, WithoutData: true})
	if err != nil || len(page.Tasks) == 0 {
		return nil, err
	}
	return new(max(0, now-page.Tasks[0].DateCreated)), nil
}

func lookAtRunning(ctx context.Context, socket string) (*topRunning, error) {
	var s statusReport[json.RawMessage]
	if err := askStatus(ctx, socket, &s); err != nil {
		return nil, err
	}
	r := &topRunning{
		PID: s.PID, Since: s.Since, Ready: s.Ready, Problem: s.Problem,
		Held: s.Held, Running: s.Running, Counts: s.Counts, Processes: []topProcess{},
		of: map[string]counts{},
	}
	if len(s.Instances) == 0 {
		r.of[""] = s.Counts
		return r, r.add("", s)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Instances)) {
		r.of[name] = s.Instances[name].Counts
		if err := r.add(name+"/", s.Instances[name]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// add puts the processes of a report into the view, under their names with a
// prefix.
func (r *topRunning) add(prefix string, s statusReport[json.RawMessage]) error {
	for p := range processes(s.Plugins) {
		r.Processes = append(r.Processes, topProcess{prefix + p.Name, p.PID, string(p.State), p.Running})
	}
	if s.PHP.Route != "pool" || s.PHP.State == nil {
		return nil
	}
	var php pool.State
	if err := json.Unmarshal(*s.PHP.State, &php); err != nil {
		return fmt.Errorf("read the state of the pool: %w", err)
	}
	for _, p := range php.Processes {
		running := 0
		if p.Task != 0 {
			running = 1
		}
		r.Processes = append(r.Processes, topProcess{prefix + "PHP", p.PID, string(p.Phase), running})
	}
	return nil
}
