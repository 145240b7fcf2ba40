package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
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

// What policy hides leaves no trace: the run of a tenant that has it equals that of one for whom it never existed.
func TestHiddenLeavesNoTrace(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	const bare contracts.TenantID = "bare"
	for _, tenant := range []contracts.TenantID{acme, bare} {
		c.list(tenant, "mcp:mail", tools("mcp:mail", "list", "send")...)
	}
	vault := listing("mcp:vault", tools("mcp:vault", "read", "open_file")...)
	vault.Title, vault.Instructions = "Vault", "Never speak of the vault."
	c.listAs(acme, vault)
	c.mark(acme, "mcp:vault-late", contracts.SourceStatePending, "")
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "vault-needed"}, State: contracts.SourceStatePending, AlwaysLoad: true})
	c.mark(acme, "mcp:vault-down", contracts.SourceStateFailed, "the vault is on fire")
	c.policy(acme, deny("mcp:vault*", "client:client:secret"))
	q := func(tenant contracts.TenantID, own ...string) contracts.RunRequest {
		return contracts.RunRequest{WaitForSources: 60_000, ClientTools: c.clientTools(tenant, tools("client:client", own...)...)}
	}
	// The hidden client tool would collide, and a hidden tool has the exposed name of a visible one.
	got := c.open(acme, q(acme, "open_file", "vault__read", "secret"))
	want := c.open(bare, q(bare, "open_file", "vault__read"))
	if n := c.ids(acme, got.Plan); len(n) != 4 {
		t.Fatalf("the run sees %v, want 4 tools", n)
	}
	if g, w := asJSON(t, c.surface(acme, got)), asJSON(t, c.surface(bare, want)); g != w || got.Plan.SurfaceHash != want.Plan.SurfaceHash {
		t.Errorf("surfaces differ:\n%s\n%s", g, w)
	}
	strip := func(p contracts.Plan) string {
		p.Basis, p.Policy = "", ""
		p.Catalogue.Hash = "" // of the client's listing with its hidden tool; compared below without it
		return asJSON(t, p)
	}
	if g, w := strip(*got.Plan), strip(*want.Plan); g != w {
		t.Errorf("plans differ:\n%s\n%s", g, w)
	}
	for _, r := range []struct {
		name string
		text string
	}{{"surface", asJSON(t, c.surface(acme, got))}, {"plan", strip(*got.Plan)}} {
		if strings.Contains(r.text, "vault-") || strings.Contains(r.text, "Vault") || strings.Contains(r.text, "secret") {
			t.Errorf("the %s tells of what is hidden: %s", r.name, r.text)
		}
	}

	got = c.open(acme, q(acme, "open_file"))
	want = c.open(bare, q(bare, "open_file"))
	if got.Plan.Catalogue.Hash != want.Plan.Catalogue.Hash {
		t.Errorf("catalogues differ: %s, %s", got.Plan.Catalogue.Hash, want.Plan.Catalogue.Hash)
	}
}

// Tools of a listing that are hidden change neither surface nor counts.
func TestHiddenToolsOfAListing(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	const bare contracts.TenantID = "bare"
	c.list(acme, "mcp:mail", tools("mcp:mail", "delete", "list", "purge", "send")...)
	c.list(bare, "mcp:mail", tools("mcp:mail", "list", "send")...)
	c.policy(acme, deny("*:delete", "*:purge"))
	for _, mode := range []string{`"tools"`, `"direct"`} {
		q := contracts.RunRequest{ToolSearch: json.RawMessage(mode)}
		got, want := c.open(acme, q), c.open(bare, q)
		if g, w := asJSON(t, c.surface(acme, got)), asJSON(t, c.surface(bare, want)); g != w {
			t.Errorf("surfaces differ:\n%s\n%s", g, w)
		}
		if !cmp.Equal(c.ids(acme, got.Plan), c.ids(bare, want.Plan)) || got.Plan.Catalogue.Size != 2 || got.Plan.Direct != want.Plan.Direct || got.Plan.Seen != want.Plan.Seen {
			t.Errorf("plans differ:\n%s\n%s", asJSON(t, got.Plan), asJSON(t, want.Plan))
		}
		cat, err := c.library.Catalogue(t.Context(), acme, got.Plan.Catalogue.Hash)
		c.check(err)
		if diff := cmp.Diff([]int{0, 2}, cat.Parts[0].Hidden); diff != "" {
			t.Errorf("hidden positions (-want +got):\n%s", diff)
		}
	}
}

func TestPolicyThatCannotBeEvaluated(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.policy(acme, deny("mcp:secret-project:*", "mcp:[secret"))
	e := c.refuse(acme, contracts.RunRequest{})
	if e.Code != contracts.CodePolicyDenied || !strings.Contains(e.Message, "policy") || strings.Contains(e.Message, "secret") {
		t.Errorf("error = %v, want %s without the policy's text", e, contracts.CodePolicyDenied)
	}
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	c.open("other", contracts.RunRequest{})
}

// Layers of profile and agent hold for the runs with these labels alone.
func TestPolicyByLabels(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "list", "send")...)
	c.policy(acme, contracts.PolicyLayer{Level: "agent", Name: "reader", Deny: []string{"*:send"}})
	for agent, want := range map[string]int{"reader": 1, "writer": 2, "": 2} {
		r := c.open(acme, contracts.RunRequest{Labels: contracts.Labels{Agent: agent}})
		if got := len(c.ids(acme, r.Plan)); got != want {
			t.Errorf("agent %q sees %d tools, want %d", agent, got, want)
		}
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

func TestAlwaysLoadIsAwaited(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.mark(acme, "mcp:other", contracts.SourceStatePending, "")
	needed := contracts.SourceID{Kind: contracts.SourceMCP, Owner: "needed"}
	c.put(acme, contracts.SourceRecord{Source: needed, State: contracts.SourceStatePending, AlwaysLoad: true})
	id := c.request(acme, contracts.RunRequest{})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	// News of another tenant do not end it.
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	thing := tool("mcp:needed", "thing", "Does it.")
	thing.Loading = contracts.LoadingDirect
	l := listing("mcp:needed", thing)
	h, err := c.library.PutListing(t.Context(), acme, l)
	c.check(err)
	c.put(acme, contracts.SourceRecord{Source: needed, State: contracts.SourceStateReady, Listing: h, Tools: 1, Discovered: time.Now(), AlwaysLoad: true})
	r := c.settled(acme, id)
	if took := r.Planned.Sub(r.Created); took >= loadWait {
		t.Errorf("planning took %v, want it to go on at once when the source is there", took)
	}
	if s := c.surface(acme, r); s.Tools[len(s.Tools)-1].Name != "needed__thing" {
		t.Errorf("tools = %s, want needed__thing among them", asJSON(t, s.Tools))
	}
	if len(r.Plan.Pending) != 1 || r.Plan.Pending[0].Source.Owner != "other" {
		t.Errorf("pending = %v, want only mcp:other, which nobody waits for", r.Plan.Pending)
	}
	c.until("nobody waits", func() bool { return c.waiting(acme) == 0 })
}

func (c *crib) waiting(t contracts.TenantID) int {
	c.s.waits.mu.Lock()
	defer c.s.waits.mu.Unlock()
	return c.s.waits.n[string(t)]
}

func TestAlwaysLoadIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.put(acme, contracts.SourceRecord{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "dead"}, State: contracts.SourceStatePending, AlwaysLoad: true})
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	id := c.request(acme, contracts.RunRequest{})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	if r := c.open("other", contracts.RunRequest{}); r.Planned.Sub(r.Created) >= loadWait {
		t.Error("the run of another tenant was held up")
	}
	r := c.settled(acme, id)
	if took := r.Planned.Sub(r.Created); took < loadWait || took > loadWait+3*time.Second {
		t.Errorf("planning took %v, want %v", took, loadWait)
	}
	if len(r.Plan.Pending) != 1 || r.Plan.Pending[0].Source.Owner != "dead" {
		t.Errorf("pending = %v, want mcp:dead", r.Plan.Pending)
	}
}

func TestWaitForSources(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	c.mark(acme, "mcp:broken", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	if r := c.run(acme, id); r.State != contracts.RunStateRequested {
		t.Errorf("the run is %s while a source is pending, want requested", r.State)
	}
	c.mark(acme, "mcp:broken", contracts.SourceStateFailed, "no such program")
	r := c.settled(acme, id)
	if got := c.ids(acme, r.Plan); len(got) != 1 || len(r.Plan.Pending) != 0 || len(r.Plan.Failed) != 1 {
		t.Errorf("the run has %v, pending %v and failed %v; want the tool and the failed source", got, r.Plan.Pending, r.Plan.Failed)
	}
	c.mark(acme, "mcp:never", contracts.SourceStatePending, "")
	r = c.open(acme, contracts.RunRequest{WaitForSources: 50})
	if took := r.Planned.Sub(r.Created); took < 50*time.Millisecond || len(r.Plan.Pending) != 1 {
		t.Errorf("planning took %v with pending %v, want 50ms and mcp:never", took, r.Plan.Pending)
	}
}

// A planner that stops while a run waits does not wait with it, and another takes the run over.
func TestStopWhileARunWaits(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	begin := time.Now()
	if err := c.stop(); err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("stopping took %v and gave %v", time.Since(begin), err)
	}
	c.configure(Config{})
	c.start()
	c.until("the run waits again", func() bool { return c.waiting(acme) == 1 })
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	if r := c.settled(acme, id); r.State != contracts.RunStatePlanned || r.Plan.Catalogue.Size != 1 {
		t.Errorf("the run is %s: %s", r.State, asJSON(t, r.Plan))
	}
}

// A run that is closed while it waits stays closed.
func TestCloseWhileARunWaits(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	id := c.request(acme, contracts.RunRequest{WaitForSources: 60_000})
	c.until("the run waits", func() bool { return c.waiting(acme) == 1 })
	_, err := c.runs.Transition(t.Context(), contracts.RunKey(acme, id), func(r *contracts.Run) ([]contracts.Event, error) {
		r.State, r.Ending = contracts.RunStateClosed, contracts.EndingClosed
		return nil, nil
	})
	c.check(err)
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	c.again(acme, contracts.RunRequested{Run: id})
	if r := c.run(acme, id); r.State != contracts.RunStateClosed || r.Plan != nil {
		t.Errorf("the run is %s with plan %s, want closed without one", r.State, asJSON(t, r.Plan))
	}
}

// Runs of one tenant that wait do not take every place.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.mark(acme, "mcp:slow", contracts.SourceStatePending, "")
	c.list("other", "mcp:mail", tools("mcp:mail", "send")...)
	var ids []contracts.RunID
	for range mostWaiting + 10 {
		ids = append(ids, c.request(acme, contracts.RunRequest{WaitForSources: 60_000}))
	}
	c.until("as many wait as can", func() bool { return c.waiting(acme) == mostWaiting })
	c.open("other", contracts.RunRequest{})
	c.list(acme, "mcp:slow", tools("mcp:slow", "thing")...)
	for _, id := range ids {
		if r := c.settled(acme, id); r.State != contracts.RunStatePlanned || r.Plan.Catalogue.Size != 1 {
			t.Fatalf("run %s is %s", id, r.State)
		}
	}
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

// Of a listing that is no longer fresh the executor is told, and the run does not wait for it.
func TestStaleListing(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	asked := make(chan contracts.DiscoverRequest, 10)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- c.bus.Serve(ctx, "executor", bus.Answers(contracts.VerbDiscover, func(_ context.Context, _ contracts.TenantID, q contracts.DiscoverRequest) (contracts.DiscoverAnswer, error) {
			asked <- q
			<-answer
			return contracts.DiscoverAnswer{}, contracts.Errorf(contracts.CodeUnavailable, "not now")
		}))
	}()
	defer func() { close(answer); cancel(); <-served }()
	old := c.list(acme, "mcp:old", tools("mcp:old", "thing")...)
	old.Discovered = time.Now().Add(-contracts.ListingFresh - time.Minute)
	_, err := c.sources.Transition(t.Context(), contracts.SourceKey(acme, old.Source), func(r *contracts.SourceRecord) ([]contracts.Event, error) {
		r.Discovered = old.Discovered
		return nil, nil
	})
	c.check(err)
	c.until("the planner knows its age", func() bool {
		records, _ := c.s.state.Sources(acme)
		return records[0].Discovered.Equal(old.Discovered)
	})
	c.list(acme, "mcp:fresh", tools("mcp:fresh", "thing")...)
	for range 3 { // one question is on its way at a time
		if r := c.open(acme, contracts.RunRequest{}); r.Plan.Catalogue.Size != 2 || len(r.Plan.Pending) != 0 {
			t.Errorf("%d tools with pending %v, want both sources used", r.Plan.Catalogue.Size, r.Plan.Pending)
		}
	}
	q := <-asked
	if len(q.Sources) != 1 || q.Sources[0] != old.Source || q.Wait != 0 {
		t.Errorf("asked for %+v, want %v without waiting", q, old.Source)
	}
	if len(asked) != 0 {
		t.Errorf("asked %d times more while the first question was open", len(asked))
	}
}

func TestSurfaceByPolicy(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "list", "send")...)
	c.policy(acme, deny("platform:toolcrib:tool_search"))
	r := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`true`)})
	s := c.surface(acme, r)
	if r.Plan.Surface != contracts.SurfaceDirect || len(s.Tools) != 2 || strings.Contains(s.Prompt, "tool_search") || r.Plan.Decision.Winner != conditionSearchTools {
		t.Errorf("surface %s because of %s: %s", r.Plan.Surface, r.Plan.Decision.Winner, asJSON(t, s))
	}
	// An allow list of other tools is not about the search tool.
	c.policy(acme, allow("mcp:mail:*"))
	if r := c.open(acme, contracts.RunRequest{}); r.Plan.Surface != contracts.SurfaceTools {
		t.Errorf("surface %s, want tools", r.Plan.Surface)
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

func TestCodeUnavailable(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	if e := c.refuse(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`{"codeUnavailable":"refuse"}`)}); e.Code != contracts.CodeUnavailable || !strings.Contains(e.Message, "codeUnavailable") {
		t.Errorf("error = %v, want %s that names codeUnavailable", e, contracts.CodeUnavailable)
	}
	for _, wish := range []string{`{"codeUnavailable":"tools"}`, `{"mode":"tools","codeUnavailable":"refuse"}`, `{"auto":50,"codeUnavailable":"refuse"}`, `{"enabled":false,"codeUnavailable":"refuse"}`} {
		c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(wish)})
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

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	c.list("other", "mcp:bank", tools("mcp:bank", "pay")...)
	r := c.open("other", contracts.RunRequest{})
	if diff := cmp.Diff([]string{"mcp:bank:pay"}, c.ids("other", r.Plan)); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
	if text := asJSON(t, r.Plan) + asJSON(t, c.surface("other", r)); strings.Contains(text, "mail") {
		t.Errorf("the plan tells of another tenant: %s", text)
	}
	own := c.clientTools(acme, tools("client:client", "open")...)
	if e := c.refuse("other", contracts.RunRequest{ClientTools: own}); e.Code != contracts.CodeInvalid {
		t.Errorf("error = %v, want %s for the client tools of another tenant", e, contracts.CodeInvalid)
	}
}

func TestPoliciesOfTheFile(t *testing.T) {
	t.Parallel()
	layer := deny("mcp:vault:*")
	c := newCrib(t, Config{Tenants: map[contracts.TenantID]Tenant{acme: {Layers: []contracts.PolicyLayer{layer}}, "free": {}}})
	for _, tenant := range []contracts.TenantID{acme, "free"} {
		c.list(tenant, "mcp:vault", tools("mcp:vault", "open")...)
	}
	c.start()
	for tenant, want := range map[contracts.TenantID]int{acme: 0, "free": 1} {
		if r := c.open(tenant, contracts.RunRequest{}); r.Plan.Catalogue.Size != want {
			t.Errorf("a run of %s has %d tools, want %d", tenant, r.Plan.Catalogue.Size, want)
		}
	}
	record := func() (layers []contracts.PolicyLayer, revision uint64) {
		kv, err := c.bus.JS.KeyValue(t.Context(), contracts.BucketPolicies)
		c.check(err)
		e, err := kv.Get(t.Context(), string(contracts.PolicyKey(acme, contracts.PolicyFile)))
		c.check(err)
		var r contracts.PolicyRecord
		c.check(json.Unmarshal(e.Value(), &r))
		return r.Layers, e.Revision()
	}
	layers, first := record()
	if diff := cmp.Diff([]contracts.PolicyLayer{layer}, layers); diff != "" {
		t.Errorf("stored layers (-want +got):\n%s", diff)
	}
	restart := func(cfg Config) {
		c.check(c.stop())
		c.configure(cfg)
		c.start()
	}
	restart(Config{Tenants: map[contracts.TenantID]Tenant{acme: {Layers: []contracts.PolicyLayer{layer}}}})
	if _, again := record(); again != first {
		t.Errorf("equal layers were written again: revision %d, then %d", first, again)
	}
	restart(Config{Tenants: map[contracts.TenantID]Tenant{acme: {Layers: []contracts.PolicyLayer{allow("mcp:none:*"), layer}}}})
	if layers, _ := record(); len(layers) != 2 {
		t.Errorf("layers = %v, want the two of the new file", layers)
	}
	restart(Config{})
	if layers, _ := record(); len(layers) != 0 {
		t.Errorf("layers = %v, want none", layers)
	}
	if r := c.open(acme, contracts.RunRequest{}); r.Plan.Catalogue.Size != 1 {
		t.Errorf("a run has %d tools once the file hides none, want 1", r.Plan.Catalogue.Size)
	}
}

func TestConfigIsChecked(t *testing.T) {
	c := newCrib(t, Config{})
	for name, cfg := range map[string]Config{
		"a surface that cannot be built": {Surfaces: []contracts.SurfaceMode{contracts.SurfaceCode}},
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
