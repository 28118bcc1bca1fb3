package scratch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child that does not outlive this process.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // valid once exited is closed
}

// Spawn starts a command.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.supervise(started)
	return p, <-started
}

// supervise starts the command and waits for its end. It keeps one thread for
// that, because a parent-death signal is sent when the thread that started the
// child ends, and the runtime ends threads as it likes.
func (p *Process) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.exited)
}

// PID answers the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err answers how the process ended, as exec.Cmd.Wait does, once Exited is
// closed.
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process. One that has ended is no error.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", signal, p.PID(), err)
	}
	return nil
}

// End asks the process by a signal to end, and waits until it has.
func (p *Process) End(signal os.Signal, limit time.Duration) error {
	if err := p.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("process %d did not end within %s", p.PID(), limit)
	}
}

// AwaitUp waits until what the process serves is up.
func (p *Process) AwaitUp(limit time.Duration, up func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := up(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("process %d ended while it started: %v", p.PID(), p.err)
		case <-ctx.Done():
			return fmt.Errorf("process %d was not ready within %s: %w", p.PID(), limit, err)
		case <-tick.C:
		}
	}
}

// Kill ends the process, and with it the process group that it leads, if any.
func (p *Process) Kill() error {
	select {
	case <-p.exited:
		return nil // its process id may be somebody else's by now
	default:
	}
	// One that leads no group answers ESRCH here and is met by the second.
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}
