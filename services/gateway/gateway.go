// Package gateway is the front door of Toolcrib: the HTTP API with its event stream, and
// MCP over Streamable HTTP, where a session is a run. It authenticates each request,
// fixes its tenant by the credential, and turns it into records and questions on the bus.
//
// It plans no run, searches no catalogue and reaches no tool: planner, indexer and executor do.
// It holds no state that a restart would miss, but for the sessions of MCP, whose runs end with them.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// stopWithin is how long requests may take to end once the service is told to stop.
const stopWithin = 10 * time.Second

// sessionsWithin is how much of it MCP sessions have for the calls on their way.
const sessionsWithin = 7 * time.Second

// A Service is a running front door. Make one with [New].
type Service struct {
	bus      *bus.Bus
	log      *slog.Logger
	live     *live.State
	listener net.Listener
	server   *http.Server
	mcp      *mcpFront
	stopping context.Context // done once the service is told to stop
	stop     context.CancelFunc
}

// New opens what the service needs and listens; connections are answered from Run on. A
// nil log is silent. An address that is not a loopback one is refused where cfg has no keys.
func New(ctx context.Context, b *bus.Bus, cfg Config, log *slog.Logger) (_ *Service, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	keys, err := newKeyring(cfg, log)
	if err != nil {
		return nil, err
	}
	s := &Service{bus: b, log: log}
	s.stopping, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if s.live, err = live.Open(ctx, b); err != nil {
		return nil, fmt.Errorf("open the live state: %w", err)
	}
	runs, calls, policies, err := s.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if s.listener, err = listen(ctx, cfg); err != nil {
		return nil, err
	}
	s.mcp = newMCPFront(cfg, runs, calls, log)
	api := &api{
		bus: b, runs: runs, calls: calls, policies: policies, live: s.live, approvals: calls.approvals,
		streams: make(chan struct{}, mostStreams), quiet: heartbeat, stopping: s.stopping,
	}
	f := newFront(keys, s.listener.Addr(), log)
	api.register(f, cfg.Version)
	f.handle("/mcp", []string{scopeRuns}, s.mcp)
	f.handle("/mcp/{profile}", []string{scopeRuns}, s.mcp)
	if m := newMetadata(cfg, s.listener.Addr()); m != nil {
		f.metadata = m
		for _, path := range []string{"", "/mcp", "/mcp/{profile}"} {
			f.handle("GET "+metadataPath+path, nil, m)
		}
	}
	f.handle("GET /healthz", nil, http.HandlerFunc(alive))
	f.handle("GET /readyz", nil, http.HandlerFunc(s.ready))
	s.server = f.server(log)
	return s, nil
}

// keptSchemas is how many compiled schemas of tools are kept.
const keptSchemas = 200

// open opens the tables and stores.
func (s *Service) open(ctx context.Context, cfg Config) (*runDesk, *callDesk, *policyTable, error) {
	table, err := store.OpenTable[contracts.Run](ctx, s.bus, contracts.BucketRuns)
	if err != nil {
		return nil, nil, nil, err
	}
	callTable, err := store.OpenTable[contracts.Call](ctx, s.bus, contracts.BucketCalls)
	if err != nil {
		return nil, nil, nil, err
	}
	policies, err := store.OpenTable[contracts.PolicyRecord](ctx, s.bus, contracts.BucketPolicies)
	if err != nil {
		return nil, nil, nil, err
	}
	library, err := catalogue.Open(ctx, s.bus)
	if err != nil {
		return nil, nil, nil, err
	}
	caller, err := calls.Open(ctx, s.bus)
	if err != nil {
		return nil, nil, nil, err
	}
	shelf, err := outputs.Open(ctx, s.bus)
	if err != nil {
		return nil, nil, nil, err
	}
	desk, err := bodies.Open(ctx, s.bus)
	if err != nil {
		return nil, nil, nil, err
	}
	deciding, err := approvals.Open(ctx, s.bus)
	if err != nil {
		return nil, nil, nil, err
	}
	runs := &runDesk{bus: s.bus, table: table, calls: callTable, library: library, lifetime: cfg.RunLifetime, patience: planWithin, log: s.log}
	return runs, &callDesk{
		bus: s.bus, runs: runs, caller: caller, bodies: desk, live: s.live, outputs: shelf, approvals: deciding,
		timeouts: cfg.callTimeout, schemas: schema.NewCache(keptSchemas), repeats: newRepeats(), stopping: s.stopping, log: s.log,
	}, policies, nil
}

// Name returns "gateway".
func (s *Service) Name() string { return "gateway" }

// Addr returns the address that the service listens on.
func (s *Service) Addr() net.Addr { return s.listener.Addr() }

// Ready returns nil once the sources and policies of all tenants are known, until the service is told to stop.
func (s *Service) Ready(ctx context.Context) error {
	if s.stopping.Err() != nil {
		return contracts.Errorf(contracts.CodeUnavailable, "the service is stopping")
	}
	return s.live.Loaded(ctx)
}

// Run answers requests until ctx is done. Then it takes no new ones, ends event streams and waits, and gives
// all others 10 s to end. The runs of MCP sessions are closed. Call it once.
func (s *Service) Run(ctx context.Context) error {
	defer s.stop()
	return run.Group(ctx, s.live.Run, s.serve)
}

func (s *Service) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", s.Addr(), err)
		}
	})
	defer serving.Wait()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.stop()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	s.mcp.sessions.stop(limit, sessionsWithin)
	if s.server.Shutdown(limit) != nil {
		s.server.Close()
	}
	return err
}

func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"status":"ok"}` + "\n"))
}

// sandboxPatience bounds how long a probe waits for a sandbox to say how it is.
const sandboxPatience = 300 * time.Millisecond

// ready tells whether requests can be answered now, and what stands around bodies. A deployment without a sandbox is ready all the same.
func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := cmp.Or(s.Ready(ctx), s.bus.Healthy(ctx)); err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	asking, stop := context.WithTimeout(ctx, sandboxPatience)
	defer stop()
	box, err := bus.Ask[contracts.SandboxAnswer](asking, s.bus, contracts.LocalTenant, contracts.VerbSandbox, contracts.SandboxRequest{})
	if err != nil {
		box = contracts.SandboxAnswer{Reason: "no sandbox answers"}
	}
	w.Header().Set("Content-Type", "application/json")
	body, _ := compact(struct {
		Status  string                  `json:"status"`
		Sandbox contracts.SandboxAnswer `json:"sandbox"`
	}{"ok", box})
	w.Write(append(body, '\n'))
}
