// Package pluginpb is the protocol between Gantry and a handler binary: the
// messages and the service of handlers.proto, how they map to the vocabulary
// of package tasks, and what both sides agree on before the first call.
//
// The files ending in .pb.go are generated; `go generate ./plugins/pluginpb`
// writes them anew after a change of handlers.proto.
package pluginpb

//go:generate ./generate.sh
