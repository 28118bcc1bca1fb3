package plugins

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
)

// leaveTime is how long handlers may take to return once the host has gone.
// Their leases end soon, and then somebody else runs the same tasks.
const leaveTime = 2 * time.Second

// process is the life of a handler process. It ends with its host: when the
// stream ends, or when the kernel signals the death of the parent.
type process struct {
	server *server
	host   int // process id
	stdout *os.File
	stderr *os.File
	once   sync.Once

	mu   sync.Mutex
	grpc *grpc.Server
}

func newProcess(handlers map[string]Handler) *process {
	p := &process{host: os.Getppid(), stdout: os.Stdout, stderr: os.Stderr}
	p.server = &server{handlers: handlers, attached: p.takeOutputBack, left: func() { go p.stop() }}
	// The host's death breaks the pipes of stdout and stderr too. Nobody reads
	// this channel: that somebody asked for the signal turns it into an error
	// of the write, and the process lives to clean up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	terminations := make(chan os.Signal, 1)
	signal.Notify(terminations, syscall.SIGTERM)
	go func() {
		for range terminations {
			if p.orphaned() {
				p.stop()
			} else {
				// A service manager that stops a service signals all of its
				// processes, and the host wants to drain.
				fmt.Fprintln(p.stderr, "SIGTERM is ignored: this process ends when Gantry does")
			}
		}
	}()
	return p
}

func (p *process) orphaned() bool { return os.Getppid() != p.host }

// grpcServer answers the server that go-plugin serves.
func (p *process) grpcServer(options []grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(append(options,
		grpc.MaxRecvMsgSize(math.MaxInt32), // a task's data is as large as the database lets it be
		grpc.InitialWindowSize(pluginpb.Window),
		grpc.InitialConnWindowSize(pluginpb.Window),
	)...)
	p.mu.Lock()
	p.grpc = s
	p.mu.Unlock()
	return s
}

// takeOutputBack undoes what go-plugin did to os.Stdout and os.Stderr: it
// sends what is printed there through gRPC, where the last words of a process
// that dies are lost. Gantry reads the real ones.
func (p *process) takeOutputBack() { os.Stdout, os.Stderr = p.stdout, p.stderr }

// stop ends the service, which makes Serve go on to its end. The contexts of
// the tasks have ended by then with the stream.
func (p *process) stop() {
	p.once.Do(func() {
		idle := make(chan struct{})
		go func() {
			p.server.running.Wait()
			close(idle)
		}()
		select {
		case <-idle:
		case <-time.After(leaveTime):
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.grpc == nil { // still starting
			p.end()
			os.Exit(1)
		}
		p.grpc.Stop()
	})
}

// end leaves nothing behind: not the directory of the socket, when the host
// had no time to remove it, and no program that a handler started.
func (p *process) end() {
	os.Remove(os.Getenv(goplugin.EnvUnixSocketDir))
	if p.orphaned() && syscall.Getpgrp() == os.Getpid() {
		syscall.Kill(0, syscall.SIGKILL)
	}
}
