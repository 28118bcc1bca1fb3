package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// Pool keeps PHP processes and runs tasks in them. It is a tasks.Executor for
// every class that PHP knows; what becomes of a class that it does not know is
// for PHP to say.
type Pool struct {
	config  Config
	spawner *spawn.Thread
	running sync.WaitGroup // of the processes
	close   sync.Once

	mu        sync.Mutex
	started   bool
	closed    bool
	processes []*resident // that are not gone, in the order in which they started
	idle      []*resident // the one that worked last at the end
	waiters   []*waiter
	target    int // how many processes there are to be
	trimming  bool

	// terminated are the tasks whose process was ended by SIGTERM and that no
	// process has answered since. Gantry sends none. A service manager that
	// stops Gantry may send one to every process of the service, even before
	// Gantry has its own, and that is to cost no task an attempt; but the pool
	// then does not live to see the task again. What dies so for a second time
	// was not stopped: the task itself or its size is the cause, and it crashed,
	// or it would come back for ever.
	terminated map[int64]bool

	failures int         // since a process did work
	failedAt time.Time   // when the last of them was
	again    *time.Timer // set while nothing is started
	failed   *Process    // the last failure
	problem  string
	last     answer // the last ready
}

// waiter is a task that waits for a process.
type waiter struct {
	task int64
	turn chan *resident // nil is sent when no process will come
}

// New answers a pool that has started nothing yet.
func New(c Config) (*Pool, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Pool{config: c, target: c.Min, terminated: map[int64]bool{}}, nil
}

// Start starts Config.Min processes and returns when each is ready or has
// failed to start once, or when ctx ends. Processes that cannot be started are
// no error here: that is logged, shows in State, and is tried again. Start can
// be called once.
func (p *Pool) Start(ctx context.Context) error {
	first, err := p.launchFirst()
	if err != nil {
		return err
	}
	for _, r := range first {
		select {
		case <-r.tried:
		case <-ctx.Done():
			return fmt.Errorf("waiting for PHP processes to start: %w", ctx.Err())
		}
	}
	return nil
}

func (p *Pool) launchFirst() ([]*resident, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || p.closed {
		return nil, errors.New("pool: started or closed already")
	}
	p.started = true
	p.spawner = spawn.NewThread()
	p.tend()
	return slices.Clone(p.processes), nil
}

// Close ends every process and returns when none is left. Tasks that still run
// are cut short and answered as released. It can be called any number of
// times.
func (p *Pool) Close() error {
	p.close.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.tend()
		started := p.started
		p.mu.Unlock()
		p.running.Wait()
		if started {
			p.spawner.Close()
		}
	})
	return nil
}

// Slots answers how many tasks can run at the same time.
func (p *Pool) Slots() int { return p.config.Max }

// Classes answers the task classes that PHP knows, sorted. It is empty before
// the first process is ready.
func (p *Pool) Classes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.last.Classes))
}

// Publishers answers the classes that FeedPublisherWorker queues a task for, the
// concrete subclasses of DoorkeeperFeedWorker in every library of the Phorge. It
// is empty before the first process is ready.
func (p *Pool) Publishers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.last.Publishers))
}

// Ready reports whether any process takes tasks, of whatever class.
func (p *Pool) Ready(string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readyLocked()
}

func (p *Pool) readyLocked() bool {
	n := p.count()
	return !p.closed && n.fresh+n.unwilling > 0
}

// State answers what a person wants to know of the pool.
func (p *Pool) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{
		Ready: p.readyLocked(), Min: p.config.Min, Max: p.config.Max,
		Waiting: len(p.waiters), Problem: p.problem,
		Phorge: p.last.Phorge, PHP: p.last.PHP, Namespace: p.last.Namespace,
		Processes: []Process{},
	}
	for _, r := range p.processes {
		s.Processes = append(s.Processes, r.describe())
	}
	if p.failed != nil && p.count().lasting() < p.target {
		s.Processes = append(s.Processes, *p.failed)
	}
	return s
}

// Execute runs a task in a process that has no other. When ctx ends, the
// process is killed with everything in its group. See tasks.Executor.
func (p *Pool) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	if ctx.Err() != nil {
		return released("cancelled before it started")
	}
	if len(task.Data) > maxBody {
		return tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: fmt.Sprintf(
			"task %d has %d bytes of data; a PHP process takes %d", task.ID, len(task.Data), maxBody)}
	}
	r, outcome := p.acquire(ctx, task.ID)
	if r == nil {
		return outcome
	}
	return r.execute(ctx, task, require)
}

// acquire answers a process for a task, or what becomes of the task when there
// is none.
func (p *Pool) acquire(ctx context.Context, task int64) (*resident, tasks.Outcome) {
	w := p.queue(task)
	select {
	case r := <-w.turn:
		if r == nil {
			return nil, p.hopeless()
		}
		return r, tasks.Outcome{}
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters = slices.DeleteFunc(p.waiters, func(other *waiter) bool { return other == w })
	select {
	case r := <-w.turn:
		if r != nil {
			p.free(r)
		}
	default:
	}
	return nil, released("cancelled before it started")
}

// queue puts a task in the line, where it has its turn at once when a process
// is idle.
func (p *Pool) queue(task int64) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{task: task, turn: make(chan *resident, 1)}
	p.waiters = append(p.waiters, w)
	if len(p.idle) == 0 && len(p.waiters) > p.count().starting {
		p.target = min(p.target+1, p.config.Max)
	}
	p.tend()
	return w
}

func (p *Pool) hopeless() tasks.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.started {
		return released("the pool of PHP processes does not run")
	}
	return released("no PHP process runs: %s", p.problem)
}
