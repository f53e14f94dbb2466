# reeve: `make help` lists what can be asked for. Everything works from a fresh
# clone on a Debian machine with Go: what the tests need comes from the
# distribution's packages or goes into ignored folders.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO      ?= go
CACHE   := .cache
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# No cgo, no paths of the building machine, no build time: the same source gives
# the same binary.
export CGO_ENABLED := 0
BUILDFLAGS := -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION)'

comma := ,
GOFILES = $$(git ls-files -co --exclude-standard '*.go')
GOLANGCI := $(CACHE)/golangci-lint
CHSERVER := tests/chserver/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so
FUZZTIME ?= 20s
TESTTIMEOUT ?= 25m

# A test that skips for want of one of these fails; `make test REQUIRE=` lets it skip.
REQUIRE ?= clickhouse,gcc,git,make,nats-server,node,npm,pty,python3,strace$(if $(filter 0,$(shell id -u)),$(comma)root)
export REQUIRE

.PHONY: help
help: ## list what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/reeve
	$(GO) build $(BUILDFLAGS) -o bin/reeve ./cmd/reeve

.PHONY: run
run: build ## supervise an untrusted script, then replay what it did
	@tests/scripts/demo bin/reeve

.PHONY: generate
generate: ## make the BPF objects and their bindings again (needs clang-19, libbpf-dev)
	@command -v clang-19 >/dev/null || { echo "clang-19 is missing: apt-get install clang-19 llvm-19 libbpf-dev"; exit 1; }
	$(GO) generate ./bpf/...

.PHONY: check-generate
check-generate: ## see that what is committed is what generate makes
	@if command -v clang-19 >/dev/null; then \
		$(MAKE) --no-print-directory generate && git diff --exit-code --stat -- bpf; \
	else echo "check-generate: not checked, clang-19 is not installed"; fi

.PHONY: fmt
fmt: ## format the Go code
	gofmt -w $(GOFILES)

.PHONY: lint
lint: $(GOLANGCI) ## look for mistakes: gofmt, vet, golangci-lint
	@out=$$(gofmt -l $(GOFILES)); [ -z "$$out" ] || { echo "not formatted (make fmt):"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GOLANGCI) run

$(GOLANGCI):
	GOBIN=$(CURDIR)/$(CACHE) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: deps
deps: ## install what the tests run: packages, and a ClickHouse below tests/chserver
	@tests/scripts/deps
	@$(MAKE) --no-print-directory $(CHSERVER)

$(CHSERVER): tests/chserver/package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund --prefix tests/chserver
	@touch $@

.PHONY: test
test: deps ## run every test that this user can run; a skip is an error
	@[ "$$(id -u)" = 0 ] || echo "make test: not root: the root tier (BPF witness, cgroups, --user, capabilities) is skipped; 'sudo make test' runs it"
	$(GO) vet ./...
	$(GO) test -timeout $(TESTTIMEOUT) $$($(GO) list ./... | grep -v '/tests/')
	$(GO) test -p 1 -timeout $(TESTTIMEOUT) ./tests/...

.PHONY: test-root
test-root: ## run the tests of the kernel's side and the black box tests as root
	@[ "$$(id -u)" = 0 ] || { echo "make test-root: must be root: sudo make test-root"; exit 1; }
	$(GO) test -timeout $(TESTTIMEOUT) ./tracer/... ./tests/...

.PHONY: test-services
test-services: deps ## run the tests that need NATS or ClickHouse
	$(GO) test -timeout $(TESTTIMEOUT) ./pipeline/... ./storage/...

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME (20s) each
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir </dev/null; \
		done; done

.PHONY: bench
bench: build ## measure native, reeve and strace in turns, and print the ratios
	$(GO) run ./tests/bench

.PHONY: ci
ci: ## what continuous integration runs
	.ci/run
