package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that does not outlive this process.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how it ended; valid once exited is closed
}

// spawn starts a command.
func spawn(cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.supervise(started)
	return p, <-started
}

// supervise starts the command and waits for its end. It keeps one thread for
// that, because a parent-death signal is sent when the thread that started the
// child ends, and the runtime ends threads as it likes.
func (p *process) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.exited)
}

// kill ends the process, and with it the process group that it leads, if any.
func (p *process) kill() error {
	select {
	case <-p.exited:
		return nil // its process id may be somebody else's by now
	default:
	}
	pid := p.cmd.Process.Pid
	// One that leads no group answers ESRCH here and is met by the second.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	<-p.exited
	return nil
}
