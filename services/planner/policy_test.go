package planner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

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
		p.Basis, p.Policy, p.CatalogueBlob = "", "", "" // which no caller is told
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
		if !cmp.Equal(c.ids(acme, got.Plan), c.ids(bare, want.Plan)) || got.Plan.Catalogue.Hash != want.Plan.Catalogue.Hash || got.Plan.Catalogue.Size != 2 || got.Plan.Direct != want.Plan.Direct || got.Plan.Seen != want.Plan.Seen {
			t.Errorf("plans differ:\n%s\n%s", asJSON(t, got.Plan), asJSON(t, want.Plan))
		}
		cat, err := c.library.Catalogue(t.Context(), acme, got.Plan.CatalogueBlob)
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

func TestSurfaceByPolicy(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "list", "send")...)
	c.policy(acme, deny("platform:toolcrib:tool_search"))
	r := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`"tools"`)})
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

// A rule that asks what the run is shows each run what it may see, whoever was planned before it.
func TestRulesOverTheRun(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	c.list(acme, "mcp:mail", tools("mcp:mail", "list", "send")...)
	c.policy(acme, contracts.PolicyLayer{Level: "tenant", Rules: []contracts.PolicyRule{
		{Name: "readers", Effect: contracts.PolicyDeny, Tools: []string{"mcp:mail:send"}, When: `run.agent == "reader"`},
		{Name: "strangers", Effect: contracts.PolicyDeny, Tools: []string{"mcp:mail:list"}, When: `run.principal == "eve"`},
	}})
	for _, tt := range []struct {
		agent, principal string
		want             []string
	}{
		{"writer", "ann", []string{"mcp:mail:list", "mcp:mail:send"}},
		{"reader", "ann", []string{"mcp:mail:list"}},
		{"writer", "eve", []string{"mcp:mail:send"}},
		{"writer", "ann", []string{"mcp:mail:list", "mcp:mail:send"}},
	} {
		r := &contracts.Run{ID: contracts.NewRunID(), Principal: tt.principal, State: contracts.RunStateRequested, Created: time.Now().UTC(), Expires: time.Now().Add(time.Hour).UTC()}
		r.Request.Agent = tt.agent
		got := c.settled(acme, c.create(acme, r))
		if got.Plan == nil {
			t.Fatalf("%s of %s: not planned: %v", tt.agent, tt.principal, got.Error)
		}
		if diff := cmp.Diff(tt.want, c.ids(acme, got.Plan)); diff != "" {
			t.Errorf("%s of %s sees (-want +got):\n%s", tt.agent, tt.principal, diff)
		}
	}
}

// A source that is pending is waited for where a rule lets its tools through, as where an allow list does.
func TestAllowRulesShowPendingSources(t *testing.T) {
	t.Parallel()
	layer := contracts.PolicyLayer{Level: "tenant", Rules: []contracts.PolicyRule{{Name: "mail", Effect: contracts.PolicyAllow, Tools: []string{"mcp:mail:get_*"}}}}
	p, err := policy.Compile([]contracts.PolicyLayer{layer})
	if err != nil {
		t.Fatal(err)
	}
	e := p.For(contracts.Labels{})
	for source, want := range map[string]bool{"mcp:mail": true, "mcp:other": false} {
		id, err := contracts.ParseSourceID(source)
		if err != nil {
			t.Fatal(err)
		}
		if got := couldShow(e, id); got != want {
			t.Errorf("couldShow(%s) = %v, want %v", source, got, want)
		}
	}
}
