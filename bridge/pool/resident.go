package pool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// resident is one PHP process, with its pipes and the task that it has.
type resident struct {
	pool  *Pool
	child child
	began time.Time

	requests *os.File // to its fd 3
	answers  *os.File // from its fd 4
	output   *output
	tried    chan struct{} // closed when it is ready or has failed to start
	dead     chan struct{} // closed when it is gone and everything it said is read

	mu    sync.Mutex
	call  *call       // nil between tasks
	end   ending      // why Gantry killed it
	why   string      // the same for people
	limit *time.Timer // kills it unless it gets on
	left  int         // bytes of requests that it had not read when it died, -1 when unknown

	// The rest is guarded by Pool.mu.
	phase    Phase
	since    time.Time
	task     int64
	tasks    int
	memory   int64
	leave    string        // why it wants to be replaced
	leaveAge time.Duration // from which age on it is
}

// ending is why Gantry killed a process.
type ending int

const (
	itself ending = iota // it did not
	unfit                // it was wedged or broke the protocol
	cut                  // its task was cancelled, or the pool is closing
)

// start starts the operating system's process.
func (r *resident) start() (err error) {
	var pipes [3][2]*os.File
	defer func() {
		for _, pipe := range pipes {
			theirs, ours := pipe[0], pipe[1]
			theirs.Close()
			if err != nil {
				ours.Close()
			}
		}
	}()
	for i := range pipes {
		read, write, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make the pipes of a PHP process: %w", err)
		}
		pipes[i] = [2]*os.File{write, read}
		if i == 0 { // requests go the other way
			pipes[i] = [2]*os.File{read, write}
		}
	}
	r.requests, r.answers = pipes[0][1], pipes[1][1]
	if r.output, err = newOutput(pipes[2][1], time.Now); err != nil {
		return err
	}
	command := r.pool.config.Command
	err = r.pool.spawner.Run(func() error {
		return r.child.start(command, environment(os.Environ()), pipes[0][0], pipes[1][0], pipes[2][0])
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	r.output.log = r.pool.config.Log.With().Int("pid", r.child.pid).Logger()
	return nil
}

// serve carries what the process says until it is dead, and leaves nothing of
// it.
func (r *resident) serve() {
	var readers sync.WaitGroup
	readers.Go(r.listen)
	readers.Go(r.output.pump)
	r.within(r.pool.config.StartTimeout, "it was not ready within %v")
	r.child.wait(func() { r.kill(unfit, "it was stopped by a signal, and killed") })

	r.mu.Lock()
	r.left = waiting(r.requests)
	r.mu.Unlock()
	r.requests.Close()
	r.answers.SetReadDeadline(time.Now())
	r.output.close()
	readers.Wait()
	r.within(0, "")
	r.answers.Close()
	close(r.dead)
}

// within kills the process unless it is called again in time. A limit of 0
// only ends the last one.
func (r *resident) within(limit time.Duration, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit != nil {
		r.limit.Stop()
		r.limit = nil
	}
	if limit > 0 {
		r.limit = time.AfterFunc(limit, func() { r.kill(unfit, fmt.Sprintf(why, limit)) })
	}
}

// kill kills the process with its group. Only the first reason counts.
func (r *resident) kill(end ending, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killLocked(end, why)
}

func (r *resident) killLocked(end ending, why string) {
	if r.child.kill() && r.end == itself {
		r.end, r.why = end, why
	}
}

// dismiss tells an idle process to end.
func (r *resident) dismiss() {
	r.requests.Close()
	r.within(r.pool.config.LeaveTimeout, "it did not end within %v")
}

// listen reads the answers until there are no more.
func (r *resident) listen() {
	answers := bufio.NewReader(answerPipe{r.answers})
	for {
		header, _, err := readFrame(answers)
		if err == nil {
			err = r.hear(header)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			// It is ending; how, is seen by waiting for it.
			r.within(r.pool.config.LeaveTimeout, "it closed its answers and did not end within %v")
			return
		default:
			r.kill(unfit, fmt.Sprintf("it broke the protocol and was killed: %v", err))
			return
		}
	}
}

// hear acts on one answer.
func (r *resident) hear(header []byte) error {
	a, err := decodeAnswer(header)
	if err != nil {
		return err
	}
	switch a.Type {
	case "ready":
		r.within(0, "")
		return r.pool.ready(r, a)
	case "leaving":
		r.pool.wantsToLeave(r, a.Reason)
		return nil
	case "started", "outcome":
		return r.deliver(a)
	}
	return fmt.Errorf("%w: its type is %.40q", errFrame, a.Type)
}

// ending answers why Gantry killed the process, or itself.
func (r *resident) ending() ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// lives reports whether the process is neither dead nor killed.
func (r *resident) lives() bool {
	select {
	case <-r.dead:
		return false
	default:
		return r.ending() == itself
	}
}

// obituary says what a dead process died of, or what kept it from starting.
func (r *resident) obituary(start error) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case start != nil:
		return start.Error()
	case r.why != "":
		return fmt.Sprintf("PHP process %d: %s%s", r.child.pid, r.why, r.output.lastLines())
	}
	return fmt.Sprintf("PHP process %d ended: %s%s", r.child.pid, r.child.cmd.ProcessState, r.output.lastLines())
}

// wish notes that the process wants to be replaced, once it is so old. Only the
// first reason counts. It needs Pool.mu.
func (r *resident) wish(reason string, age time.Duration) {
	if reason == "" || r.leave != "" {
		return
	}
	r.leave, r.leaveAge = reason, age
	r.pool.config.Log.Info().Int("pid", r.child.pid).Str("reason", reason).Msg("PHP process will be replaced")
	if young := age - time.Since(r.began); young > 0 {
		time.AfterFunc(young, func() {
			r.pool.mu.Lock()
			defer r.pool.mu.Unlock()
			r.pool.tend()
		})
	}
}

// mayLeave reports whether the process is to be replaced now. It needs Pool.mu.
func (r *resident) mayLeave() bool {
	return r.leave != "" && time.Since(r.began) >= r.leaveAge
}

// describe needs Pool.mu.
func (r *resident) describe() Process {
	return Process{
		PID: r.child.id(), Phase: r.phase, Since: r.since, Began: r.began,
		Task: r.task, Tasks: r.tasks, Memory: r.memory, Leaving: r.leave,
	}
}
