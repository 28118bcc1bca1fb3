// Command handler is a handler binary that behaves, or does not, as the tests
// of package host ask: at start by its environment, later by the data of its
// tasks.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/pluginpb"
	"github.com/phorge-gantry/gantry/tasks"
)

func init() {
	if os.Getenv("HANDLER_START") == "print" {
		fmt.Println("loading the frobnicator")
	}
}

func main() {
	switch os.Getenv("HANDLER_START") {
	case "panic":
		panic("no frobnicator")
	case "exit":
		fmt.Fprintln(os.Stderr, "the licence has expired")
		os.Exit(3)
	case "silent":
		select {}
	case "old":
		serveOldProtocol()
	case "reach":
		plugins.Serve(plugins.Handler{Class: "Do", Handle: reach, Databases: []string{"herald"}, Options: []string{"acme.list"}})
	}
	plugins.Serve(
		plugins.Handler{Class: "Do", Handle: do, RequiredLease: lease},
		plugins.Handler{Class: "Nothing", Handle: func(context.Context, *plugins.Task) error { return nil }},
		plugins.Handler{Class: "Alone", Handle: do, Concurrency: 1},
		plugins.Handler{Class: "Limited", Handle: do,
			MaxRetries:      func(*plugins.Task) int { return 2 },
			WaitBeforeRetry: func(*plugins.Task, error) time.Duration { return time.Minute }},
	)
}

func serveOldProtocol() {
	handshake := pluginpb.Handshake()
	handshake.ProtocolVersion--
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         goplugin.PluginSet{pluginpb.ServiceName: pluginpb.Service{Handlers: pluginpb.UnimplementedHandlersServer{}}},
		GRPCServer:      func(o []grpc.ServerOption) *grpc.Server { return grpc.NewServer(o...) },
	})
}

// order is the data of a task.
type order struct {
	Do      string
	Text    string
	Size    int
	Started string // a file to create, so that a test sees that the work has begun
}

func lease(task *plugins.Task) time.Duration {
	var o order
	if task.Decode(&o) == nil && o.Do == "need a lease" {
		return time.Hour
	}
	return 0
}

func do(ctx context.Context, task *plugins.Task) error {
	var o order
	if err := task.Decode(&o); err != nil {
		return err
	}
	if o.Started != "" {
		if err := os.WriteFile(o.Started, fmt.Append(nil, os.Getpid()), 0o600); err != nil {
			return err
		}
	}
	switch o.Do {
	case "succeed", "need a lease":
		return nil
	case "fail":
		return errors.New(o.Text)
	case "fail in Latin-1":
		return errors.New("caf\xe9")
	case "fail for good":
		return plugins.Fail(errors.New(o.Text))
	case "yield":
		return plugins.Yield(time.Minute)
	case "decline":
		return plugins.Decline(o.Text)
	case "follow up":
		task.Queue(tasks.NewTask{Class: "Next", Data: []byte(o.Text)})
		return nil
	case "panic":
		panic(o.Text)
	case "leave":
		runtime.Goexit()
	case "panic elsewhere":
		go panic(o.Text)
		select {}
	case "exit":
		os.Exit(4)
	case "wait":
		<-ctx.Done()
		return ctx.Err()
	case "ignore":
		select {}
	case "ignore and print":
		for {
			fmt.Fprintln(os.Stderr, "working")
			time.Sleep(time.Millisecond)
		}
	case "print":
		fmt.Print(o.Text)
		fmt.Fprint(os.Stderr, o.Text)
		return nil
	case "spam":
		line := append(bytes.Repeat([]byte("x"), o.Size), '\n')
		for range 50 {
			os.Stderr.Write(line)
			os.Stdout.Write(line)
		}
		return nil
	case "environment":
		var names []string
		for _, variable := range os.Environ() {
			name, _, _ := strings.Cut(variable, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		return plugins.Fail(fmt.Errorf("%s and TZ is %s", strings.Join(names, " "), os.Getenv("TZ")))
	case "start a program":
		return startProgram(o.Text)
	case "size":
		return plugins.Fail(fmt.Errorf("%d bytes", len(task.Data)))
	}
	return plugins.Fail(fmt.Errorf("cannot %q", o.Do))
}

// startProgram leaves a program running and its process id in a file.
func startProgram(file string) error {
	program := exec.Command("/bin/sleep", "600")
	if err := program.Start(); err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Append(nil, program.Process.Pid), 0o600)
}
