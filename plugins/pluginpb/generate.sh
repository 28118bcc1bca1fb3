#!/bin/sh
# Regenerates the Go code of handlers.proto. Needs protoc in the PATH; the two
# Go plugins of protoc are built at the versions named here. It runs in the
# root of the repository, because protobuf registers a file by the path given
# to protoc and a bare "handlers.proto" could collide with a handler author's.
set -eu
cd "$(dirname "$0")/../.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH=$bin:$PATH protoc --go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative \
	plugins/pluginpb/handlers.proto
