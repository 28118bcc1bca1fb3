package pluginpb

import (
	"context"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Service is both sides of the one plugin that a handler binary serves, in the
// form that go-plugin wants.
type Service struct {
	goplugin.NetRPCUnsupportedPlugin
	Handlers HandlersServer // nil on the side of the host
}

// GRPCServer registers the server.
func (s Service) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	RegisterHandlersServer(g, s.Handlers)
	return nil
}

// GRPCClient answers a HandlersClient.
func (s Service) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewHandlersClient(conn), nil
}
