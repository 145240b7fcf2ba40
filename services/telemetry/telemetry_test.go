package telemetry_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/telemetry"
)

const tenant contracts.TenantID = "acme"

func start(t *testing.T) *bus.Bus {
	t.Helper()
	b := natstest.Open(t)
	s, err := telemetry.New(t.Context(), b, telemetry.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Run(t, s.Run)
	return b
}

func publish(t *testing.T, b *bus.Bus, events ...contracts.Event) {
	t.Helper()
	for _, e := range events {
		if err := b.Publish(t.Context(), tenant, e); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	at     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	create = contracts.ToolRef{ID: "mcp:calendar:create_event", Name: "create_event", Source: contracts.SourceMCP}
	list   = contracts.ToolRef{ID: "mcp:calendar:list_events", Name: "list_events", Source: contracts.SourceMCP}
	now    = contracts.ToolRef{ID: "platform:core:now", Name: "now", Source: contracts.SourcePlatform}
)

// story is a run in which three searches lead to two calls of their hits, the second by a body, one call comes of no search and one names nothing that exists.
func story(run contracts.RunID) (events []contracts.Event, want contracts.Report) {
	a, b, c, d := contracts.NewCallID(), contracts.NewCallID(), contracts.NewCallID(), contracts.NewCallID()
	good, bad, refused, running := contracts.BodyOf(contracts.NewCallID()), contracts.BodyOf(contracts.NewCallID()), contracts.BodyOf(contracts.NewCallID()), contracts.BodyOf(contracts.NewCallID())
	plan := contracts.Plan{
		Surface:   contracts.SurfaceTools,
		Catalogue: contracts.CatalogueRef{Hash: "h1", Revision: 1, Size: 60, Sources: map[contracts.SourceKind]int{"mcp": 56, "platform": 4}},
		Seen:      contracts.Seen{Tools: 3, ToolBytes: 1500, PromptBytes: 500, Tokens: 480},
		Direct:    contracts.Cost{Bytes: 40_000, Tokens: 9_000},
		BySource:  map[contracts.SourceKind]contracts.Cost{"mcp": {Bytes: 38_000, Tokens: 8_600}, "platform": {Bytes: 2_000, Tokens: 400}},
		Decision:  contracts.Decision{Surface: contracts.SurfaceTools, Winner: "default"},
	}
	search := func(q string, hits ...contracts.ToolID) contracts.Searched {
		return contracts.Searched{At: at, Run: run, Search: contracts.NewSearchID(), Query: q, Total: 5, Hits: hits, Micros: 250}
	}
	finished := contracts.CallFinished{At: at, Run: run, Call: a, Tool: &create, Status: contracts.StatusOK, DurationMs: 12}
	events = []contracts.Event{
		contracts.RunRequested{At: at, Run: run},
		contracts.RunPlanned{At: at, Run: run, Plan: plan},
		search("when is it"),
		search("plan a meeting", list.ID, create.ID),
		contracts.Described{At: at, Run: run, ID: contracts.NewSearchID(), Tool: create.ID},
		contracts.CallRequested{At: at, Run: run, Call: a, Tool: "create_event"},
		contracts.CallRunning{At: at, Run: run, Call: a, Tool: create, Attempt: 1},
		finished,
		finished, // delivered twice
		contracts.RunRevised{At: at, Run: run, Catalogue: contracts.CatalogueRef{Hash: "h2", Revision: 2, Size: 61}},
		contracts.BodyRequested{At: at, Run: run, Body: good, Bytes: 80},
		search("what is planned", list.ID),
		contracts.CallRequested{At: at, Run: run, Call: b, Tool: "list_events", Body: good},
		contracts.BodyWaiting{At: at, Run: run, Body: good, Calls: []contracts.CallID{b}},
		contracts.CallFinished{At: at, Run: run, Call: b, Tool: &list, Status: contracts.StatusBlocked, Code: contracts.CodePolicyDenied},
		contracts.BodyRequested{At: at, Run: run, Body: bad},
		contracts.BodyFinished{At: at, Run: run, Body: good, OK: true, Searches: 1, Calls: 1, ValueBytes: 7, DurationMs: 31, CPUMicros: 900},
		contracts.BodyFinished{At: at, Run: run, Body: bad, Code: contracts.BodyTimeout, Describes: 2, DurationMs: 10_000},
		contracts.BodyFinished{At: at, Run: run, Body: bad, Code: contracts.BodyTimeout, Describes: 2, DurationMs: 10_000}, // delivered twice
		contracts.BodyRequested{At: at, Run: run, Body: refused},
		contracts.BodyFinished{At: at, Run: run, Body: refused, Refused: contracts.CodeRateLimited},
		contracts.BodyRequested{At: at, Run: run, Body: running},
		contracts.CallRequested{At: at, Run: run, Call: c, Tool: "now"},
		contracts.CallRunning{At: at, Run: run, Call: c, Tool: now},
		contracts.CallRequested{At: at, Run: run, Call: d, Tool: "nothing"},
		contracts.CallFinished{At: at, Run: run, Call: d, Name: "nothing", Status: contracts.StatusError, Code: contracts.CodeUnknownTool},
	}
	want = contracts.Report{
		Run: run, State: contracts.RunStatePlanned, Surface: contracts.SurfaceTools, Opened: at, Decision: plan.Decision,
		Catalogue: contracts.CatalogueRef{Hash: "h2", Revision: 2, Size: 61},
		Seen:      plan.Seen, Direct: plan.Direct, Saved: contracts.Cost{Bytes: 38_000, Tokens: 8_520},
		Searches: []contracts.ReportSearch{
			{Query: "when is it", Total: 5, Ms: .25},
			{Query: "plan a meeting", Hits: 2, Total: 5, CalledRank: 2, Ms: .25},
			{Query: "what is planned", Hits: 1, Total: 5, CalledRank: 1, Ms: .25},
		},
		Describes: []contracts.ToolID{create.ID},
		Calls: []contracts.ReportCall{
			{CallID: a, Tool: string(create.ID), Source: "mcp", Status: contracts.StatusOK, Ms: 12},
			{CallID: b, Tool: string(list.ID), Source: "mcp", Status: contracts.StatusBlocked, Code: contracts.CodePolicyDenied},
			{CallID: c, Tool: string(now.ID), Source: "platform"},
			{CallID: d, Tool: "nothing", Status: contracts.StatusError, Code: contracts.CodeUnknownTool},
		},
		Bodies: []contracts.ReportBody{
			{BodyID: good, OK: true, Searches: 1, Calls: 1, Ms: 31},
			{BodyID: bad, Code: contracts.BodyTimeout, Describes: 2, Ms: 10_000},
			{BodyID: refused, Refused: contracts.CodeRateLimited},
			{BodyID: running, Running: true},
		},
		BySource: map[contracts.SourceKind]contracts.SourceUsage{
			"mcp": {Tools: 56, Bytes: 38_000, Tokens: 8_600, Calls: 2}, "platform": {Tools: 4, Bytes: 2_000, Tokens: 400, Calls: 1},
		},
	}
	return events, want
}

func ask(t *testing.T, b *bus.Bus, tn contracts.TenantID, run contracts.RunID) (contracts.Report, error) {
	t.Helper()
	return bus.Ask[contracts.Report](t.Context(), b, tn, contracts.VerbReport, contracts.ReportRequest{Run: run})
}

func TestReport(t *testing.T) {
	b := start(t)
	run := contracts.NewRunID()
	events, want := story(run)
	other, _ := story(contracts.NewRunID())
	publish(t, b, other...)
	publish(t, b, events...)
	got, err := ask(t, b, tenant, run)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	if _, err := ask(t, b, "other", run); contracts.CodeOf(err) != contracts.CodeNotFound {
		t.Errorf("another tenant's report = %v, want not_found", err)
	}
	if _, err := ask(t, b, tenant, "run_.>"); contracts.CodeOf(err) != contracts.CodeInvalid {
		t.Errorf("a wildcard for a run = %v, want invalid", err)
	}
}

// The server keeps a limited number of consumers: who read a run's events leaves none behind.
func TestReadersLeaveNoConsumers(t *testing.T) {
	b := start(t)
	run := contracts.NewRunID()
	events, _ := story(run)
	publish(t, b, events...)
	for range 5 {
		if _, err := ask(t, b, tenant, run); err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Ask[contracts.LogAnswer](t.Context(), b, tenant, contracts.VerbLog, contracts.LogRequest{Run: run, After: 1 << 40}); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, "there is but the consumer of the service", func() bool {
		s, err := b.JS.Stream(t.Context(), contracts.StreamEvents)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.Consumers == 1
	})
}

func TestLogPages(t *testing.T) {
	b := start(t)
	run := contracts.NewRunID()
	events, _ := story(run)
	publish(t, b, events...)
	var got []contracts.LogLine
	var after uint64
	for {
		a, err := bus.Ask[contracts.LogAnswer](t.Context(), b, tenant, contracts.VerbLog, contracts.LogRequest{Run: run, After: after, Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Lines) > 5 {
			t.Fatalf("%d lines, want at most 5", len(a.Lines))
		}
		got = append(got, a.Lines...)
		if !a.More {
			break
		}
		after = a.Lines[len(a.Lines)-1].Seq
	}
	if len(got) != len(events) {
		t.Fatalf("%d lines, want %d", len(got), len(events))
	}
	for i, l := range got {
		if s, _ := contracts.ParseSubject(events[i].Subject(tenant)); s.Type != l.Type || s.ID != l.ID {
			t.Errorf("line %d is %s %s, want %s %s", i, l.Type, l.ID, s.Type, s.ID)
		}
	}
}

// What a run was stays when the stream has dropped its events; a call that ends after the run is in it too.
func TestEndedRunIsKept(t *testing.T) {
	b := start(t)
	run := contracts.NewRunID()
	events, want := story(run)
	publish(t, b, events...)
	publish(t, b, contracts.RunClosed{At: at, Run: run, Ending: contracts.EndingClosed})
	straggler := want.Calls[2]
	publish(t, b, contracts.CallFinished{At: at, Run: run, Call: straggler.CallID, Tool: &now, Status: contracts.StatusCancelled, DurationMs: 3})
	last := want.Bodies[3]
	publish(t, b, contracts.BodyFinished{At: at, Run: run, Body: last.BodyID, Code: contracts.BodyCancelled, DurationMs: 4})
	want.State, want.Ended = contracts.RunStateClosed, at
	want.Bodies[3] = contracts.ReportBody{BodyID: last.BodyID, Code: contracts.BodyCancelled, Ms: 4}
	want.Calls[2].Status, want.Calls[2].Ms = contracts.StatusCancelled, 3

	archived := func() bool {
		cons, err := b.JS.Consumer(t.Context(), contracts.StreamEvents, "telemetry")
		if err != nil {
			return false
		}
		info, err := cons.Info(t.Context())
		return err == nil && info.AckFloor.Consumer > 0 && info.NumAckPending == 0
	}
	natstest.Eventually(t, "the log is kept", archived)
	s, err := b.JS.Stream(t.Context(), contracts.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(contracts.RunEvents(tenant, run))); err != nil {
		t.Fatal(err)
	}
	got, err := ask(t, b, tenant, run)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}
