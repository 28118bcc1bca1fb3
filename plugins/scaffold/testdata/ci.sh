#!/bin/sh
# What CI runs. It needs Go, gantry and MariaDB, and no Phorge: what PHP does is
# in cases/golden, where `gantry contract record` put it.
set -eu
cd "$(dirname "$0")"
go vet ./...
go test ./...
go build -trimpath -o handler-acme .
mkdir -p build
gantry contract verify --cases cases --plugins plugins.yaml --junit build/report.xml
