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
BUILDFLAGS := -tags=urfave_cli_no_docs -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(VERSION)'

# A policy that nobody who runs the binary can widen, built into it: none, or
# `make build ENVELOPE=file`. It takes the place of an empty file of the source.
ENVELOPE :=
BIN      := bin/reeve

comma := ,
GOFILES = $$(git ls-files -co --exclude-standard '*.go')
GOLANGCI := $(CACHE)/golangci-lint
CHSERVER := tests/chserver/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so
FUZZTIME ?= 20s
TESTTIMEOUT ?= 25m

# A test that skips for want of one of these fails. So do, at the end, all that skip
# for any other reason than those in tests/skips/expected.go; `make test REQUIRE=` lets
# them. With vm among these other kernels are tried, too, in emulated machines.
REQUIRE ?= clickhouse,fish,gcc,git,less,make,nats-server,node,npm,pty,python3,strace,tmux,vim,vm,zsh$(if $(filter 0,$(shell id -u)),$(comma)root)
export REQUIRE
SKIPS = $(GO) run ./tests/skips $(if $(strip $(REQUIRE)),,-any)

.PHONY: help
help: ## list what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/reeve (ENVELOPE=file builds a policy in that nobody can widen)
ifeq ($(strip $(ENVELOPE)),)
	$(GO) build $(BUILDFLAGS) -o $(BIN) ./cmd/reeve
else
	@# What is checked is what is built in, and it is checked before: on the building
	@# machine, whichever the binary is for.
	@mkdir -p $(CACHE)
	@dir=$$(mktemp -d $(CURDIR)/$(CACHE)/envelope.XXXXXX); trap 'rm -rf "$$dir"' EXIT; \
	cp -- '$(ENVELOPE)' "$$dir/envelope.toml"; \
	echo "checking the envelope $(ENVELOPE)"; \
	GOOS= GOARCH= $(GO) build $(BUILDFLAGS) -o "$$dir/reeve" ./cmd/reeve; \
	(cd "$$dir" && ./reeve policy check --envelope envelope.toml) >"$$dir/findings" || { \
		echo "make build: the envelope $(ENVELOPE) is not right: nothing was built" >&2; exit 1; }; \
	sed '/^plan$$/,$$d' "$$dir/findings"; \
	[ -n "$$(tr -d '[:space:]' <"$$dir/envelope.toml")" ] || { echo "make build: the envelope $(ENVELOPE) is empty: nothing was built" >&2; exit 1; }; \
	printf '{"Replace":{"%s":"%s"}}' '$(CURDIR)/cmd/reeve/envelope.toml' "$$dir/envelope.toml" >"$$dir/overlay.json"; \
	$(GO) build $(BUILDFLAGS) -overlay "$$dir/overlay.json" -o $(BIN) ./cmd/reeve
endif

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
	$(GO) test -json -timeout $(TESTTIMEOUT) $$($(GO) list ./... | grep -v '/tests/') | $(SKIPS)
	$(GO) test -json -p 1 -timeout $(TESTTIMEOUT) ./tests/... | $(SKIPS)
	@$(if $(filter vm,$(subst $(comma), ,$(REQUIRE))),$(MAKE) --no-print-directory test-vm,echo "make test: other kernels are left out: make test-vm tries them")

.PHONY: test-root
test-root: ## run the tests of the kernel's side and the black box tests as root
	@[ "$$(id -u)" = 0 ] || { echo "make test-root: must be root: sudo make test-root"; exit 1; }
	$(GO) test -json -timeout $(TESTTIMEOUT) ./tracer/... ./tests/... | $(SKIPS)

# What another kernel can change. On the first series, where engine lsm works: these
# packages, all in one machine, and of the escapes these under that engine, in parts of
# about the same length. On the others one machine: the packages without that engine,
# that a session works, and that it does without a kernel module which may not be there.
# The long parts begin first, so that the machines end together.
# test-vm-all runs all of them, and REEVE_LONG=1 every row instead of one of each
# technique. VM_ENGINE=unotify is the other engine.
VM_KERNELS  ?= 6.12 6.1
VM_ENGINE   ?= lsm
VM_PACKAGES ?= ./bpf ./tracer ./tracer/landlock ./tracer/lsm ./tracer/probe ./tracer/proc ./tracer/seccomp ./tracer/witness
VM_ROWS     ?= Test(Hooks|Automatic|Peers|Races|ExecRaces|Programs|Attributes|Names|Daemon|SupervisorDies|KilledRecords|BothKilled|Received|CodeAsked|NewNames|Unix)$$ \
	Test(ForeignEntry|Ring|Openat2|UnknownCalls|Reopen|MemFile|Mounts|Surfaces|SecretByAnyName|Argv|Internet|InternetRaces|Unnoticed|BulkUnnoticed|OrdinaryGit|NestedHoldsDescendants|NestedUnderHooks)$$
VM_OTHER    ?= Test(UnknownCalls|Programs|Listen)$$
VM_LIMIT    ?= 15m
VM_JOBS     ?= 2 # machines at a time
VM_PARTS    ?= 8 # of test-vm-all

VM_FIRST = $(firstword $(VM_KERNELS))
vm       = bin/vm -limit $(VM_LIMIT)
vm-parts = $(addprefix vm-rows-,$(shell seq $(words $(VM_ROWS))))

.PHONY: test-vm
test-vm: ## run what depends on the kernel under Linux 6.12 and 6.1, emulated by QEMU
	@tests/scripts/deps
	$(GO) build -o bin/vm ./tests/vm
	@served=; for kernel in $(VM_KERNELS); do \
		status=0; bin/vm -fetch -kernel $$kernel || status=$$?; \
		if [ $$status = 3 ] && [ $$kernel != $(VM_FIRST) ]; then \
			echo "test-vm: not checked under Linux $$kernel, which the package sources do not have"; continue; fi; \
		[ $$status = 0 ] || exit $$status; \
		[ $$kernel = $(VM_FIRST) ] || served="$$served vm-other-$$kernel"; \
	done; \
	$(MAKE) --no-print-directory --output-sync=target -j$(VM_JOBS) $(wordlist 1,2,$(vm-parts)) vm-packages $(vm-parts) $$served

.PHONY: $(vm-parts)
$(vm-parts): vm-rows-%:
	@echo "test-vm: Linux $(VM_FIRST), engine $(VM_ENGINE), $(word $*,$(VM_ROWS))"
	@REQUIRE=root,$(VM_ENGINE) REEVE_ENGINE=$(VM_ENGINE) $(vm) -kernel $(VM_FIRST) -kit -package './tests/escapes=$(word $*,$(VM_ROWS))' $(VM_SHOW)

# All tests of the escapes, dealt out to as many machines, each with what is skipped
# there and why. A part that fails does not keep the others from being run.
.PHONY: test-vm-all
test-vm-all: ## run all of tests/escapes under engine lsm in VM_PARTS machines (half an hour)
	@tests/scripts/deps
	$(GO) build -o bin/vm ./tests/vm
	@bin/vm -fetch -kernel $(VM_FIRST)
	@rows=$$($(GO) test -list '^Test' ./tests/escapes | grep '^Test' | awk '{ at = NR % $(VM_PARTS); part[at] = part[at] "|" $$1 } \
		END { for (at in part) print "^(" substr(part[at], 2) ")$$$$" }'); \
	$(MAKE) --no-print-directory --output-sync=target -k -j$(VM_JOBS) VM_ROWS="$$rows" VM_SHOW="-- -test.v | grep -v -e '^=== ' -e '--- PASS'" \
		$(addprefix vm-rows-,$(shell seq $(VM_PARTS)))

# And the policy's own judgement, explanation and hooks: the rest of its tests needs no
# kernel.
.PHONY: vm-packages
vm-packages:
	@echo "test-vm: Linux $(VM_FIRST), packages"
	@REQUIRE=root,lsm $(vm) -kernel $(VM_FIRST) $(addprefix -package ,$(VM_PACKAGES)) -package './supervisor/policy=^TestHooksAgree$$'

vm-other-%:
	@echo "test-vm: Linux $*, engine unotify"
	@REQUIRE=root REEVE_ENGINE=unotify $(vm) -kernel $* -kit -without tcp_diag \
		$(addprefix -package ,$(filter-out ./tracer/lsm,$(VM_PACKAGES))) -package './tests/escapes=$(VM_OTHER)'

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
