#!/bin/sh
# What CI runs. It needs Go, gantry and MariaDB, and no Phorge: what PHP does is
# in cases/golden, where `gantry contract record` put it. The binary, its pinned
# manifest and the report for CI are in build/.
set -eu
cd "$(dirname "$0")"
go vet ./...
go test ./...
mkdir -p build
go build -trimpath -o build/handler-acme .
cp plugins.yaml build/
gantry plugins pin --plugins build/plugins.yaml
gantry contract verify --cases cases --plugins build/plugins.yaml --junit build/report.xml
