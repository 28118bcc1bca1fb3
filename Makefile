GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build test check demo live bench faults generate packages clean

build: ## build gantry and the first-party handlers into build/
	$(GO) build -o build/ ./cmd/...

demo: ## flood and drain a queue in one file, and prove what became of it
	$(GO) run ./cmd/gantry demo

test: packages check ## everything that CI runs
	$(GO) test -race -short -timeout 12m ./...
	@echo "NOT PROVEN HERE: what only a real Phorge can prove. make live does that."

check: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l $(wildcard bridge cmd contract php plugins tasks tests)); \
	  test -z "$$unformatted" || { echo "run gofmt -w on:" $$unformatted; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...

live: packages ## the tests against an installed Phorge (PHORGE_ROOT, ARCANIST_ROOT)
	$(GO) test -count=1 -v -timeout 30m ./tests/live/...

bench: packages ## one table, one run; build/bench.json
	$(GO) run ./tests/bench

faults: packages ## thirty rounds of kill -9, and five minutes with the API; build/faults.json
	$(GO) run ./tests/faults

generate: ## the gRPC protocol, with protoc
	$(GO) generate ./plugins/pluginpb

packages: ## MariaDB, PHP and a web server, from Debian's packages, when they are missing
	@./tests/packages

clean:
	rm -rf build
