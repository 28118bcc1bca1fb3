package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/phorge-gantry/gantry/plugins/pluginpb"
)

// server serves the handlers to the one host that started the process.
type server struct {
	pluginpb.UnimplementedHandlersServer
	handlers map[string]Handler
	attached func() // called when the host opens its stream
	left     func() // called when that stream has ended

	site    atomic.Pointer[Site] // nil until the host tells of it
	running sync.WaitGroup       // tasks
}

// Describe answers what the handlers are.
func (s *server) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.Description, error) {
	d := &pluginpb.Description{SdkVersion: sdkVersion()}
	for _, h := range s.handlers {
		d.Handlers = append(d.Handlers, &pluginpb.Handler{TaskClass: h.Class, Concurrency: int64(h.Concurrency)})
		applications, options := h.Needs()
		d.Applications = append(d.Applications, applications...)
		d.Options = append(d.Options, options...)
	}
	d.Applications, d.Options = distinct(d.Applications), distinct(d.Options)
	return d, nil
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// UseSite takes the site that the tasks reach.
func (s *server) UseSite(_ context.Context, told *pluginpb.Site) (*pluginpb.SiteInUse, error) {
	site := &Site{Namespace: told.GetNamespace(), DSNs: told.GetDsns(), Options: map[string]json.RawMessage{}}
	for key, value := range told.GetOptions() {
		site.Options[key] = value
	}
	if !s.site.CompareAndSwap(nil, site) {
		return nil, errors.New("the site was told already")
	}
	return &pluginpb.SiteInUse{}, nil
}

// Run executes what comes until the stream ends, and then lets the process
// end: without its host, nothing it does can be settled.
func (s *server) Run(stream grpc.BidiStreamingServer[pluginpb.Dispatch, pluginpb.Report]) error {
	s.attached()
	defer s.left()
	r := &runs{server: s, outbox: pluginpb.NewOutbox[report](), runs: map[uint64]*run{}}
	go r.send(stream)
	for {
		dispatch, err := stream.Recv()
		if err != nil {
			return nil // the host closed the stream, or is gone
		}
		for _, task := range dispatch.GetTasks() {
			r.start(stream.Context(), task)
		}
		r.control(dispatch)
	}
}

// sdkModule is the module that this package is part of.
const sdkModule = "github.com/phorge-gantry/gantry"

// sdkVersion answers the version of this module that the binary was built
// with, as its build information has it.
func sdkVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == sdkModule {
			return module.Version
		}
	}
	return "unknown"
}
