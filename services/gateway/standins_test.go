package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The other services, as far as the tests of the front door need them. Each is a stand-in of the test.

type standIns struct {
	bus     *bus.Bus
	runs    *store.Table[contracts.Run, *contracts.Run]
	calls   *store.Table[contracts.Call, *contracts.Call]
	library *catalogue.Library
	caller  *calls.Caller
	bodies  *bodies.Desk
	// release lets the calls of the tool "slow" end, and the body "slow".
	release chan struct{}
}

func startStandIns(t *testing.T, b *bus.Bus) *standIns {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &standIns{bus: b, release: make(chan struct{})}
	var err error
	s.runs, err = store.OpenTable[contracts.Run](ctx, b, contracts.BucketRuns)
	must(err)
	s.calls, err = store.OpenTable[contracts.Call](ctx, b, contracts.BucketCalls)
	must(err)
	s.library, err = catalogue.Open(ctx, b)
	must(err)
	s.caller, err = calls.Open(ctx, b)
	must(err)
	s.bodies, err = bodies.Open(ctx, b)
	must(err)
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run.Group(running, s.planner, s.answers, s.executor, s.sandbox) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("stand-ins: %v", err)
		}
	})
	return s
}

// planner plans each run with the calendar's tools and the client's. The run of agent "unplannable"
// fails, that of agent "forgotten" is never planned.
func (s *standIns) planner(ctx context.Context) error {
	c := bus.Consumer{Stream: contracts.StreamEvents, Durable: "planner", Filters: []string{contracts.AllRunRequested}}
	return s.bus.Consume(ctx, c, bus.EventHandler(func(ctx context.Context, sub contracts.Subject, e contracts.Event, _ bus.Message) error {
		req := e.(contracts.RunRequested).Request
		key := contracts.RunKey(sub.Tenant, sub.Run)
		if req.Agent == "forgotten" {
			return nil
		}
		if req.Agent == "unplannable" {
			fault := contracts.Errorf(contracts.CodeNameCollision, "client tool \"x\" has the name of mcp:calendar:x")
			_, err := s.runs.Transition(ctx, key, func(r *contracts.Run) ([]contracts.Event, error) {
				r.State, r.Error = contracts.RunStateFailed, fault
				return []contracts.Event{contracts.RunFailed{Run: r.ID, Error: *fault}}, nil
			})
			return err
		}
		plan, err := s.plan(ctx, sub.Tenant, req)
		if err != nil {
			return err
		}
		_, err = s.runs.Transition(ctx, key, func(r *contracts.Run) ([]contracts.Event, error) {
			if r.State != contracts.RunStateRequested {
				return nil, nil
			}
			r.State, r.Plan, r.Planned = contracts.RunStatePlanned, plan, time.Now().UTC()
			return []contracts.Event{contracts.RunPlanned{Run: r.ID, Plan: *plan}}, nil
		})
		return err
	}))
}

var calendar = contracts.SourceID{Kind: contracts.SourceMCP, Owner: "calendar"}

func tool(s contracts.SourceID, name, description, schema string) contracts.Tool {
	t := contracts.Tool{ID: contracts.NewToolID(s, name), Name: name, Description: description, InputSchema: json.RawMessage(schema)}
	t.Hash = t.ContentHash()
	return t
}

func calendarTools() []contracts.Tool {
	object := `{"type":"object","properties":{"text":{"type":"string"}}}`
	tools := []contracts.Tool{
		tool(calendar, "create_event", "Create a calendar event", object),
		tool(calendar, "broken", "Always says that it failed", object),
		tool(calendar, "slow", "Ends when it is told to", object),
		tool(calendar, "odd_content", "Answers with content of an unknown type", object),
	}
	slices.SortFunc(tools, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return tools
}

func (s *standIns) plan(ctx context.Context, t contracts.TenantID, req contracts.RunRequest) (*contracts.Plan, error) {
	listing, err := s.library.PutListing(ctx, t, &contracts.Listing{Source: calendar, Tools: calendarTools()})
	if err != nil {
		return nil, err
	}
	cat := contracts.Catalogue{Listings: []contracts.CatalogueListing{{Source: calendar, Listing: listing, Visible: len(calendarTools())}}}
	kinds := map[contracts.SourceKind]int{contracts.SourceMCP: len(calendarTools())}
	if req.ClientTools != "" {
		l, err := s.library.Listing(ctx, t, req.ClientTools)
		if err != nil {
			return nil, err
		}
		cat.Listings = slices.Insert(cat.Listings, 0, contracts.CatalogueListing{Source: l.Source, Listing: req.ClientTools, Visible: len(l.Tools)})
		kinds[contracts.SourceClient] = len(l.Tools)
	}
	hash, err := s.library.PutCatalogue(ctx, t, &cat)
	if err != nil {
		return nil, err
	}
	surface, err := s.library.PutSurface(ctx, t, &contracts.Surface{
		Prompt: "Search before you call.",
		Tools: []contracts.ModelTool{ // in an order that no sorting makes
			{Name: "tool_search", Description: "Find tools", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)},
			{Name: "tool_describe", Description: "Describe", InputSchema: json.RawMessage(`{"type":"object"}`)},
			{Name: "tool_call", Description: "Call <it>", InputSchema: json.RawMessage(`{"type":"object"}`)},
			{Name: "another", Description: "Direct", InputSchema: json.RawMessage(`{"type":"object"}`)},
		},
	})
	if err != nil {
		return nil, err
	}
	return &contracts.Plan{
		Surface: contracts.SurfaceTools, SurfaceHash: surface,
		Catalogue: contracts.CatalogueRef{Hash: hash, Revision: 1, Size: cat.Size(), Sources: kinds}, CatalogueBlob: hash,
		Pending:       []contracts.SourceStatus{{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "late"}}},
		Decision:      contracts.Decision{Surface: contracts.SurfaceTools, Winner: "toolSearch", Conditions: []contracts.Condition{{Name: "toolSearch", Value: "unset", Effect: "defer"}}},
		Basis:         contracts.BasisOf(nil, nil),
		CodeTimeoutMs: 7000,
	}, nil
}

// answers stands in for indexer, planner, executor and telemetry, where these are asked.
func (s *standIns) answers(ctx context.Context) error {
	return s.bus.Serve(ctx, "standins",
		bus.Answers(contracts.VerbSearch, s.search),
		bus.Answers(contracts.VerbDescribe, s.describe),
		bus.Answers(contracts.VerbRevise, func(ctx context.Context, t contracts.TenantID, q contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
			r, err := s.runs.Get(ctx, contracts.RunKey(t, q.Run))
			if err != nil {
				return contracts.ReviseAnswer{}, err
			}
			return contracts.ReviseAnswer{Plan: *r.Plan}, nil
		}),
		bus.Answers(contracts.VerbDiscover, func(_ context.Context, t contracts.TenantID, q contracts.DiscoverRequest) (contracts.DiscoverAnswer, error) {
			if t == "bell" || len(q.Sources) != 1 || q.Sources[0] != calendar || !q.Force { // the tenant bell has no sources
				return contracts.DiscoverAnswer{}, nil
			}
			return contracts.DiscoverAnswer{Sources: []contracts.SourceRecord{{Source: calendar, State: contracts.SourceStateReady, Tools: 4}}}, nil
		}),
		bus.Answers(contracts.VerbReport, func(_ context.Context, _ contracts.TenantID, q contracts.ReportRequest) (contracts.Report, error) {
			return contracts.Report{Run: q.Run, State: contracts.RunStatePlanned, Searches: []contracts.ReportSearch{}, Describes: []contracts.ToolID{}, Calls: []contracts.ReportCall{}}, nil
		}),
		bus.Answers(contracts.VerbLog, s.log),
	)
}

func (s *standIns) tools(ctx context.Context, t contracts.TenantID, id contracts.RunID) (*catalogue.Catalogue, error) {
	r, err := s.runs.Get(ctx, contracts.RunKey(t, id))
	if err != nil {
		return nil, err
	}
	return s.library.Catalogue(ctx, t, r.Plan.CatalogueBlob)
}

func (s *standIns) search(ctx context.Context, t contracts.TenantID, q contracts.SearchRequest) (contracts.SearchAnswer, error) {
	cat, err := s.tools(ctx, t, q.Run)
	if err != nil {
		return contracts.SearchAnswer{}, err
	}
	one := func(query string) (contracts.SearchAnswer, error) {
		a := contracts.SearchAnswer{ID: contracts.NewSearchID(), Query: query, Hits: []contracts.Hit{}, Limit: max(q.Limit, 0), Pending: []contracts.SourceStatus{}, Failed: []contracts.SourceStatus{}}
		e := contracts.Searched{At: time.Now().UTC(), Run: q.Run, Search: a.ID, Query: query}
		for tool := range cat.All() {
			if strings.Contains(tool.Description, query) {
				a.Hits = append(a.Hits, contracts.Hit{ID: tool.ID, Source: tool.Listing.Source.Kind, Owner: tool.Listing.Source.Owner, Name: tool.Name, Description: tool.Description})
				e.Hits = append(e.Hits, tool.ID)
			}
		}
		a.Total = len(a.Hits)
		return a, s.bus.Publish(ctx, t, e)
	}
	if len(q.Queries) == 0 {
		return one(q.Query)
	}
	batch := contracts.SearchAnswer{Hits: []contracts.Hit{}}
	for _, query := range q.Queries {
		a, err := one(query)
		if err != nil {
			return a, err
		}
		batch.Results = append(batch.Results, a)
	}
	return batch, nil
}

func (s *standIns) describe(ctx context.Context, t contracts.TenantID, q contracts.DescribeRequest) (contracts.DescribeAnswer, error) {
	cat, err := s.tools(ctx, t, q.Run)
	if err != nil {
		return contracts.DescribeAnswer{}, err
	}
	e, err := cat.Resolve(q.ID)
	if err != nil {
		return contracts.DescribeAnswer{}, err
	}
	a := contracts.DescribeAnswer{ID: e.ID, Name: e.Name, Description: e.Description, InputSchema: e.InputSchema, Hash: e.Hash}
	return a, s.bus.Publish(ctx, t, contracts.Described{At: time.Now().UTC(), Run: q.Run, ID: contracts.NewSearchID(), Tool: e.ID})
}

// log answers two lines at a time, so that there are several pages.
func (s *standIns) log(ctx context.Context, t contracts.TenantID, q contracts.LogRequest) (contracts.LogAnswer, error) {
	stream, err := s.bus.JS.Stream(ctx, contracts.StreamEvents)
	if err != nil {
		return contracts.LogAnswer{}, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return contracts.LogAnswer{}, err
	}
	a := contracts.LogAnswer{Lines: []contracts.LogLine{}}
	for seq := q.After + 1; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return a, err
		}
		sub, err := contracts.ParseSubject(m.Subject)
		if err != nil || sub.Tenant != t || sub.Run != q.Run {
			continue
		}
		if len(a.Lines) == 2 {
			a.More = true
			break
		}
		a.Lines = append(a.Lines, contracts.LogLine{Seq: seq, Type: sub.Type, At: m.Time, Event: m.Data})
	}
	return a, nil
}

// executor ends each call as the name of its tool says.
func (s *standIns) executor(ctx context.Context) error {
	c := bus.Consumer{Stream: contracts.StreamDispatch, Durable: "executor"}
	return s.bus.Consume(ctx, c, func(hctx context.Context, m bus.Message) error {
		var w bus.Wakeup
		if err := json.Unmarshal(m.Data, &w); err != nil {
			return err
		}
		return s.execute(ctx, hctx, w.Key)
	})
}

func (s *standIns) execute(stop, ctx context.Context, key contracts.Key) error {
	rec, err := s.caller.Get(ctx, key)
	if err != nil || rec.State != contracts.CallStateRequested {
		return err
	}
	args, err := s.caller.Args(ctx, key.Tenant(), rec)
	if err != nil {
		return err
	}
	cat, err := s.tools(ctx, key.Tenant(), rec.Run)
	if err != nil {
		return err
	}
	end := func(o contracts.Outcome) error {
		_, err := s.caller.End(ctx, key, o, func(*contracts.Call) error { return nil })
		return err
	}
	e, err := cat.Resolve(rec.Tool)
	if err != nil {
		return end(contracts.Outcome{Status: contracts.StatusError, Error: contracts.AsError(err), SideEffects: contracts.SideEffectsNone})
	}
	cancelled := make(chan *nats.Msg, 1)
	sub, err := s.bus.Conn.ChanSubscribe(contracts.CancelSubject(key.Tenant(), rec.ID), cancelled)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	_, err = s.calls.Transition(ctx, key, func(c *contracts.Call) ([]contracts.Event, error) {
		if c.State != contracts.CallStateRequested {
			return nil, errTaken
		}
		c.Resolved = e.Ref()
		if e.Listing.Source.Kind == contracts.SourceClient {
			c.State, c.Waits = contracts.CallStateWaiting, contracts.WaitsForClient
			return []contracts.Event{contracts.CallWaiting{Run: c.Run, Call: c.ID, Tool: *e.Ref(), For: c.Waits}}, nil
		}
		c.State, c.Attempt = contracts.CallStateRunning, 1
		return []contracts.Event{contracts.CallRunning{Run: c.Run, Call: c.ID, Tool: *e.Ref(), Attempt: 1}}, nil
	})
	if err != nil || e.Listing.Source.Kind == contracts.SourceClient {
		if errors.Is(err, errTaken) {
			return nil
		}
		return err
	}
	switch e.Name {
	case "broken":
		res := contracts.TextResult("it is broken", nil)
		res.IsError = true
		return end(contracts.Outcome{Status: contracts.StatusError, Result: res, Error: contracts.Errorf(contracts.CodeToolError, "the tool said that it failed")})
	case "odd_content":
		return end(contracts.Outcome{Status: contracts.StatusOK, Result: &contracts.Result{Content: []json.RawMessage{json.RawMessage(`{"type":"hologram","extra":{"a":1}}`)}}})
	case "slow":
		select {
		case <-s.release:
		case <-stop.Done():
		case <-cancelled:
			return end(contracts.Outcome{Status: contracts.StatusCancelled, Error: contracts.Errorf(contracts.CodeCancelled, "cancelled"), SideEffects: contracts.SideEffectsUnknown})
		}
	}
	return end(contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("called with "+string(args), json.RawMessage(`{"got":`+string(args)+`}`)), SideEffects: contracts.SideEffectsDone})
}

var errTaken = errors.New("taken")
