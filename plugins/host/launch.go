package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks/spawn"
)

// peer is a process that has shaken hands.
type peer struct {
	child   *child
	client  *goplugin.Client
	service pluginpb.HandlersClient
	sdk     string
	limits  map[string]int // class to concurrency; 0 means none

	databases, options []string // what it uses of Phorge
}

// launch checks the binary, starts it and asks what it can do. When it
// answers an error, nothing of the process is left.
func (p *process) launch(ctx context.Context, s *spawn.Thread) (*peer, error) {
	binary, digest, err := openBinary(p.plugin.Path)
	if err != nil {
		return nil, err
	}
	defer binary.Close()
	if err := checkPin(p.plugin, digest); err != nil {
		return nil, err
	}
	sockets := os.TempDir()
	if err := checkSocketDir(sockets); err != nil {
		return nil, err
	}

	ch := newChild(p.plugin.Path, binary, &capture{log: p.log, now: time.Now, printed: p.config.Printed}, s)
	var socketDir string
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  pluginpb.Handshake(),
		Plugins:          goplugin.PluginSet{pluginpb.ServiceName: pluginpb.Service{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     p.config.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithInitialWindowSize(pluginpb.Window),
			grpc.WithInitialConnWindowSize(pluginpb.Window),
		},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			socketDir = dir
			ch.cmd.Env = append(cmd.Env, p.passedEnv()...)
			return ch, nil
		},
	})
	// Once connected, nobody needs the socket's name any more. Without it
	// nothing is left over, however the two processes end.
	defer func() { os.RemoveAll(socketDir) }()

	r, err := p.connect(ctx, client, ch)
	if err != nil {
		client.Kill()
		return nil, p.explain(ch, err)
	}
	return r, nil
}

// connect shakes hands and asks the process what it can do. The end of ctx
// kills it.
func (p *process) connect(ctx context.Context, client *goplugin.Client, ch *child) (*peer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.StartTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = ch.Kill(ctx) })()
	protocol, err := client.Client()
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	raw, err := protocol.Dispense(pluginpb.ServiceName)
	if err != nil {
		return nil, err
	}
	r := &peer{child: ch, client: client, service: raw.(pluginpb.HandlersClient), limits: map[string]int{}}
	description, err := r.service.Describe(ctx, &pluginpb.DescribeRequest{})
	if err != nil {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("ask what it can do: %w", err))
	}
	r.sdk = description.GetSdkVersion()
	r.databases, r.options = description.GetApplications(), description.GetOptions()
	if err := p.introduce(ctx, r); err != nil {
		return nil, err
	}
	for _, h := range description.GetHandlers() {
		r.limits[h.GetTaskClass()] = int(h.GetConcurrency())
	}
	return r, nil
}

// passedEnv answers the variables that the manifest lets through.
func (p *process) passedEnv() []string {
	var env []string
	for _, name := range p.plugin.Env {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// socketName is as long as the longest name that go-plugin makes for a socket
// below its directory: two random numbers of up to ten digits each.
const socketName = "/plugin-dir0123456789/plugin0123456789"

// maxSocketPath is the limit of sun_path in a Unix socket address, which ends
// with a zero byte.
const maxSocketPath = len(unix.RawSockaddrUnix{}.Path) - 1

// checkSocketDir makes sure that a socket can be made in dir. What go-plugin
// answers when it cannot is "invalid argument".
func checkSocketDir(dir string) error {
	if length := len(dir) + len(socketName); length > maxSocketPath {
		return fmt.Errorf("the socket of a handler binary would be %s%s, %d bytes long; the system's limit is %d: set TMPDIR to a shorter path, of at most %d bytes",
			dir, socketName, length, maxSocketPath, maxSocketPath-len(socketName))
	}
	probe, err := os.MkdirTemp(dir, "plugin-dir")
	if err != nil {
		return fmt.Errorf("the sockets of handler binaries go into %s, which cannot be written (%w): set TMPDIR to a directory that can", dir, err)
	}
	return os.Remove(probe)
}

// explain makes of a failed start something an administrator can act on. The
// process is dead.
func (p *process) explain(ch *child, err error) error {
	path, first := p.plugin.Path, ch.firstLine()
	version, shaken := handshakeVersion(first)
	switch {
	case errors.As(err, new(siteRefused)):
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s was stopped while it started", path)
	case ch.ID() == "":
		return err
	case shaken && version != strconv.Itoa(pluginpb.Version):
		return fmt.Errorf("%s speaks version %s of the handler protocol, this Gantry speaks %d: build it with the SDK of this Gantry",
			path, version, pluginpb.Version)
	case first != "" && !shaken:
		return fmt.Errorf("%s printed %q before the handshake: nothing may be printed to standard output before plugins.Serve is called; look at init functions and package variables",
			path, first)
	case !ch.wasKilled():
		return fmt.Errorf("%s ended at start: %s", path, ch.epitaph())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s was not ready within %v%s", path, p.config.StartTimeout, ch.capture.lastLines())
	}
	return fmt.Errorf("%s cannot be used: %w%s", path, err, ch.capture.lastLines())
}

// lacks answers why the process cannot take a class, or "".
func (r *peer) lacks(class string) string {
	if _, ok := r.limits[class]; ok {
		return ""
	}
	return fmt.Sprintf("the binary has no handler for class %s; it handles %s",
		class, strings.Join(slices.Sorted(maps.Keys(r.limits)), ", "))
}
