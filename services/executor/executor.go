// Package executor owns the sources and executes calls. It discovers the tools
// of every configured source and publishes their listings, and it takes calls
// from requested to finished: resolution, policy, validation, execution and output limits, so
// that each accepted call ends in one outcome and none that may change something runs twice.
//
// It plans no runs, searches nothing, and knows no caller: what it needs to know of a call is in the call's record.
package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/core/approvals"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/hooks"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says which sources there are and how calls are executed. The zero value of each field is its default.
type Config struct {
	// Sources are the MCP servers of each tenant, and OpenAPIs the services that it has documents of. Every tenant named here has the built-in
	// tools besides. What of the bucket of sources is not among these is removed from it, but for
	// what was admitted.
	Sources  map[contracts.TenantID][]config.Source
	OpenAPIs map[contracts.TenantID][]config.OpenAPISource
	// BusPlugins are the plugins on the bus that each tenant is served by; others are not heard.
	BusPlugins map[contracts.TenantID][]config.BusSource
	// Hooks are asked before the calls of a tenant and told after them, in this order.
	Hooks map[contracts.TenantID][]config.HookSource
	// Admission is what becomes of changed tools of a tenant's sources; "" means [contracts.AdmissionWarn].
	Admission map[contracts.TenantID]contracts.AdmissionMode
	// Network says which addresses, besides public ones and those in the configuration of a source, its server may lead to. A service of
	// OpenAPIs has its own.
	Network config.Network
	// Environ is the environment of the process, as [os.Environ] gives it: references of sources are looked up in it,
	// and processes inherit its harmless part (PATH, HOME, …). Nil means an empty one.
	Environ []string
	// CallTimeout ends calls whose record has no deadline; 0 means 60 s.
	CallTimeout time.Duration
	Workers     int           // calls executed at once; 0 means 128
	TenantCalls int           // of these, calls of one tenant; 0 means 64
	Lease       time.Duration // how long an executor that is not heard of keeps a call; 0 means 30 s
	Idle        time.Duration // after which a session's unused connection is closed; 0 means 10 min
	Fresh       time.Duration // age at which a listing is refreshed; 0 means [contracts.ListingFresh]
}

// FromConfig returns the Config that the product's file and the environment, as [os.Environ] gives it, ask for.
func FromConfig(c *config.Config, environ []string) Config {
	out := Config{
		Sources: map[contracts.TenantID][]config.Source{}, OpenAPIs: map[contracts.TenantID][]config.OpenAPISource{},
		BusPlugins: map[contracts.TenantID][]config.BusSource{}, Hooks: map[contracts.TenantID][]config.HookSource{},
		Admission: map[contracts.TenantID]contracts.AdmissionMode{}, Network: c.Network, Environ: environ,
	}
	for _, t := range c.TenantIDs() {
		out.Sources[t], out.OpenAPIs[t], out.BusPlugins[t] = c.Sources(t), c.OpenAPIs(t), c.BusPlugins(t)
		out.Hooks[t] = c.HooksOf(t)
		tenant, _ := c.Tenant(t)
		out.Admission[t] = contracts.AdmissionMode(tenant.Admission)
	}
	return out
}

// tenants returns every tenant that is named, once.
func (c Config) tenants() []contracts.TenantID {
	all := slices.Concat(slices.Collect(maps.Keys(c.Sources)), slices.Collect(maps.Keys(c.OpenAPIs)), slices.Collect(maps.Keys(c.BusPlugins)))
	slices.Sort(all)
	return slices.Compact(all)
}

func (c Config) withDefaults() Config {
	set(&c.CallTimeout, time.Minute)
	set(&c.Workers, 128)
	set(&c.TenantCalls, 64)
	set(&c.Lease, 30*time.Second)
	set(&c.Idle, 10*time.Minute)
	set(&c.Fresh, contracts.ListingFresh)
	return c
}

func set[V int | time.Duration](v *V, fallback V) {
	if *v <= 0 {
		*v = fallback
	}
}

// resolver looks references of sources up.
func (c Config) resolver() config.Resolver { return config.Environ(c.Environ) }

// How many compiled schemas and policies a Service keeps.
const (
	keptSchemas  = 500
	keptPolicies = 500
)

// A Service is one executor. Any number of them share the work on one bus. Make one with [New].
type Service struct {
	cfg       Config
	id        string // names this executor in the calls it owns
	bus       *bus.Bus
	log       *slog.Logger
	calls     *store.Table[contracts.Call, *contracts.Call]
	sources   *store.Table[contracts.SourceRecord, *contracts.SourceRecord]
	seats     *store.Table[contracts.Seat, *contracts.Seat]
	bucket    jetstream.KeyValue // of sources, for what a table cannot do
	caller    *calls.Caller
	library   *catalogue.Library
	state     *live.State
	schemas   *schema.Cache
	policies  *lru.Cache[string, *policy.Policy] // of plans, by tenant and hash
	outputs   *outputs.Shelf
	approvals *approvals.Desk
	hooks     map[contracts.TenantID]*hooks.Set // of tenants that have some

	configured map[contracts.Key]*source
	pool       *pool
	listings   *discoverer
	running    *running
}

// New prepares an executor; it starts nothing. A nil log is silent.
func New(ctx context.Context, b *bus.Bus, cfg Config, log *slog.Logger) (*Service, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	s := &Service{cfg: cfg, id: newID(), bus: b, log: log, configured: configure(cfg, b.Conn), running: newRunning(cfg.TenantCalls)}
	var err error
	if s.calls, err = store.OpenTable[contracts.Call](ctx, b, contracts.BucketCalls); err != nil {
		return nil, err
	}
	if s.sources, err = store.OpenTable[contracts.SourceRecord](ctx, b, contracts.BucketSources); err != nil {
		return nil, err
	}
	if s.seats, err = store.OpenTable[contracts.Seat](ctx, b, contracts.BucketSeats); err != nil {
		return nil, err
	}
	if s.bucket, err = b.JS.KeyValue(ctx, contracts.BucketSources); err != nil {
		return nil, err
	}
	if s.caller, err = calls.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.library, err = catalogue.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.outputs, err = outputs.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.approvals, err = approvals.Open(ctx, b); err != nil {
		return nil, err
	}
	if s.state, err = live.Open(ctx, b); err != nil {
		return nil, err
	}
	if err = s.openHooks(); err != nil {
		return nil, err
	}
	s.schemas = schema.NewCache(keptSchemas)
	s.policies, _ = lru.New[string, *policy.Policy](keptPolicies)
	s.pool = newPool(cfg.Idle, log)
	s.listings = newDiscoverer(s)
	return s, nil
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return "exec_" + hex.EncodeToString(b[:])
}

// Keeps returns the streams and buckets whose settings are this service's to change, see [bus.Config].
func Keeps() []string {
	return []string{
		contracts.StreamDispatch, contracts.BucketCalls, contracts.BucketSources, contracts.BucketSeats, contracts.BucketApprovals, contracts.BucketGrants,
		contracts.StoreListings, contracts.StorePayloads,
	}
}

// Name returns "executor".
func (s *Service) Name() string { return "executor" }

// Ready returns nil once the sources and policies of all tenants are known. A source that cannot be reached is no reason not to be ready.
func (s *Service) Ready(ctx context.Context) error { return s.state.Loaded(ctx) }

// stopGrace is how long calls that run when the service is stopped have to end by themselves.
const stopGrace = 5 * time.Second

// Run works until ctx is done. Then it takes no more calls, gives those that run 5 seconds, and ends all connections.
func (s *Service) Run(ctx context.Context) error {
	s.pool.open()
	defer s.pool.close()
	defer s.closeHooks()
	var working sync.WaitGroup // those through whom calls come
	working.Add(2)
	idle := make(chan struct{}) // closed once no call runs any more
	go func() { working.Wait(); close(idle) }()
	err := run.Group(ctx, s.state.Run, s.listings.run, s.serve, s.listen, s.hearPlugins, s.hear, s.sweep,
		func(ctx context.Context) error {
			defer working.Done()
			return s.dispatch(ctx)
		},
		func(ctx context.Context) error {
			defer working.Done()
			return s.receive(ctx)
		},
		func(ctx context.Context) error {
			<-ctx.Done()
			select {
			case <-idle:
			case <-time.After(stopGrace):
				s.running.stopAll()
			}
			return nil
		},
		func(ctx context.Context) error { return s.sources.Sweep(ctx, "executor-sources", nil) },
		func(ctx context.Context) error { return s.approvals.Sweep(ctx, "executor-approvals") })
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // it was stopped while it began
		return nil
	}
	return err
}

// serve answers questions.
func (s *Service) serve(ctx context.Context) error {
	return s.bus.Serve(ctx, s.Name(), bus.Answers(contracts.VerbDiscover, s.listings.answer), bus.Answers(contracts.VerbAdmit, s.listings.admit))
}
