package plugins

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
)

// Serve executes tasks for the Gantry that started this process, until it
// ends. It does not return before that; main should end with it. Nothing may
// be printed to standard output before it is called.
//
// Started by hand, it says what the binary is and exits with status 2; so it
// does, with the reason, when the handlers are not valid.
func Serve(handlers ...Handler) {
	byClass, err := register(handlers)
	if err == nil {
		err = startedByGantry(byClass)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(2)
	}
	p := newProcess(byClass)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: pluginpb.Handshake(),
		Plugins:         goplugin.PluginSet{pluginpb.ServiceName: pluginpb.Service{Handlers: p.server}},
		GRPCServer:      p.grpcServer,
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr}),
	})
	if site := p.server.site.Load(); site != nil {
		site.Close()
	}
	p.end()
}

// register indexes the handlers by class.
func register(handlers []Handler) (map[string]Handler, error) {
	if len(handlers) == 0 {
		return nil, errors.New("plugins.Serve needs at least one handler")
	}
	byClass := map[string]Handler{}
	for i, h := range handlers {
		switch {
		case h.Class == "":
			return nil, fmt.Errorf("handler %d has no Class", i+1)
		case h.Handle == nil:
			return nil, fmt.Errorf("the handler of %s has no Handle", h.Class)
		case h.Concurrency < 0:
			return nil, fmt.Errorf("the handler of %s has a Concurrency of %d; it must be 0 or more", h.Class, h.Concurrency)
		}
		if _, twice := byClass[h.Class]; twice {
			return nil, fmt.Errorf("there are two handlers of %s", h.Class)
		}
		byClass[h.Class] = h
	}
	return byClass, nil
}

func startedByGantry(byClass map[string]Handler) error {
	cookie := pluginpb.Handshake()
	if os.Getenv(cookie.MagicCookieKey) == cookie.MagicCookieValue {
		return nil
	}
	return fmt.Errorf("this program executes tasks of %s; it is started by Gantry, from plugins.yaml, not by hand",
		strings.Join(slices.Sorted(maps.Keys(byClass)), ", "))
}
