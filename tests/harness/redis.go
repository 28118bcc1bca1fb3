package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

// Redis is a private redis-server in a directory of its own, on a unix socket.
type Redis struct {
	dir    string
	args   []string
	port   int // 0: none
	run    *scratch.Process
	reaper *scratch.Reaper
}

// StartRedis starts a server that keeps every answered write through kill -9
// (appendonly yes, appendfsync always), unless args say otherwise, as on the command
// line of redis-server: "--appendfsync", "everysec". Its end is the test's. Where
// there is no redis-server the test is skipped, and says so.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return startRedis(t, 0, args)
}

// sharedRedis is the server of this test binary, started on first use.
var sharedRedis struct {
	sync.Mutex
	server *Redis
}

// SharedRedis answers the server of this test binary, which syncs its file once a
// second, for tests that have an instance of their own.
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	needRedis(t)
	sharedRedis.Lock()
	defer sharedRedis.Unlock()
	if sharedRedis.server == nil {
		server, err := newRedis(0, []string{"--appendfsync", "everysec"})
		if err != nil {
			t.Fatal(err)
		}
		AtEnd(server.end)
		sharedRedis.server = server
	}
	return sharedRedis.server
}

func needRedis(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("NOT PROVEN against a real Redis, because there is no redis-server. Install Debian's package redis-server (version 7.0 or later).")
	}
}

func startRedis(t testing.TB, port int, args []string) *Redis {
	t.Helper()
	needRedis(t)
	r, err := newRedis(port, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// LaunchRedis is StartRedis for a program. Stop ends it.
func LaunchRedis(args ...string) (*Redis, error) { return newRedis(0, args) }

// Stop ends a server that LaunchRedis started, and removes its data.
func (r *Redis) Stop() error { return r.end() }

func newRedis(port int, args []string) (*Redis, error) {
	dir, err := os.MkdirTemp("", "gantry-")
	if err != nil {
		return nil, err
	}
	r := &Redis{dir: dir, args: args, port: port}
	if r.reaper, err = scratch.StartReaper(r.Socket(), "redis-server", dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := r.Start(); err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

func (r *Redis) end() error { return errors.Join(r.Kill(), r.reaper.Reap()) }

// Socket answers the path of the unix socket.
func (r *Redis) Socket() string { return filepath.Join(r.dir, "sock") }

// URL answers what stores are opened with. It stays the same through a restart.
func (r *Redis) URL() string { return "unix://" + r.Socket() }

// Address answers the TCP address of a node of a cluster.
func (r *Redis) Address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// PID answers the process id of the running server.
func (r *Redis) PID() int { return r.run.PID() }

// Client answers a client of the server, closed when the test ends.
func (r *Redis) Client(t testing.TB) *goredis.Client {
	t.Helper()
	client := r.client()
	t.Cleanup(func() { client.Close() })
	return client
}

func (r *Redis) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: r.Socket(), MaxRetries: -1, ReadTimeout: time.Minute})
}

// Start starts the server on the data that it left, and waits until it has loaded
// them.
func (r *Redis) Start() error {
	args := append([]string{
		"--port", fmt.Sprint(r.port), "--bind", "127.0.0.1", "--unixsocket", r.Socket(), "--unixsocketperm", "700",
		"--dir", r.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--proc-title-template", "{title} {unixsocket}", "--logfile", filepath.Join(r.dir, "log"),
	}, r.args...)
	var err error
	if r.run, err = scratch.Spawn(exec.Command("redis-server", args...)); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	client := r.client()
	defer client.Close()
	err = r.run.AwaitUp(time.Minute, func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		return fmt.Errorf("%w\n%s", err, log)
	}
	return nil
}

// Kill ends the server with SIGKILL, as a crash would. Its data stays.
func (r *Redis) Kill() error {
	if r.run == nil {
		return nil
	}
	return r.run.Kill()
}

// Pause stops the server without ending it, and Resume has it go on.
func (r *Redis) Pause() error { return r.run.Signal(syscall.SIGSTOP) }

// Resume has a paused server go on.
func (r *Redis) Resume() error { return r.run.Signal(syscall.SIGCONT) }

// StartRedisCluster starts a cluster of three masters. Where there is no
// redis-server or no redis-cli the test is skipped, and says so.
func StartRedisCluster(t testing.TB, args ...string) []*Redis {
	t.Helper()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("NOT PROVEN on a Redis Cluster, because there is no redis-cli. Install Debian's package redis-tools.")
	}
	nodes := make([]*Redis, 3)
	addresses := make([]string, len(nodes))
	for i := range nodes {
		port, err := scratch.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		bus, err := scratch.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = startRedis(t, port, append([]string{"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus)}, args...))
		addresses[i] = nodes[i].Address()
	}
	create := exec.Command("redis-cli", append([]string{"--cluster", "create", "--cluster-yes"}, addresses...)...)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("create a cluster: %v\n%s", err, out)
	}
	// Each node has to hear of it.
	for _, node := range nodes {
		client := node.Client(t)
		Eventually(t, "the cluster is up", func() bool {
			info, err := client.ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		})
	}
	return nodes
}
