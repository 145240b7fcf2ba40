// Package planner turns the request for a run into what the run gets: a frozen
// catalogue that obeys policy, the surface that the model sees, and the decision
// between them with all its conditions. It brings catalogues up to date while runs are
// open, ends runs that expire, and puts the policy layers of the configuration file where every service reads them.
//
// It discovers no source, searches nothing and calls nothing: it reads the listings that the executor stored.
package planner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Service plans runs. Replicas share the work.
type Service struct {
	bus      *bus.Bus
	cfg      Config
	log      *slog.Logger
	state    *live.State
	library  *catalogue.Library
	runs     *store.Table[contracts.Run, *contracts.Run]
	policies *store.Table[contracts.PolicyRecord, *contracts.PolicyRecord]

	views   *lru.Cache[string, *view] // by tenant, policy and listing
	counts  *lru.Cache[string, int]   // tokens by tenant and surface
	cpu     chan struct{}             // slots for work that computes
	locks   locks                     // of runs that are being revised
	waits   tally                     // runs that wait for sources, by tenant
	asking  tally                     // sources that the executor is being asked for
	stale   chan staleness
	sandbox *sandbox
	stored  chan struct{} // closed once the file's policy layers are stored
}

const (
	keptViews  = 1024
	keptCounts = 4096
	// workers is the number of runs handled at once: many, because most of those that take time wait for a source.
	workers = 256
	// tries is the number of failures after which a run that cannot be planned fails.
	tries = 8
)

// New returns a Service on the bus that does nothing until Run. A nil log is
// silent. The error is a [contracts.Error] with [contracts.CodeInvalid] for a cfg that cannot be served.
func New(ctx context.Context, b *bus.Bus, cfg Config, log *slog.Logger) (*Service, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Service{bus: b, cfg: cfg, log: log, cpu: make(chan struct{}, runtime.GOMAXPROCS(0)), stale: make(chan staleness, mostStale), sandbox: newSandbox(b), stored: make(chan struct{})}
	s.views, _ = lru.New[string, *view](keptViews)
	s.counts, _ = lru.New[string, int](keptCounts)
	var err error
	if s.state, err = live.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.library, err = catalogue.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.runs, err = store.OpenTable[contracts.Run](ctx, b, contracts.BucketRuns); err != nil {
		return nil, err
	}
	s.policies, err = store.OpenTable[contracts.PolicyRecord](ctx, b, contracts.BucketPolicies)
	return s, err
}

// Keeps returns the streams and buckets whose settings are this service's to change, see [bus.Config].
func Keeps() []string {
	return []string{contracts.StreamTimers, contracts.BucketRuns, contracts.BucketPolicies, contracts.StoreCatalogues}
}

// Name returns "planner".
func (s *Service) Name() string { return "planner" }

// Ready returns nil once the policy layers of the file are stored and the sources and policies of all tenants are known.
func (s *Service) Ready(ctx context.Context) error {
	select {
	case <-s.stored:
		return s.state.Loaded(ctx)
	case <-ctx.Done():
		return contracts.Errorf(contracts.CodeUnavailable, "the policy layers of the file are not stored yet")
	}
}

// Run plans until ctx is done, then finishes what it took, but for runs that wait for a source, which another
// replica takes over. It returns nil on a clean stop. Call it once.
func (s *Service) Run(ctx context.Context) error {
	s.sandbox.begin()
	// The file's layers are stored before anything is read, so that no run is planned without them.
	err := bus.Retry(ctx, func(err error) { s.log.Warn("policies are not stored yet", "err", err) }, s.storePolicies)
	if err == nil {
		close(s.stored)
		err = run.Group(ctx, s.state.Run, s.serve)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped while it was starting
	}
	return err
}

func (s *Service) serve(ctx context.Context) error {
	if err := s.state.Loaded(ctx); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return run.Group(ctx,
		func(ctx context.Context) error {
			return s.bus.Consume(ctx, bus.Consumer{
				Stream: contracts.StreamEvents, Durable: "planner", Filters: []string{contracts.AllRunRequested}, Workers: workers, MaxTries: tries,
			}, s.requested(ctx))
		},
		func(ctx context.Context) error {
			return s.bus.Consume(ctx, bus.Consumer{
				Stream: contracts.StreamTimers, Durable: "planner-expiry", Filters: []string{contracts.AllRunExpiriesDue}, Unbounded: true,
			}, s.expire)
		},
		func(ctx context.Context) error {
			return s.bus.Serve(ctx, "planner", bus.Answers(contracts.VerbRevise, s.revise))
		},
		s.refreshes,
		func(ctx context.Context) error { return s.runs.Sweep(ctx, "planner-sweep", s.overdue) },
	)
}

// requested returns the handler of runs that are asked for. It stops waiting for sources when stop is done.
func (s *Service) requested(stop context.Context) bus.Handler {
	return bus.EventHandler(func(ctx context.Context, sub contracts.Subject, _ contracts.Event, m bus.Message) error {
		key := contracts.RunKey(sub.Tenant, sub.Run)
		err := s.plan(ctx, key, stop)
		later, waits := errors.AsType[putOff](err)
		switch {
		case waits:
			return bus.Later(time.Duration(later))
		case err != nil && m.Delivered >= tries:
			return s.fail(ctx, key, err)
		}
		return err
	})
}

// overdueAfter is how long a run may stand requested before the sweeper has it planned, beyond what it waits for sources.
const overdueAfter = 5 * time.Second

// overdue plans a run whose request was lost.
func (s *Service) overdue(ctx context.Context, key contracts.Key, r *contracts.Run) (time.Duration, error) {
	if r.State != contracts.RunStateRequested {
		return 0, nil
	}
	if left := time.Until(r.Created.Add(longestWait(r) + overdueAfter)); left > 0 {
		return left, nil
	}
	return 0, s.plan(ctx, key, nil)
}

// compute runs f when a processor is free for it, so that many small requests do not slow each other down.
func (s *Service) compute(ctx context.Context, f func() error) error {
	select {
	case s.cpu <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.cpu }()
	return f()
}
