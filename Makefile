# Everything that is done with this repository. `make` alone lists it.
# It needs Go, a C compiler (for the race detector), Node and npm.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The folders of the modules in go.work.
MODULES = $(shell go list -m -f '{{.Dir}}')
# A cached result would hide a change outside of a test's own module; TESTFLAGS= allows it.
TESTFLAGS = -count=1
FUZZTIME = 10s

# The JavaScript engine of code mode. Without it everything builds, and code mode is not available.
engine := services/sandbox/engine/built/manifest.json
# The services, each with a main of its own.
SERVICES = planner indexer executor sandbox telemetry gateway
npm := examples/npm/node_modules/.package-lock.json

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(engine) ## build bin/toolcrib
	CGO_ENABLED=0 go build -trimpath -o bin/toolcrib ./cmd/toolcrib

.PHONY: demo
demo: build npm ## do the main job on real MCP servers, in a temporary folder
	bin/toolcrib demo

.PHONY: build-services
build-services: $(engine) ## build each service as a binary of its own, and the NATS server, in bin/
	@for s in $(SERVICES); do echo "build bin/services/$$s"; (cd services/$$s && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(CURDIR)/bin/services/ ./cmd/$$s); done
	cd deploy && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(CURDIR)/bin/ github.com/nats-io/nats-server/v2 ./cmd/demo-services ./cmd/demo-compose

.PHONY: demo-services
demo-services: build build-services npm ## do the demo with every service as a process of its own, and kill some
	bin/demo-services

.PHONY: demo-compose
demo-compose: build build-services ## do the demo against the compose file; installs Docker and starts an engine where there is none
	cp /etc/ssl/certs/ca-certificates.crt bin/
	bin/demo-compose -install

.PHONY: images
images: build-services ## make the images of NATS and the services out of the binaries
	cp /etc/ssl/certs/ca-certificates.crt bin/
	DOCKER_BUILDKIT=1 docker build -f deploy/nats/Dockerfile -t toolcrib/nats:dev .
	for s in $(SERVICES); do DOCKER_BUILDKIT=1 docker build -f deploy/Dockerfile --build-arg SERVICE=$$s -t toolcrib/$$s:dev .; done

.PHONY: bench-services
bench-services: build build-services ## measure calls and bodies with 1, 2 and 4 executors and sandboxes
	bin/demo-services -throughput

.PHONY: test
test: npm engine bin/testsum ## run all tests with the race detector
	go test -race -timeout 8m $(TESTFLAGS) -json work | bin/testsum

.PHONY: policies
policies: engine ## compare what 1,000 random policies show with worlds in which the hidden tools never existed
	cd cmd/toolcrib && go test -count=1 -timeout 60m -run '^TestHiddenToolsNeverExisted$$' -policies 1000 .

# How often a call is killed at each step of its life.
ROUNDS = 20

.PHONY: crash
crash: engine ## kill executors at every step of a call, and the one process, ROUNDS times each, and print what came of the calls
	cd services/executor && go test -count=1 -timeout 4h -v -run '^TestCrashMatrix$$' . -rounds $(ROUNDS)
	cd cmd/toolcrib && go test -count=1 -timeout 2h -v -run '^TestTheProcessIsKilled$$' . -rounds $(ROUNDS) | grep -v level=

.PHONY: lint
lint: bin/staticcheck ## gofmt, vet and staticcheck
	@files=$$(gofmt -l $(MODULES)); if [ -n "$$files" ]; then echo "gofmt -w is needed for:"; echo "$$files"; exit 1; fi
	go vet work
	@for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && $(CURDIR)/bin/staticcheck ./...); done

.PHONY: check
check: ## check that each module stands alone: tidy, build and vet without go.work
	@for m in $(MODULES); do echo "check $$m"; (cd $$m && export GOWORK=off && go mod tidy -diff && go build -o /dev/null ./... && go vet ./...); done

.PHONY: generate
generate: ## write what docs/ takes from the source
	cd pkg/contracts && go run ./gen . ../../docs
	cd cmd/toolcrib && go test -count=1 -run '^TestOpenAPI$$' . -update

.PHONY: tidy
tidy: ## bring all modules to the same versions of what they require
	go work sync
	@for m in $(MODULES) $(CURDIR)/tools; do echo "tidy $$m"; (cd $$m && GOWORK=off go mod tidy); done

.PHONY: bench
bench: ## run all benchmarks
	go test -run '^$$' -bench . -benchmem work

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@grep -rHoE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]+' $(MODULES) | while IFS=: read -r file name; do \
		name=$${name#func }; echo "$$name in $$(dirname $$file)"; \
		(cd $$(dirname $$file) && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) .) </dev/null; \
	done

.PHONY: npm
npm: $(npm) ## install the public MCP servers and clients of the demo and the tests

$(npm): examples/npm/package.json examples/npm/package-lock.json examples/npm/.npmrc
	cd examples/npm && npm ci
	@touch $@

.PHONY: engine
engine: $(engine) ## make the JavaScript engine of code mode from its npm packages

# The sources that end up in the engine, tests aside.
$(engine): $(filter-out %_test.go,$(shell find services/sandbox/engine -type f -not -path '*/node_modules/*' -not -path '*/built/*' -not -path '*/testdata/*'))
	cd services/sandbox && go run ./engine/generate
	@touch $@

.PHONY: clean
clean: ## remove what was built and installed
	rm -rf bin dist examples/npm/node_modules services/sandbox/engine/npm/node_modules
	find services/sandbox/engine/built -type f -not -name README.md -delete

bin/staticcheck: tools/go.mod tools/go.sum
	cd tools && GOWORK=off GOBIN=$(CURDIR)/bin go install tool
	@touch $@

bin/testsum: $(wildcard internal/house/testsum/*.go)
	go build -o $@ ./internal/house/testsum
