package pool

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is one operating system process, in a session and a process group of
// its own. The group is killed as a whole, and never by a number that may
// belong to somebody else by now.
type child struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	pid    int // 0 before it is started
	killed bool
	reaped bool
}

// start starts the process with these files as its fd 3 and 4, and for what it
// prints.
func (c *child) start(command, env []string, requests, answers, printed *os.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("stopped before it began")
	}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Env = env
	c.cmd.ExtraFiles = []*os.File{requests, answers}
	c.cmd.Stdout, c.cmd.Stderr = printed, printed
	// A PHP task that went on after its Gantry died would run twice, and PHP
	// acts on no signal while it waits for a database or a program.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.pid = c.cmd.Process.Pid
	return nil
}

// wait waits until the process has died, kills what it left in its group, and
// only then releases its number: a dead process keeps it until it is reaped.
// stopped is called when a signal has stopped the process.
func (c *child) wait(stopped func()) {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && info.Code == cldStopped:
			stopped()
			// Take the report, or it would come again until the process is dead.
			_ = unix.Waitid(unix.P_PID, c.pid, nil, unix.WSTOPPED|unix.WNOHANG, nil)
			continue
		}
		break
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = c.cmd.Wait()
	c.reaped = true
}

// cldStopped is CLD_STOPPED of <signal.h>: why waitid returned.
const cldStopped = 5

// kill kills the whole process group, and reports false when the process is
// gone. A process that has not started will not.
func (c *child) kill() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.pid != 0 && !c.reaped {
		_ = unix.Kill(-c.pid, unix.SIGKILL)
	}
	return !c.reaped
}

// id answers the process id, 0 before there is one.
func (c *child) id() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// terminated reports whether it was SIGTERM that ended a dead process, by
// itself or through Phorge's handler, which exits as a shell would.
func (c *child) terminated() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == syscall.SIGTERM || status.ExitStatus() == 128+int(syscall.SIGTERM))
}
