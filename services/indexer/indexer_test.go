package indexer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/indexer"
)

const tenant contracts.TenantID = "acme"

// A world is an indexer and the records that a planner and an executor would write.
type world struct {
	*testing.T
	bus     *bus.Bus
	lib     *catalogue.Library
	runs    *store.Table[contracts.Run, *contracts.Run]
	sources *store.Table[contracts.SourceRecord, *contracts.SourceRecord]
}

func start(t *testing.T, cfg indexer.Config) *world {
	t.Helper()
	w := &world{T: t, bus: natstest.Open(t)}
	var err error
	if w.lib, err = catalogue.Open(t.Context(), w.bus); err != nil {
		t.Fatal(err)
	}
	if w.runs, err = store.OpenTable[contracts.Run](t.Context(), w.bus, contracts.BucketRuns); err != nil {
		t.Fatal(err)
	}
	if w.sources, err = store.OpenTable[contracts.SourceRecord](t.Context(), w.bus, contracts.BucketSources); err != nil {
		t.Fatal(err)
	}
	natstest.Run(w, func(ctx context.Context) error {
		s, err := indexer.New(ctx, w.bus, cfg, nil)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	})
	return w
}

var calendar = contracts.SourceID{Kind: contracts.SourceMCP, Owner: "calendar"}

// listing stores a listing of the tools name: description.
func (w *world) listing(s contracts.SourceID, tools map[string]string) (contracts.CatalogueListing, contracts.Hash) {
	w.Helper()
	l := &contracts.Listing{Source: s}
	for name, description := range tools {
		t := contracts.Tool{
			ID: contracts.NewToolID(s, name), Name: name, Description: description,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"when":{"type":"string"}},"required":["title"]}`),
		}
		t.Hash = t.ContentHash()
		l.Tools = append(l.Tools, t)
	}
	slices.SortFunc(l.Tools, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	h, err := w.lib.PutListing(w.Context(), tenant, l)
	if err != nil {
		w.Fatal(err)
	}
	return contracts.CatalogueListing{Source: s, Listing: h, Visible: len(l.Tools)}, h
}

// plan is the plan of a catalogue of the listings, made from the sources as given.
func (w *world) plan(sources []*contracts.SourceRecord, listings ...contracts.CatalogueListing) contracts.Plan {
	w.Helper()
	h, err := w.lib.PutCatalogue(w.Context(), tenant, &contracts.Catalogue{Listings: listings})
	if err != nil {
		w.Fatal(err)
	}
	return contracts.Plan{Catalogue: contracts.CatalogueRef{Hash: h, Revision: 1}, CatalogueBlob: h, Basis: contracts.BasisOf(sources, nil)}
}

func (w *world) open(p contracts.Plan) contracts.RunID {
	w.Helper()
	id := contracts.NewRunID()
	rec := &contracts.Run{ID: id, State: contracts.RunStatePlanned, Plan: &p}
	if err := w.runs.Create(w.Context(), contracts.RunKey(tenant, id), rec, contracts.RunPlanned{Run: id, Plan: p}); err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) search(q contracts.SearchRequest) (contracts.SearchAnswer, error) {
	return bus.Ask[contracts.SearchAnswer](w.Context(), w.bus, tenant, contracts.VerbSearch, q)
}

func (w *world) describe(run contracts.RunID, id string) (contracts.DescribeAnswer, error) {
	return bus.Ask[contracts.DescribeAnswer](w.Context(), w.bus, tenant, contracts.VerbDescribe, contracts.DescribeRequest{Run: run, ID: id})
}

var tools = map[string]string{
	"create_event": "Put an appointment into the calendar", "delete_event": "Remove an appointment from the calendar",
	"list_rooms": "List the meeting rooms", "long": strings.Repeat("words about nothing in particular ", 100), "odd": "Hidden\u200b text\u202e here",
}

func ids(hits []contracts.Hit) []contracts.ToolID {
	var out []contracts.ToolID
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

func TestSearchAndDescribe(t *testing.T) {
	w := start(t, indexer.Config{})
	l, _ := w.listing(calendar, tools)
	run := w.open(w.plan(nil, l))
	a, err := w.search(contracts.SearchRequest{Run: run, Query: "add an appointment to my calendar"})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Hits) == 0 || a.Hits[0].ID != "mcp:calendar:create_event" {
		t.Fatalf("hits = %v, want create_event first", ids(a.Hits))
	}
	h := a.Hits[0]
	if h.Source != contracts.SourceMCP || h.Owner != "calendar" || h.Name != "create_event" || !strings.Contains(h.Input, "title") || h.Score <= 0 || h.Score > 1 {
		t.Errorf("hit = %+v", h)
	}
	if a.Limit != 8 || a.Clamped || a.Total < len(a.Hits) || a.Pending == nil || a.Failed == nil {
		t.Errorf("answer = %+v", a)
	}
	d, err := w.describe(run, "calendar.create_event")
	if err != nil || d.ID != h.ID || len(d.InputSchema) == 0 || d.Hash == "" {
		t.Errorf("describe = %+v, %v", d, err)
	}
	if d, err := w.describe(run, "long"); err != nil || len(d.Description) < 3000 {
		t.Errorf("describe cuts the description to %d, %v", len(d.Description), err)
	}
	if a, err := w.search(contracts.SearchRequest{Run: run, Query: "long"}); err != nil || len(a.Hits) == 0 || len([]rune(a.Hits[0].Description)) > 2048 {
		t.Errorf("search shows %d hits with a description that is not cut, %v", len(a.Hits), err)
	}
	if a, err := w.search(contracts.SearchRequest{Run: run, Query: "select:odd"}); err != nil || len(a.Hits) != 1 || strings.ContainsAny(a.Hits[0].Description, "\u200b\u202e") {
		t.Errorf("select:odd = %+v, %v; want it without hidden characters", a.Hits, err)
	}
}

func TestSearchLimits(t *testing.T) {
	w := start(t, indexer.Config{})
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprintf("make_report_%d", i)] = "Make a report"
	}
	l, _ := w.listing(calendar, many)
	run := w.open(w.plan(nil, l))
	a, err := w.search(contracts.SearchRequest{Run: run, Query: "report", Limit: 100})
	if err != nil || len(a.Hits) != 20 || a.Limit != 20 || !a.Clamped || a.Total != 40 {
		t.Errorf("limit 100: %d hits, limit %d, clamped %v, total %d, %v; want 20, 20, true, 40", len(a.Hits), a.Limit, a.Clamped, a.Total, err)
	}
	a, err = w.search(contracts.SearchRequest{Run: run, Query: "select:make_report_3,calendar.make_report_1, nothing_like_it"})
	if err != nil || !slices.Equal(ids(a.Hits), []contracts.ToolID{"mcp:calendar:make_report_3", "mcp:calendar:make_report_1"}) || a.Total != 2 {
		t.Errorf("select = %v, total %d, %v", ids(a.Hits), a.Total, err)
	}
	batch, err := w.search(contracts.SearchRequest{Run: run, Queries: []string{"report", "make_report_7"}, Limit: 1})
	if err != nil || len(batch.Results) != 2 || len(batch.Results[0].Hits) != 1 || batch.Results[1].Hits[0].Name != "make_report_7" {
		t.Errorf("batch = %+v, %v", batch, err)
	}
	for name, q := range map[string]contracts.SearchRequest{
		"empty":    {Query: "  "},
		"negative": {Query: "x", Limit: -1},
		"both":     {Query: "x", Queries: []string{"y"}},
		"many":     {Queries: make([]string, 17)},
		"blank":    {Queries: []string{"x", " "}},
		"long":     {Query: strings.Repeat("x", contracts.SearchLongestQuery+1)},
	} {
		q.Run = run
		if _, err := w.search(q); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("%s = %v, want invalid", name, err)
		}
	}
}

// A run gets as many hits as its own plan says.
func TestLimitsOfTheRun(t *testing.T) {
	w := start(t, indexer.Config{})
	many := map[string]string{}
	for i := range 60 {
		many[fmt.Sprintf("make_report_%d", i)] = "Make a report"
	}
	l, _ := w.listing(calendar, many)
	few := w.plan(nil, l)
	few.SearchLimit, few.SearchMost = 2, 3
	more := w.plan(nil, l)
	more.SearchLimit, more.SearchMost = 30, 50
	for _, tt := range []struct {
		run         contracts.RunID
		limit, want int
		clamped     bool
	}{
		{w.open(few), 0, 2, false},
		{w.open(few), 3, 3, false},
		{w.open(few), 4, 3, true},
		{w.open(more), 0, 30, false},
		{w.open(more), 45, 45, false},
		{w.open(more), 60, 50, true},
		{w.open(w.plan(nil, l)), 0, contracts.SearchDefaultLimit, false},
	} {
		a, err := w.search(contracts.SearchRequest{Run: tt.run, Query: "report", Limit: tt.limit})
		if err != nil || len(a.Hits) != tt.want || a.Limit != tt.want || a.Clamped != tt.clamped {
			t.Errorf("limit %d: %d hits, limit %d, clamped %v, %v; want %d, clamped %v", tt.limit, len(a.Hits), a.Limit, a.Clamped, err, tt.want, tt.clamped)
		}
	}
}

func TestNothingFits(t *testing.T) {
	w := start(t, indexer.Config{})
	l, _ := w.listing(calendar, tools)
	run := w.open(w.plan(nil, l))
	a, err := w.search(contracts.SearchRequest{Run: run, Query: "defrost the refrigerator"})
	if err != nil || len(a.Hits) != 0 || a.Total != 0 || a.Waited != 0 {
		t.Errorf("answer = %+v, %v; want no hits and no wait", a, err)
	}
	if _, err := w.describe(run, "creat_event"); contracts.CodeOf(err) != contracts.CodeUnknownTool || !strings.Contains(err.Error(), "create_event") {
		t.Errorf("describe = %v, want unknown_tool with a suggestion", err)
	}
	if _, err := w.search(contracts.SearchRequest{Run: contracts.NewRunID(), Query: "x"}); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("search in no run = %v, want not_found", err)
	}
	if _, err := bus.Ask[contracts.SearchAnswer](t.Context(), w.bus, "other", contracts.VerbSearch, contracts.SearchRequest{Run: run, Query: "x"}); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("search in another tenant's run = %v, want not_found", err)
	}
}

// A search that finds nothing waits for a source that is pending, and finds its tool once the planner has revised the run.
func TestSearchWaitsForPendingSources(t *testing.T) {
	w := start(t, indexer.Config{PendingWait: time.Minute})
	pending := &contracts.SourceRecord{Source: calendar, State: contracts.SourceStatePending}
	key := contracts.SourceKey(tenant, calendar)
	if err := w.sources.Create(t.Context(), key, pending); err != nil {
		t.Fatal(err)
	}
	p := w.plan([]*contracts.SourceRecord{pending})
	p.Pending = []contracts.SourceStatus{{Source: calendar}}
	run := w.open(p)

	l, h := w.listing(calendar, tools)
	asked := make(chan struct{}, 8)
	natstest.Run(w, func(ctx context.Context) error { // stands in for the planner
		return w.bus.Serve(ctx, "planner", bus.Answers(contracts.VerbRevise, func(context.Context, contracts.TenantID, contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
			asked <- struct{}{}
			ready := &contracts.SourceRecord{Source: calendar, State: contracts.SourceStateReady, Listing: h}
			return contracts.ReviseAnswer{Plan: w.plan([]*contracts.SourceRecord{ready}, l)}, nil
		}))
	})
	type answer struct {
		contracts.SearchAnswer
		err error
	}
	got := make(chan answer, 1)
	go func() {
		a, err := w.search(contracts.SearchRequest{Run: run, Query: "add an appointment"})
		got <- answer{a, err}
	}()
	if _, err := w.sources.Transition(t.Context(), key, func(r *contracts.SourceRecord) ([]contracts.Event, error) {
		r.State, r.Listing = contracts.SourceStateReady, h
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	a := <-got
	if a.err != nil || len(a.Hits) == 0 {
		t.Fatalf("answer = %+v, %v; want the late source's tool", a.SearchAnswer, a.err)
	}
	if len(asked) == 0 {
		t.Error("the planner was not asked to revise the run")
	}
	if d, err := w.describe(run, "mcp:calendar:create_event"); err != nil || d.Name != "create_event" {
		t.Errorf("describe of the late tool = %+v, %v", d, err)
	}
}

func TestSearchGivesUpOnPendingSources(t *testing.T) {
	w := start(t, indexer.Config{PendingWait: 50 * time.Millisecond})
	pending := &contracts.SourceRecord{Source: calendar, State: contracts.SourceStatePending}
	if err := w.sources.Create(t.Context(), contracts.SourceKey(tenant, calendar), pending); err != nil {
		t.Fatal(err)
	}
	p := w.plan([]*contracts.SourceRecord{pending})
	p.Pending = []contracts.SourceStatus{{Source: calendar}}
	a, err := w.search(contracts.SearchRequest{Run: w.open(p), Query: "add an appointment"})
	if err != nil || len(a.Hits) != 0 || len(a.Pending) != 1 || a.Waited < 50 {
		t.Errorf("answer = %+v, %v; want none, the pending source and the wait", a, err)
	}
	if _, err := w.describe(w.open(p), "create_event"); contracts.CodeOf(err) != contracts.CodeUnknownTool || !strings.Contains(err.Error(), "mcp:calendar") {
		t.Errorf("describe = %v, want unknown_tool that names the pending source", err)
	}
}

func TestEventsTellWhatWasAnswered(t *testing.T) {
	w := start(t, indexer.Config{})
	l, _ := w.listing(calendar, tools)
	run := w.open(w.plan(nil, l))
	seen := make(chan contracts.Event, 16)
	natstest.Run(w, func(ctx context.Context) error {
		c := bus.Consumer{Stream: contracts.StreamEvents, Durable: "test", Filters: []string{contracts.RunEvents(tenant, run)}, Workers: 1}
		return w.bus.Consume(ctx, c, bus.EventHandler(func(_ context.Context, _ contracts.Subject, e contracts.Event, _ bus.Message) error {
			seen <- e
			return nil
		}))
	})
	a, err := w.search(contracts.SearchRequest{Run: run, Query: "appointment"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.describe(run, "list_rooms"); err != nil {
		t.Fatal(err)
	}
	var ready, searched, described bool
	for !ready || !searched || !described {
		switch e := (<-seen).(type) {
		case contracts.RunReady:
			ready = e.Run == run
		case contracts.Searched:
			if e.Search != a.ID || e.Query != "appointment" || !slices.Equal(e.Hits, ids(a.Hits)) || e.Total != a.Total {
				t.Errorf("Searched = %+v, want what was answered: %+v", e, a)
			}
			searched = true
		case contracts.Described:
			if e.Tool != "mcp:calendar:list_rooms" {
				t.Errorf("Described = %+v", e)
			}
			described = true
		}
	}
}
