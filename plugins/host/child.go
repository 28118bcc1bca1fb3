package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// drainOutput is how long the output of a dead process is still read. Its
// pipes end with it, unless a process that left its group holds them open.
const drainOutput = time.Second

// child is one operating system process, as a runner.Runner for go-plugin. It
// differs from go-plugin's own runner in what it guarantees: a process group
// that is killed as a whole and never by a number that may belong to somebody
// else by now; a death that is seen by waiting for the process, not for the
// end of its output; and output that is captured whatever it is.
type child struct {
	path    string
	cmd     *exec.Cmd
	capture *capture
	spawner *spawn.Thread

	// go-plugin reads the handshake line from the one and nothing from the
	// other; both end with the process.
	handshake, silence     *io.PipeReader
	handshakeIn, silenceIn *io.PipeWriter

	done chan struct{} // closed when the process is reaped and its output read

	mu     sync.Mutex
	pid    int
	reaped bool
	killed bool
	first  string // the first line on stdout
}

// newChild prepares the process of an open binary. Its environment is set
// before it is started.
func newChild(path string, binary *os.File, c *capture, s *spawn.Thread) *child {
	ch := &child{path: path, capture: c, spawner: s, done: make(chan struct{})}
	ch.cmd = &exec.Cmd{
		Path: "/proc/self/fd/" + strconv.Itoa(int(binary.Fd())),
		Args: []string{path},
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid: true,
			// The SDK answers SIGTERM by ending, but only when its parent has
			// really gone: a service manager sends SIGTERM to every process of
			// a service that is to drain.
			Pdeathsig: syscall.SIGTERM,
		},
	}
	ch.handshake, ch.handshakeIn = io.Pipe()
	ch.silence, ch.silenceIn = io.Pipe()
	return ch
}

// Start starts the process and everything that watches it.
func (c *child) Start(context.Context) error {
	stdout, stdoutIn, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", c.path, err)
	}
	defer stdoutIn.Close()
	stderr, stderrIn, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return fmt.Errorf("start %s: %w", c.path, err)
	}
	defer stderrIn.Close()
	c.cmd.Stdout, c.cmd.Stderr = stdoutIn, stderrIn
	if err := c.spawner.Run(c.fork); err != nil {
		stdout.Close()
		stderr.Close()
		return fmt.Errorf("start %s: %w", c.path, err)
	}

	var output sync.WaitGroup
	output.Go(func() { c.readStdout(stdout) })
	output.Go(func() { c.capture.pump("stderr", bufio.NewReader(stderr)) })
	go func() {
		c.reap()
		deadline := time.Now().Add(drainOutput)
		stdout.SetReadDeadline(deadline)
		stderr.SetReadDeadline(deadline)
		output.Wait()
		stdout.Close()
		stderr.Close()
		c.silenceIn.Close()
		close(c.done)
	}()
	return nil
}

func (c *child) fork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("stopped before it began")
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.pid = c.cmd.Process.Pid
	c.capture.log = c.capture.log.With().Int("pid", c.pid).Logger()
	return nil
}

// readStdout gives the first line to go-plugin when it is a handshake, and
// logs everything else.
func (c *child) readStdout(stdout io.Reader) {
	defer c.handshakeIn.Close()
	r := bufio.NewReader(stdout)
	first, cut, err := readLine(r)
	c.mu.Lock()
	c.first = first
	c.mu.Unlock()
	if _, shaken := handshakeVersion(first); shaken {
		fmt.Fprintln(c.handshakeIn, first)
	} else if first != "" {
		c.capture.line("stdout", first, cut)
	}
	c.handshakeIn.Close()
	if err == nil {
		c.capture.pump("stdout", r)
	}
}

// handshake matches the line by which go-plugin knows a plugin: the version of
// go-plugin's protocol, that of ours, and where to connect.
var handshake = regexp.MustCompile(`^\d+\|(\d+)\|(unix|tcp)\|`)

// handshakeVersion answers the version of the handler protocol that a
// handshake offers, unless the line is none.
func handshakeVersion(line string) (version string, ok bool) {
	match := handshake.FindStringSubmatch(line)
	if match == nil {
		return "", false
	}
	return match[1], true
}

// reap waits until the process has died, kills what it left in its group, and
// only then releases its number: a dead process keeps it until it is reaped.
func (c *child) reap() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = c.cmd.Wait()
	c.reaped = true
}

// Kill kills the whole process group, unless the process is gone. A process
// that has not started will not.
func (c *child) Kill(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.pid == 0 || c.reaped {
		return nil
	}
	return unix.Kill(-c.pid, unix.SIGKILL)
}

// Wait waits until the process is gone and its output is read.
func (c *child) Wait(context.Context) error {
	<-c.done
	return nil
}

// epitaph says how the process ended, once it has.
func (c *child) epitaph() string {
	return c.cmd.ProcessState.String() + c.capture.lastLines()
}

// wasKilled reports whether it was Kill that ended the process.
func (c *child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return c.killed && ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (c *child) firstLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// ID answers the process id, or "" before there is a process.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 {
		return ""
	}
	return strconv.Itoa(c.pid)
}

func (c *child) Name() string                    { return c.path }
func (c *child) Stdout() io.ReadCloser           { return c.handshake }
func (c *child) Stderr() io.ReadCloser           { return c.silence }
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin answer addresses as they are: both sides see
// the same file system.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
