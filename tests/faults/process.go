package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// seat is the place of one runtime, or of what serves or uses the API: whenever
// its process ends, another takes its place, as a service manager would do it.
type seat struct {
	round   *round
	name    string
	command func(file func(kind string) string) (*exec.Cmd, error)
	ended   chan struct{}

	mu       sync.Mutex
	cmd      *exec.Cmd // nil between two processes
	stdin    io.Closer
	killed   bool // by us
	stopping bool
	problem  error
}

// occupy keeps the seat occupied until stop. The command gets names of files for
// one process.
func (r *round) occupy(name string, rng *rand.Rand, command func(file func(kind string) string) (*exec.Cmd, error)) *seat {
	s := &seat{round: r, name: name, command: command, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// A process dies with the thread that started it.
		runtime.LockOSThread()
		for n := 1; s.live(n); n++ {
			// Sometimes at once, sometimes after those leases have expired.
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		}
	}()
	return s
}

// live runs one process to its end and answers whether another is wanted.
func (s *seat) live(n int) bool {
	if err := s.start(n); err != nil {
		s.fail(err)
		return false
	}
	s.mu.Lock()
	cmd, stdin := s.cmd, s.stdin
	s.mu.Unlock()
	if cmd == nil {
		return false
	}
	err := cmd.Wait()
	stdin.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.killed
	s.cmd, s.killed = nil, false
	if err != nil && !killed && cmd.ProcessState.ExitCode() != exitUnavailable {
		s.problem = fmt.Errorf("%s, process %d, ended by itself: %w; see its log in %s", s.name, n, err, s.round.dir)
		return false
	}
	return !s.stopping
}

func (s *seat) start(n int) error {
	file := func(kind string) string {
		return filepath.Join(s.round.dir, fmt.Sprintf("%s-%s-%d", kind, s.name, n))
	}
	log, err := os.Create(file("log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := s.command(file)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return stdin.Close()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.stdin = cmd, stdin
	return nil
}

// runtime is the command of a runtime.
func (r *round) runtime(file func(kind string) string) (*exec.Cmd, error) {
	cmd, err := r.role(file, dsnVariable+"="+r.dsn, manifestVariable+"="+r.manifest)
	if err == nil && r.php != nil {
		var text []byte
		text, err = json.Marshal(r.php.reach)
		cmd.Env = append(cmd.Env, phpVariable+"="+string(text))
	}
	return cmd, err
}

// role is the command of this program in another role.
func (r *round) role(file func(kind string) string, variables ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), historyVariable+"="+file("history"), recordsVariable+"="+r.records)
	cmd.Env = append(cmd.Env, variables...)
	return cmd, nil
}

func (s *seat) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = err
}

// kill kills the process, when there is one. Its handler is left to itself.
func (s *seat) kill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.killed {
		return false
	}
	s.killed = s.cmd.Process.Kill() == nil
	return s.killed
}

// signal sends a signal to the process, when there is one.
func (s *seat) signal(signal syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && !s.killed && s.cmd.Process.Signal(signal) == nil
}

// killChild kills a child of the process that is of a kind, when there is one.
// There can be two handlers: the second one runs the tasks that the first one
// held when it died.
func (s *seat) killChild(rng *rand.Rand, of func(pid int) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return false
	}
	children := slices.DeleteFunc(childrenOf(s.cmd.Process.Pid), func(pid int) bool { return !of(pid) })
	return len(children) > 0 && syscall.Kill(children[rng.IntN(len(children))], syscall.SIGKILL) == nil
}

// stop ends the process as a service manager does, and answers what went wrong
// with the seat.
func (s *seat) stop() error {
	s.mu.Lock()
	s.stopping = true
	if s.cmd != nil {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.problem = errors.Join(s.problem, err)
		}
	}
	s.mu.Unlock()
	<-s.ended
	return s.problem
}

// childrenOf answers the processes that a process started.
func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		// pid (name) state ppid; the name can hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}
