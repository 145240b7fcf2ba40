package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const acme contracts.TenantID = "acme"

// A crib is a planner on a bus of its own. The test plays executor and gateway.
type crib struct {
	t       testing.TB
	bus     *bus.Bus
	s       *Service
	stop    func() error
	library *catalogue.Library
	runs    *store.Table[contracts.Run, *contracts.Run]
	sources *store.Table[contracts.SourceRecord, *contracts.SourceRecord]
}

// newCrib returns a crib whose planner does not run yet.
func newCrib(t testing.TB, cfg Config) *crib {
	t.Helper()
	c := &crib{t: t, bus: natstest.Open(t)}
	var err error
	c.library, err = catalogue.Open(t.Context(), c.bus)
	c.check(err)
	c.runs, err = store.OpenTable[contracts.Run](t.Context(), c.bus, contracts.BucketRuns)
	c.check(err)
	c.sources, err = store.OpenTable[contracts.SourceRecord](t.Context(), c.bus, contracts.BucketSources)
	c.check(err)
	c.configure(cfg)
	return c
}

// configure gives the crib a new planner, which does not run yet.
func (c *crib) configure(cfg Config) {
	c.t.Helper()
	s, err := New(c.t.Context(), c.bus, cfg, nil)
	c.check(err)
	s.sandbox.wait, s.sandbox.start = 10*time.Millisecond, 0 // most tests have no sandbox
	c.s = s
}

// start runs the planner until stop, or the end of the test.
func (c *crib) start() *crib {
	c.t.Helper()
	s := c.s
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	c.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	c.t.Cleanup(func() {
		if err := c.stop(); err != nil {
			c.t.Error(err)
		}
	})
	c.check(s.state.Loaded(c.t.Context()))
	return c
}

func startCrib(t testing.TB, cfg Config) *crib { return newCrib(t, cfg).start() }

func (c *crib) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// until waits for a state.
func (c *crib) until(what string, ok func() bool) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			c.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// tool returns a tool of a source, measured as an executor does it.
func tool(source, name, description string) contracts.Tool {
	s, err := contracts.ParseSourceID(source)
	if err != nil {
		panic(err)
	}
	t := contracts.Tool{
		ID: contracts.NewToolID(s, name), Name: name, Description: description,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`),
	}
	t.Hash = t.ContentHash()
	t.Bytes, t.Tokens = tokens.Definition(t.Name, t.Description, t.InputSchema)
	return t
}

func tools(source string, names ...string) (list []contracts.Tool) {
	for _, n := range names {
		list = append(list, tool(source, n, "Does "+n+"."))
	}
	return list
}

func listing(source string, list ...contracts.Tool) *contracts.Listing {
	s, err := contracts.ParseSourceID(source)
	if err != nil {
		panic(err)
	}
	slices.SortFunc(list, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return &contracts.Listing{Source: s, Tools: list}
}

// list has a source of the tenant ready with the tools, and the planner know it.
func (c *crib) list(t contracts.TenantID, source string, list ...contracts.Tool) *contracts.SourceRecord {
	c.t.Helper()
	return c.listAs(t, listing(source, list...))
}

func (c *crib) listAs(t contracts.TenantID, l *contracts.Listing) *contracts.SourceRecord {
	c.t.Helper()
	h, err := c.library.PutListing(c.t.Context(), t, l)
	c.check(err)
	return c.put(t, contracts.SourceRecord{
		Source: l.Source, State: contracts.SourceStateReady, Listing: h, Tools: len(l.Tools), Discovered: time.Now(),
	})
}

// mark has a source of the tenant in a state without a listing.
func (c *crib) mark(t contracts.TenantID, source string, state contracts.SourceState, reason string) *contracts.SourceRecord {
	c.t.Helper()
	id, err := contracts.ParseSourceID(source)
	c.check(err)
	return c.put(t, contracts.SourceRecord{Source: id, State: state, Reason: reason})
}

func (c *crib) put(t contracts.TenantID, r contracts.SourceRecord) *contracts.SourceRecord {
	c.t.Helper()
	key := contracts.SourceKey(t, r.Source)
	_, err := c.sources.Transition(c.t.Context(), key, func(old *contracts.SourceRecord) ([]contracts.Event, error) {
		*old = r
		return nil, nil
	})
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		err = c.sources.Create(c.t.Context(), key, &r)
	}
	c.check(err)
	c.known(t, &r)
	return &r
}

// known waits until a running planner knows the record.
func (c *crib) known(t contracts.TenantID, r *contracts.SourceRecord) {
	c.t.Helper()
	if c.stop == nil {
		return
	}
	want := contracts.BasisOf([]*contracts.SourceRecord{r}, nil)
	c.until("the planner knows "+r.Source.String(), func() bool {
		records, _ := c.s.state.Sources(t)
		return slices.ContainsFunc(records, func(o *contracts.SourceRecord) bool {
			return contracts.BasisOf([]*contracts.SourceRecord{o}, nil) == want && o.AlwaysLoad == r.AlwaysLoad
		})
	})
}

// policy sets the tenant's layers of origin API and has a running planner know them.
func (c *crib) policy(t contracts.TenantID, layers ...contracts.PolicyLayer) {
	c.t.Helper()
	before := c.s.state.Basis(t)
	key := contracts.PolicyKey(t, contracts.PolicyAPI)
	_, err := c.s.policies.Transition(c.t.Context(), key, func(r *contracts.PolicyRecord) ([]contracts.Event, error) {
		r.Layers = layers
		return nil, nil
	})
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		err = c.s.policies.Create(c.t.Context(), key, &contracts.PolicyRecord{Layers: layers})
	}
	c.check(err)
	if c.stop != nil {
		c.until("the planner knows the policy", func() bool { return c.s.state.Basis(t) != before })
	}
}

func deny(globs ...string) contracts.PolicyLayer {
	return contracts.PolicyLayer{Level: "tenant", Deny: globs}
}

func allow(globs ...string) contracts.PolicyLayer {
	return contracts.PolicyLayer{Level: "tenant", Allow: globs}
}

// request asks for a run and does not wait for it.
func (c *crib) request(t contracts.TenantID, q contracts.RunRequest) contracts.RunID {
	c.t.Helper()
	now := time.Now().UTC()
	r := &contracts.Run{ID: contracts.NewRunID(), State: contracts.RunStateRequested, Request: q, Created: now, Expires: now.Add(time.Hour)}
	return c.create(t, r)
}

func (c *crib) create(t contracts.TenantID, r *contracts.Run) contracts.RunID {
	c.t.Helper()
	c.check(c.runs.Create(c.t.Context(), contracts.RunKey(t, r.ID), r, contracts.RunRequested{At: r.Created, Run: r.ID, Request: r.Request}))
	return r.ID
}

// run returns the record.
func (c *crib) run(t contracts.TenantID, id contracts.RunID) *contracts.Run {
	c.t.Helper()
	r, err := c.runs.Get(c.t.Context(), contracts.RunKey(t, id))
	c.check(err)
	return r
}

// settled waits until the run is no longer requested.
func (c *crib) settled(t contracts.TenantID, id contracts.RunID) *contracts.Run {
	c.t.Helper()
	var r *contracts.Run
	c.until("the run is settled", func() bool {
		r = c.run(t, id)
		return r.State != contracts.RunStateRequested
	})
	return r
}

// open opens a run that must be planned.
func (c *crib) open(t contracts.TenantID, q contracts.RunRequest) *contracts.Run {
	c.t.Helper()
	r := c.settled(t, c.request(t, q))
	if r.State != contracts.RunStatePlanned {
		c.t.Fatalf("the run is %s (%v), want planned", r.State, r.Error)
	}
	return r
}

// refuse opens a run that must fail, and returns why it did.
func (c *crib) refuse(t contracts.TenantID, q contracts.RunRequest) *contracts.Error {
	c.t.Helper()
	r := c.settled(t, c.request(t, q))
	if r.State != contracts.RunStateFailed || r.Error == nil {
		c.t.Fatalf("the run is %s with error %v, want failed with one", r.State, r.Error)
	}
	return r.Error
}

func (c *crib) surface(t contracts.TenantID, r *contracts.Run) *contracts.Surface {
	c.t.Helper()
	s, err := c.library.Surface(c.t.Context(), t, r.Plan.SurfaceHash)
	c.check(err)
	return s
}

// ids returns the tools that the run can see.
func (c *crib) ids(t contracts.TenantID, p *contracts.Plan) []string {
	c.t.Helper()
	cat, err := c.library.Catalogue(c.t.Context(), t, p.CatalogueBlob)
	c.check(err)
	ids := []string{}
	for e := range cat.All() {
		ids = append(ids, string(e.ID))
	}
	return ids
}

func (c *crib) revise(t contracts.TenantID, id contracts.RunID) *contracts.Plan {
	c.t.Helper()
	a, err := bus.Ask[contracts.ReviseAnswer](c.t.Context(), c.bus, t, contracts.VerbRevise, contracts.ReviseRequest{Run: id})
	c.check(err)
	return &a.Plan
}

// clientTools stores a run's own tools.
func (c *crib) clientTools(t contracts.TenantID, list ...contracts.Tool) contracts.Hash {
	c.t.Helper()
	h, err := c.library.PutListing(c.t.Context(), t, listing("client:client", list...))
	c.check(err)
	return h
}

// events returns the run's events of one type, as they are in the stream now.
func events[E contracts.Event](c *crib, t contracts.TenantID, id contracts.RunID) (list []E) {
	c.t.Helper()
	s, err := c.bus.JS.Stream(c.t.Context(), contracts.StreamEvents)
	c.check(err)
	info, err := s.Info(c.t.Context(), jetstream.WithSubjectFilter(contracts.RunEvents(t, id)))
	c.check(err)
	var n uint64
	for _, k := range info.State.Subjects {
		n += k
	}
	cons, err := s.CreateConsumer(c.t.Context(), jetstream.ConsumerConfig{FilterSubject: contracts.RunEvents(t, id), AckPolicy: jetstream.AckNonePolicy})
	c.check(err)
	for range n {
		m, err := cons.Next(jetstream.FetchMaxWait(5 * time.Second))
		c.check(err)
		_, e, err := contracts.DecodeEvent(m.Subject(), m.Data())
		c.check(err)
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// again publishes the event once more and waits until the planner has settled it.
func (c *crib) again(t contracts.TenantID, e contracts.Event) {
	c.t.Helper()
	b, err := json.Marshal(e)
	c.check(err)
	ack, err := c.bus.JS.Publish(c.t.Context(), e.Subject(t), b)
	c.check(err)
	c.until("the planner has settled the event", func() bool {
		cons, err := c.bus.JS.Consumer(c.t.Context(), contracts.StreamEvents, "planner")
		c.check(err)
		return cons.CachedInfo().AckFloor.Stream >= ack.Sequence
	})
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func condition(d contracts.Decision, name string) contracts.Condition {
	for _, c := range d.Conditions {
		if c.Name == name {
			return c
		}
	}
	return contracts.Condition{Name: fmt.Sprintf("no condition %q", name)}
}
