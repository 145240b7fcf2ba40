package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	pinned := tool("mcp:mail", "send", "Sends mail.")
	pinned.Loading = contracts.LoadingDirect
	c.list(acme, "mcp:mail", pinned, tool("mcp:mail", "list", "Lists mail."))
	c.list(acme, "platform:core", tools("platform:core", "now")...)
	c.mark(acme, "mcp:late", contracts.SourceStatePending, "")
	c.mark(acme, "mcp:down", contracts.SourceStateFailed, "connection\u200b refused")
	own := tool("client:client", "open_file", "Opens a file.")
	own.Bytes, own.Tokens = 0, 0 // a gateway may not measure
	r := c.open(acme, contracts.RunRequest{ClientTools: c.clientTools(acme, own)})

	p := r.Plan
	if diff := cmp.Diff([]string{"client:client:open_file", "mcp:mail:list", "mcp:mail:send", "platform:core:now"}, c.ids(acme, p)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if p.Catalogue.Revision != 1 || p.Catalogue.Size != 4 || !cmp.Equal(p.Catalogue.Sources, map[contracts.SourceKind]int{"client": 1, "mcp": 2, "platform": 1}) {
		t.Errorf("catalogue = %+v, want revision 1 with 1 client tool, 2 of mcp and 1 of platform", p.Catalogue)
	}
	source := func(o string) contracts.SourceID { return contracts.SourceID{Kind: contracts.SourceMCP, Owner: o} }
	if diff := cmp.Diff([]contracts.SourceStatus{{Source: source("late")}}, p.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]contracts.SourceStatus{{Source: source("down"), Reason: "connection refused"}}, p.Failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	if p.Surface != contracts.SurfaceTools || p.Decision.Surface != contracts.SurfaceTools {
		t.Errorf("surface = %s, decision %s; want tools", p.Surface, p.Decision.Surface)
	}
	if p.Basis != c.s.state.Basis(acme) {
		t.Errorf("basis = %q, want that of now, %q", p.Basis, c.s.state.Basis(acme))
	}
	if layers, err := c.library.Layers(t.Context(), acme, p.Policy); err != nil || len(layers) != 0 {
		t.Errorf("layers = %v, %v; want none", layers, err)
	}
	if r.Planned.IsZero() || r.Planned.Before(r.Created) {
		t.Errorf("planned at %v, want after %v", r.Planned, r.Created)
	}

	s := c.surface(acme, r)
	if n := len(s.Tools); n != 4 || s.Tools[3].Name != "mail__send" {
		t.Errorf("tools = %s, want the menu and mail__send", asJSON(t, s.Tools))
	}
	list, err := compact(s.Tools)
	c.check(err)
	want := contracts.Seen{Tools: 4, Schemas: 1, ToolBytes: len(list), PromptBytes: len(s.Prompt), Tokens: tokens.Count(string(list)) + tokens.Count(s.Prompt)}
	if p.Seen != want {
		t.Errorf("seen = %+v, want %+v", p.Seen, want)
	}
	by := map[contracts.SourceKind]contracts.Cost{}
	var all contracts.Cost
	for _, x := range []contracts.Tool{tool("client:client", "open_file", "Opens a file."), pinned, tool("mcp:mail", "list", "Lists mail."), tools("platform:core", "now")[0]} {
		id, _, err := x.ID.Split()
		c.check(err)
		of := by[id.Kind]
		by[id.Kind] = contracts.Cost{Bytes: of.Bytes + x.Bytes, Tokens: of.Tokens + x.Tokens}
		all = contracts.Cost{Bytes: all.Bytes + x.Bytes, Tokens: all.Tokens + x.Tokens}
	}
	if p.Direct != all || !cmp.Equal(p.BySource, by) {
		t.Errorf("direct exposure costs %+v, %+v; want %+v, %+v", p.Direct, p.BySource, all, by)
	}

	planned := events[contracts.RunPlanned](c, acme, r.ID)
	if len(planned) != 1 || asJSON(t, planned[0].Plan) != asJSON(t, p) || !planned[0].At.Equal(r.Planned) {
		t.Errorf("events = %s, want one with the plan", asJSON(t, planned))
	}
}

// A run that is planned, failed or closed stays as it is when its request is delivered again.
func TestPlanOnce(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	planned := c.open(acme, contracts.RunRequest{})
	failed := c.settled(acme, c.request(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`"sometimes"`)}))
	closed := c.open(acme, contracts.RunRequest{})
	_, err := c.runs.Transition(t.Context(), contracts.RunKey(acme, closed.ID), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State = contracts.RunStateClosed
		return nil, nil
	})
	c.check(err)
	c.list(acme, "mcp:new", tools("mcp:new", "thing")...)
	for _, id := range []contracts.RunID{planned.ID, failed.ID, closed.ID, contracts.NewRunID()} {
		c.again(acme, contracts.RunRequested{Run: id})
	}
	if got := c.run(acme, planned.ID); asJSON(t, got.Plan) != asJSON(t, planned.Plan) {
		t.Errorf("the plan changed:\n%s\n%s", asJSON(t, planned.Plan), asJSON(t, got.Plan))
	}
	if n := len(events[contracts.RunPlanned](c, acme, planned.ID)); n != 1 {
		t.Errorf("the run was planned %d times, want once", n)
	}
	if failed.State != contracts.RunStateFailed || failed.Error.Code != contracts.CodeInvalid || failed.Ended.IsZero() {
		t.Errorf("a run with a wrong toolSearch is %s with %v, want failed with %s", failed.State, failed.Error, contracts.CodeInvalid)
	}
	if e := events[contracts.RunFailed](c, acme, failed.ID); len(e) != 1 || e[0].Error.Message != failed.Error.Message {
		t.Errorf("events = %s, want one with the error", asJSON(t, e))
	}
	if got := c.run(acme, closed.ID); got.State != contracts.RunStateClosed {
		t.Errorf("the closed run is %s", got.State)
	}
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.list(acme, "mcp:hidden", tools("mcp:hidden", "open")...)
	c.list(acme, "platform:core", tools("platform:core", "now")...)
	c.policy(acme, deny("mcp:hidden:*", "client:client:mail__send2"))
	for _, tt := range []struct {
		name string
		own  []string
		want []string // ids that the error names; none where the run opens
	}{
		{"nothing alike", []string{"open_file", "send", "now"}, nil},
		{"the exposed name of a tool", []string{"mail__send"}, []string{"client:client:mail__send", "mcp:mail:send"}},
		{"in another case", []string{"Mail__SEND"}, []string{"client:client:Mail__SEND", "mcp:mail:send"}},
		{"of a platform tool", []string{"platform__core__now"}, []string{"client:client:platform__core__now", "platform:core:now"}},
		{"of a hidden tool", []string{"hidden__open"}, nil},
		{"tool_search", []string{"tool_search"}, []string{"client:client:tool_search", "platform:toolcrib:tool_search"}},
		{"tool_describe", []string{"tool_describe"}, []string{"client:client:tool_describe", "platform:toolcrib:tool_describe"}},
		{"tool_call", []string{"TOOL_CALL"}, []string{"client:client:TOOL_CALL", "platform:toolcrib:tool_call"}},
		{"tool_search_code", []string{"tool_search_code"}, []string{"client:client:tool_search_code", "platform:toolcrib:tool_search_code"}},
		{"two of one name", []string{"open", "open"}, []string{"client:client:open", "client:client:open"}},
		{"two that differ in case", []string{"open", "Open"}, []string{"client:client:open", "client:client:Open"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := contracts.RunRequest{ClientTools: c.clientTools(acme, tools("client:client", tt.own...)...)}
			if tt.want == nil {
				c.open(acme, q)
				return
			}
			e := c.refuse(acme, q)
			if e.Code != contracts.CodeNameCollision {
				t.Errorf("error = %v, want %s", e, contracts.CodeNameCollision)
			}
			for _, id := range tt.want {
				if !strings.Contains(e.Message, `"`+id+`"`) {
					t.Errorf("message = %q, want %q in it", e.Message, id)
				}
			}
		})
	}
}

func TestClientToolsThatAreNone(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	stolen := c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	for name, h := range map[string]contracts.Hash{"a listing that is gone": contracts.HashOf([]byte("x")), "another source's": stolen.Listing} {
		if e := c.refuse(acme, contracts.RunRequest{ClientTools: h}); e.Code != contracts.CodeInvalid || !strings.Contains(e.Message, "clientTools") {
			t.Errorf("%s: error = %v, want %s for clientTools", name, e, contracts.CodeInvalid)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{Tenants: map[contracts.TenantID]Tenant{acme: {MaxTools: 3}}})
	c.list(acme, "mcp:mail", tools("mcp:mail", "a", "b", "c", "hidden")...)
	c.policy(acme, deny("*:hidden"))
	c.open(acme, contracts.RunRequest{})
	e := c.refuse(acme, contracts.RunRequest{ClientTools: c.clientTools(acme, tools("client:client", "own")...)})
	if e.Code != contracts.CodeCatalogueTooLarge || !strings.Contains(e.Message, "4 tools") || !strings.Contains(e.Message, "is 3") {
		t.Errorf("error = %v, want %s with 4 and 3", e, contracts.CodeCatalogueTooLarge)
	}
	c.list("other", "mcp:mail", tools("mcp:mail", "a", "b", "c", "d", "e")...)
	c.open("other", contracts.RunRequest{})
}

// A run whose request was lost is planned all the same.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "dead"}, State: contracts.SourceStatePending, AlwaysLoad: true})
	r := &contracts.Run{ID: contracts.NewRunID(), State: contracts.RunStateRequested, Created: time.Now().Add(-time.Minute)}
	c.check(c.runs.Create(t.Context(), contracts.RunKey(acme, r.ID), r))
	got := c.settled(acme, r.ID)
	if got.State != contracts.RunStatePlanned || got.Plan.Catalogue.Size != 1 {
		t.Errorf("the run is %s", got.State)
	}
	if want := r.Created.Add(defaultLife); !got.Expires.Equal(want) {
		t.Errorf("expires = %v, want %v", got.Expires, want)
	}
}

// An event that a crash left in the record of a run is published.
func TestUnsentEvent(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	id := contracts.NewRunID()
	e := contracts.RunClosed{Run: id, Ending: contracts.EndingClosed}
	r := &contracts.Run{ID: id, State: contracts.RunStateClosed}
	r.Unsent = []contracts.Note{{Subject: e.Subject(acme), MsgID: "left", Data: json.RawMessage(asJSON(t, e))}}
	c.check(func() error { // as a crash leaves it: the note stands in the record, and nothing was published
		kv, err := c.bus.JS.KeyValue(t.Context(), contracts.BucketRuns)
		if err == nil {
			_, err = kv.Create(t.Context(), string(contracts.RunKey(acme, id)), []byte(asJSON(t, r)))
		}
		return err
	}())
	c.until("the note is gone", func() bool { return len(c.run(acme, id).Unsent) == 0 })
	if n := len(events[contracts.RunClosed](c, acme, id)); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// A listing that cannot be read harms its source alone.
func TestUnreadableListing(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "lost"}, State: contracts.SourceStateReady, Listing: contracts.HashOf([]byte("lost"))})
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "vault"}, State: contracts.SourceStateReady, Listing: contracts.HashOf([]byte("vault"))})
	c.policy(acme, deny("mcp:vault:*"))
	r := c.open(acme, contracts.RunRequest{})
	if r.Plan.Catalogue.Size != 1 || len(r.Plan.Failed) != 1 || r.Plan.Failed[0].Source.Owner != "lost" {
		t.Errorf("%d tools and failed %v, want 1 and mcp:lost", r.Plan.Catalogue.Size, r.Plan.Failed)
	}
}

func TestAutoByMeasuredTokens(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	pinned := tool("mcp:mail", "pinned", strings.Repeat("long ", 500))
	pinned.Loading = contracts.LoadingDirect
	list := append(tools("mcp:mail", "a", "b", "c"), pinned)
	c.list(acme, "mcp:mail", list...)
	deferred := 0
	for _, x := range list[:3] {
		deferred += x.Tokens
	}
	for window, want := range map[int]contracts.SurfaceMode{deferred * 10: contracts.SurfaceTools, deferred*10 + 1: contracts.SurfaceDirect} {
		r := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`"auto"`), ContextWindow: window})
		if r.Plan.Surface != want {
			t.Errorf("in a window of %d, %d tokens give the surface %s, want %s", window, deferred, r.Plan.Surface, want)
		}
		if v := asJSON(t, condition(r.Plan.Decision, conditionDefinitions).Value); v != fmt.Sprint(deferred) {
			t.Errorf("the decision tells of %s tokens, want %d", v, deferred)
		}
	}
}

func TestOnlyUsableListings(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:empty")
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "odd"}, State: contracts.SourceStateReady})
	kept := c.list(acme, "mcp:kept", tools("mcp:kept", "thing")...)
	kept.Reason = "the last refresh failed"
	c.put(acme, *kept)
	r := c.open(acme, contracts.RunRequest{})
	if diff := cmp.Diff([]string{"mcp:kept:thing"}, c.ids(acme, r.Plan)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if len(r.Plan.Pending) != 1 || r.Plan.Pending[0].Source.Owner != "odd" || len(r.Plan.Failed) != 0 {
		t.Errorf("pending = %v and failed = %v, want only mcp:odd pending", r.Plan.Pending, r.Plan.Failed)
	}
	if p := c.surface(acme, r).Prompt; strings.Contains(p, "empty") {
		t.Errorf("the prompt names a source without tools: %s", p)
	}
}

func TestConfigIsChecked(t *testing.T) {
	c := newCrib(t, Config{})
	for name, cfg := range map[string]Config{
		"a surface that cannot be built": {Surfaces: []contracts.SurfaceMode{contracts.SurfaceDirectory}},
		"a limit below 0":                {Tenants: map[contracts.TenantID]Tenant{acme: {MaxTools: -1}}},
		"a tenant that is none":          {Tenants: map[contracts.TenantID]Tenant{"a.b": {}}},
	} {
		if _, err := New(t.Context(), c.bus, cfg, nil); contracts.CodeOf(err) != contracts.CodeInvalid {
			t.Errorf("%s: New() = %v, want %s", name, err, contracts.CodeInvalid)
		}
	}
	if got := (&Config{Surfaces: []contracts.SurfaceMode{}}).surfaces(); !slices.Equal(got, []contracts.SurfaceMode{contracts.SurfaceDirect}) {
		t.Errorf("surfaces() = %v, want direct, which is always there", got)
	}
}
