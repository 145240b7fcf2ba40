package executor

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/oddserver"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(oddserver.Env) != "":
		oddserver.Main()
	case os.Getenv(executorURL) != "":
		executorMain(os.Getenv(executorURL), os.Getenv(executorConfig))
	case os.Getenv(pluginURL) != "":
		pluginMain(os.Getenv(pluginURL), os.Getenv(pluginCounter))
	}
	os.Exit(m.Run())
}

const tenant = contracts.LocalTenant

// A world is a bus with what executors need of other services: a small planner.
type world struct {
	testing.TB
	bus      *bus.Bus
	caller   *calls.Caller
	library  *catalogue.Library
	runs     *store.Table[contracts.Run, *contracts.Run]
	calls    *store.Table[contracts.Call, *contracts.Call]
	sources  *store.Table[contracts.SourceRecord, *contracts.SourceRecord]
	policies *store.Table[contracts.PolicyRecord, *contracts.PolicyRecord]
	counter  string // file in which odd servers tell what happens to them
	planning sync.Mutex
}

func newWorld(t testing.TB) *world { return worldOn(t, natstest.Open(t)) }

func worldOn(t testing.TB, b *bus.Bus) *world {
	t.Helper()
	w := &world{TB: t, bus: b, counter: filepath.Join(t.TempDir(), "counter")}
	ctx := t.Context()
	w.caller = must(calls.Open(ctx, b))
	w.library = must(catalogue.Open(ctx, b))
	w.runs = must(store.OpenTable[contracts.Run](ctx, b, contracts.BucketRuns))
	w.calls = must(store.OpenTable[contracts.Call](ctx, b, contracts.BucketCalls))
	w.sources = must(store.OpenTable[contracts.SourceRecord](ctx, b, contracts.BucketSources))
	w.policies = must(store.OpenTable[contracts.PolicyRecord](ctx, b, contracts.BucketPolicies))
	w.background(func(ctx context.Context) error {
		return b.Serve(ctx, "planner", bus.Answers(contracts.VerbRevise, func(ctx context.Context, t contracts.TenantID, q contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
			r, err := w.runs.Transition(ctx, contracts.RunKey(t, q.Run), func(r *contracts.Run) ([]contracts.Event, error) {
				w.plan(ctx, t, r)
				return nil, nil
			})
			if err != nil {
				return contracts.ReviseAnswer{}, err
			}
			return contracts.ReviseAnswer{Plan: *r.Plan}, nil
		}))
	})
	return w
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// background runs f until the test is over, or stop is called, which waits for its end.
func (w *world) background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f(ctx); err != nil {
			w.Errorf("stopped: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	w.Cleanup(stop)
	return stop
}

// plan gives a run the catalogue of now, as the planner does.
func (w *world) plan(ctx context.Context, t contracts.TenantID, r *contracts.Run) {
	w.planning.Lock()
	defer w.planning.Unlock()
	var sources []*contracts.SourceRecord
	var policies []*contracts.PolicyRecord
	var layers []contracts.PolicyLayer
	if err := w.sources.List(ctx, string(t)+".>", func(_ contracts.Key, s *contracts.SourceRecord) error {
		sources = append(sources, s)
		return nil
	}); err != nil {
		w.Error(err)
	}
	if err := w.policies.List(ctx, string(t)+".>", func(_ contracts.Key, p *contracts.PolicyRecord) error {
		policies = append(policies, p)
		layers = append(layers, p.Layers...)
		return nil
	}); err != nil {
		w.Error(err)
	}
	compiled, _ := policy.Compile(layers) // one that cannot be compiled hides nothing here: the executor has to block
	allowed := compiled.For(r.Request.Labels)
	c := &contracts.Catalogue{Withdrawn: map[contracts.ToolID]contracts.Withdrawal{}}
	seen, quarantined := map[contracts.ToolID]bool{}, map[contracts.ToolID]bool{}
	add := func(h contracts.Hash) {
		l := must(w.library.Listing(ctx, t, h))
		cl := contracts.CatalogueListing{Source: l.Source, Listing: h}
		for i := range l.Tools {
			if id := l.Tools[i].ID; !allowed.See(policy.ToolOf(&l.Tools[i], l.TrustAnnotations)).Denied() {
				cl.Visible++
				seen[id] = true
			} else {
				cl.Hidden = append(cl.Hidden, i)
				c.Withdrawn[id] = contracts.WithdrawnByPolicy
			}
		}
		for _, id := range l.Quarantined {
			quarantined[id] = true
		}
		c.Listings = append(c.Listings, cl)
	}
	slices.SortFunc(sources, func(a, b *contracts.SourceRecord) int { return strings.Compare(a.Source.String(), b.Source.String()) })
	for _, s := range sources {
		if s.State == contracts.SourceStateReady {
			add(s.Listing)
		}
	}
	if h := r.Request.ClientTools; h != "" {
		add(h)
	}
	if r.Plan == nil {
		r.Plan = &contracts.Plan{Policy: must(w.library.PutLayers(ctx, t, allowed.Layers()))}
	} else {
		before := must(w.library.Catalogue(ctx, t, r.Plan.CatalogueBlob))
		had := slices.Collect(maps.Keys(before.Withdrawn))
		for e := range before.All() {
			had = append(had, e.ID)
		}
		for _, id := range had {
			switch {
			case seen[id] || c.Withdrawn[id] != "":
			case quarantined[id]:
				c.Withdrawn[id] = contracts.WithdrawnForAdmission
			default:
				c.Withdrawn[id] = contracts.WithdrawnBySource
			}
		}
	}
	r.Plan.CatalogueBlob = must(w.library.PutCatalogue(ctx, t, c))
	r.Plan.Catalogue = contracts.CatalogueRef{Hash: r.Plan.CatalogueBlob, Revision: r.Plan.Catalogue.Revision + 1, Size: c.Size()}
	r.Plan.Basis = contracts.BasisOf(sources, policies)
	r.State = contracts.RunStatePlanned
}

// open opens a run.
func (w *world) open(q contracts.RunRequest) contracts.RunID {
	w.Helper()
	r := &contracts.Run{ID: contracts.NewRunID(), Request: q, Principal: "tester", Created: time.Now()}
	w.plan(w.Context(), tenant, r)
	if err := w.runs.Create(w.Context(), contracts.RunKey(tenant, r.ID), r); err != nil {
		w.Fatal(err)
	}
	return r.ID
}

// server is the configuration of an odd server with these flags.
func (w *world) server(flags ...string) map[string]any {
	return map[string]any{
		"command": os.Args[0], "args": append(flags, "-counter", w.counter), "env": map[string]string{oddserver.Env: "1"},
	}
}

type servers map[string]map[string]any

func configOf(s servers) Config {
	data := must(json.Marshal(map[string]any{"mcpServers": s}))
	return FromConfig(must(config.Parse(data, "test.json")), os.Environ())
}

// executor runs an executor until the test is over or stop is called.
func (w *world) executor(s servers, change ...func(*Config)) (_ *Service, stop func()) {
	w.Helper()
	cfg := configOf(s)
	for _, f := range change {
		f(&cfg)
	}
	svc, err := New(w.Context(), w.bus, cfg, nil)
	if err != nil {
		w.Fatal(err)
	}
	return svc, w.background(svc.Run)
}

func sourceID(s string) contracts.SourceID { return must(contracts.ParseSourceID(s)) }

func (w *world) source(id string) *contracts.SourceRecord {
	rec, err := w.sources.Get(context.Background(), contracts.SourceKey(tenant, sourceID(id)))
	if err != nil {
		return &contracts.SourceRecord{}
	}
	return rec
}

// ready waits until the sources are listed.
func (w *world) ready(ids ...string) {
	w.Helper()
	for _, id := range append(ids, "platform:core") {
		natstest.Eventually(w, id+" is ready", func() bool { return w.source(id).State == contracts.SourceStateReady })
	}
}

// call makes a call and waits for its end.
func (w *world) call(r contracts.RunID, q calls.Request) *contracts.Call {
	w.Helper()
	return w.await(w.start(r, q))
}

func (w *world) start(r contracts.RunID, q calls.Request) *calls.Pending {
	w.Helper()
	if q.Deadline.IsZero() {
		q.Deadline = time.Now().Add(20 * time.Second)
	}
	p, err := w.caller.Start(w.Context(), tenant, r, q)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(p.Close)
	return p
}

func (w *world) await(p *calls.Pending) *contracts.Call {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 90*time.Second)
	defer cancel()
	rec, err := p.Await(ctx)
	if err != nil {
		w.Fatal(err)
	}
	if rec.Outcome == nil && rec.State != contracts.CallStateWaiting {
		w.Fatalf("call %s is still %s", p.ID, rec.State)
	}
	return rec
}

// counted returns how many lines of the counter file begin so.
func (w *world) counted(prefix string) int {
	b, _ := os.ReadFile(w.counter)
	n := 0
	for l := range strings.SplitSeq(string(b), "\n") {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// events returns the types of the stored events whose subject matches the filter, in order.
func (w *world) events(filter string) []string {
	w.Helper()
	var out []string
	cons, err := w.bus.JS.OrderedConsumer(w.Context(), contracts.StreamEvents, jetstreamOrdered(filter))
	if err != nil {
		w.Fatal(err)
	}
	for {
		batch, err := cons.FetchNoWait(100)
		if err != nil {
			w.Fatal(err)
		}
		n := 0
		for m := range batch.Messages() {
			n++
			s, _, err := contracts.DecodeEvent(m.Subject(), m.Data())
			if err != nil {
				w.Fatal(err)
			}
			out = append(out, s.Type)
		}
		if n == 0 {
			return out
		}
	}
}
