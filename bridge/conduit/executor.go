package conduit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Executor runs tasks through worker.execute. It is a tasks.Executor. Its
// methods may be called at the same time.
type Executor struct {
	config Config // without the key
	client *client
	health health

	life    context.Context // until Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	started bool
	closed  bool
	waiting []*job // for a call, first come first
	lines   int    // connections in use
	pace    pace
}

// job is one Execute.
type job struct {
	task tasks.Task
	done chan tasks.Outcome
}

// New answers an executor that is not ready before it was started.
func New(c Config) (*Executor, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	c = client.config
	e := &Executor{config: c, client: client, health: newHealth(c), pace: newPace()}
	e.life, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Start begins to watch the Phorge and returns when it has answered, or failed
// to, for the first time, or when ctx ends. A Phorge that does not answer is no
// error here: it is logged, shows in State, is asked again, and no class is
// ready meanwhile. Start can be called once.
func (e *Executor) Start(ctx context.Context) error {
	e.mu.Lock()
	if e.started || e.closed {
		e.mu.Unlock()
		return errors.New("conduit: started or closed already")
	}
	e.started = true
	e.running.Go(e.watch)
	e.mu.Unlock()
	select {
	case <-e.health.asked:
		return nil
	case <-e.life.Done():
		return errors.New("conduit: closed while it started")
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to answer: %w", e.config.URL, ctx.Err())
	}
}

// Close ends everything at once. It cannot stop PHP: a task that was sent and
// whose outcome is not known is released with a wait, after which whoever leases
// it learns what became of it. To wait for the outcomes, close only after every Execute has
// returned; to end a runtime that waits for them, close before. It can be called
// any number of times.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.closed = true
	for _, j := range e.waiting {
		j.done <- tasks.Outcome{Kind: tasks.Released}
	}
	e.waiting = nil
	e.mu.Unlock()
	e.stop()
	e.running.Wait()
	e.client.close()
	return nil
}

// Ready reports whether the class is in gantry.task-classes and the Phorge
// answers as it should.
func (e *Executor) Ready(class string) bool { return e.life.Err() == nil && e.health.ready(class) }

// Slots is how many tasks can be executed at the same time. Tasks that share a
// call run one after the other, so there are more slots than connections only
// while tasks are cheap.
func (e *Executor) Slots() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.pace.together(e.perCall())
	if n == 1 {
		return e.config.Connections
	}
	return (e.config.Connections + 1) * n // while calls are under way, the next one gathers
}

// Execute runs a task in PHP, whose execution cannot be stopped: when ctx ends,
// a task that was sent still has its outcome awaited.
func (e *Executor) Execute(ctx context.Context, task tasks.Task, _ func(time.Duration)) tasks.Outcome {
	if task.Lease == nil {
		return tasks.Outcome{Kind: tasks.Released, Reason: "the task has no lease"}
	}
	j := &job{task: task, done: make(chan tasks.Outcome, 1)}
	e.enter(j)
	tooLong := time.NewTimer(e.config.times.patience)
	defer tooLong.Stop()
	select {
	case outcome := <-j.done:
		return outcome
	case <-ctx.Done():
	case <-tooLong.C:
	}
	if e.withdraw(j) {
		return tasks.Outcome{Kind: tasks.Released, Reason: "no connection was free for it"}
	}
	return <-j.done
}

// enter puts a job in line and opens a line when it can.
func (e *Executor) enter(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		j.done <- tasks.Outcome{Kind: tasks.Released}
		return
	}
	e.waiting = append(e.waiting, j)
	if e.lines < e.config.Connections {
		e.lines++
		e.running.Go(e.line)
	}
}

// withdraw takes back a job that has not been sent.
func (e *Executor) withdraw(j *job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.waiting, j)
	if i < 0 {
		return false
	}
	e.waiting = slices.Delete(e.waiting, i, i+1)
	return true
}

// line makes one call after the other, as long as there are jobs.
func (e *Executor) line() {
	for jobs := e.take(); len(jobs) > 0; jobs = e.take() {
		newCall(e, jobs).settle()
	}
}

// take answers the jobs of the next call: together about as much work as a call
// is worth. Without jobs, the line is closed.
func (e *Executor) take() []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, work := 0, time.Duration(0)
	for n < min(len(e.waiting), e.perCall()) {
		work += e.pace.expect(e.waiting[n].task.Class)
		if n > 0 && work > callWorth {
			break
		}
		n++
	}
	jobs := slices.Clone(e.waiting[:n])
	e.waiting = slices.Delete(e.waiting, 0, n)
	if n == 0 {
		e.lines--
	}
	return jobs
}

func (e *Executor) perCall() int { return min(e.config.TasksPerCall, e.health.maxTasks()) }

func (e *Executor) learn(class string, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace.learn(class, took)
}
