package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

func TestSources(t *testing.T) {
	w := open(t, gateway.Config{})
	admin := client.New(w.base, adminToken)
	table, err := store.OpenTable[contracts.SourceRecord](t.Context(), w.bus, contracts.BucketSources)
	if err != nil {
		t.Fatal(err)
	}
	for tenant, owner := range map[contracts.TenantID]string{"local": "calendar", "other": "secret"} {
		id := contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner}
		err := table.Create(t.Context(), contracts.SourceKey(tenant, id), &contracts.SourceRecord{
			Source: id, State: contracts.SourceStateFailed, Reason: "refused", Tools: 3, AlwaysLoad: true,
			Skipped: []contracts.SkippedTool{{Name: "x", Reason: "no schema"}}, Discovered: time.Unix(1e9, 0).UTC(), Listing: "ab",
			Admission: &contracts.SourceAdmission{Changed: 1, Quarantined: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []client.Source
	await(t, "the source is known", func() bool {
		got, err = admin.Sources(t.Context())
		return err != nil || len(got) > 0
	})
	want := []client.Source{{
		Source: calendar, State: contracts.SourceStateFailed, Reason: "refused", Tools: 3, AlwaysLoad: true, Changed: 1, Quarantined: 2,
		Skipped: []contracts.SkippedTool{{Name: "x", Reason: "no schema"}}, Discovered: time.Unix(1e9, 0).UTC(), Listing: "ab",
	}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("Sources(), %v (-want +got):\n%s", err, d)
	}
	fresh, err := admin.RefreshSource(t.Context(), calendar)
	if err != nil || fresh.State != contracts.SourceStateReady || fresh.Tools != 4 {
		t.Errorf("RefreshSource() = %+v, %v", fresh, err)
	}
	for _, id := range []string{"mcp:none", "nonsense", "mcp:"} {
		a := w.do(t, "POST", "/v1/sources/"+id+"/refresh", "", "Authorization", "Bearer "+adminToken)
		if p := a.problem(t); a.status != 404 || p.Code != contracts.CodeNotFound {
			t.Errorf("refresh of %q = %d %s, want 404", id, a.status, a.body)
		}
	}
}

func TestPolicies(t *testing.T) {
	w := open(t, gateway.Config{})
	admin := client.New(w.base, adminToken)
	if err := admin.DeletePolicies(t.Context()); err != nil {
		t.Errorf("DeletePolicies() of none = %v", err)
	}
	table, err := store.OpenTable[contracts.PolicyRecord](t.Context(), w.bus, contracts.BucketPolicies)
	if err != nil {
		t.Fatal(err)
	}
	file := []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"mcp:ops:*"}}}
	if err := table.Create(t.Context(), contracts.PolicyKey("local", contracts.PolicyFile), &contracts.PolicyRecord{Layers: file}); err != nil {
		t.Fatal(err)
	}
	for _, layers := range [][]contracts.PolicyLayer{
		{{Level: "agent", Name: "a", Allow: []string{"mcp:*"}}, {Level: "tenant", Deny: []string{"mcp:mail:send"}}},
		{{Level: "tenant", Deny: []string{"mcp:x:*"}}},
		{{Level: "tenant", Rules: []contracts.PolicyRule{
			{Name: "small", Effect: contracts.PolicyAllow, Tools: []string{"mcp:bank:*"}, When: "args.amount < 10"},
			{Name: "big", Effect: contracts.PolicyApprove, Approval: &contracts.ApprovalTerms{Severity: contracts.SeverityCritical, Deciders: []string{"ann"}, ExpiresIn: 60}},
		}}},
		{},
	} {
		got, err := admin.SetPolicies(t.Context(), layers)
		if d := cmp.Diff(&client.Policies{Layers: layers, File: file}, got); d != "" || err != nil {
			t.Errorf("SetPolicies(), %v (-want +got):\n%s", err, d)
		}
		again, err := admin.Policies(t.Context())
		if d := cmp.Diff(got, again); d != "" || err != nil {
			t.Errorf("Policies(), %v (-want +got):\n%s", err, d)
		}
	}
	kept := []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"mcp:kept:*"}}}
	if _, err := admin.SetPolicies(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		body, want string
		status     int
	}{
		{`{}`, "layers", 422},
		{`{"layers":[{"level":"nation"}]}`, "nation", 400},
		{`{"layers":[{"level":"agent"}]}`, "name", 400},
		{`{"layers":[{"level":"tenant","rules":[{"name":"r","effect":"ask"}]}]}`, "allow, deny or approve", 400},
		{`{"layers":[{"level":"tenant","rules":[{"name":"r","effect":"deny","when":"tool.nam == 'x'"}]}]}`, "layer 1: tenant, rule 1 (r), when", 400},
		{`{"layers":[{"level":"tenant","deny":[7]}]}`, "layers/0/deny/0", 422},
		{`{"layers":[{"level":"tenant","deny":["mcp:a:*","files:*"]}]}`, "whose beginning is mcp:, plugin:", 400},
		{`{"layers":[{"level":"tenant","dney":["x"]}]}`, "layers/0/dney", 422},
	} {
		a := w.do(t, "PUT", "/v1/policies", tt.body, "Authorization", "Bearer "+adminToken)
		if p := a.problem(t); a.status != tt.status || p.Code != contracts.CodeInvalid || !strings.Contains(p.Detail, tt.want) {
			t.Errorf("PUT /v1/policies %s = %d %s, want %d that names %s", tt.body, a.status, a.body, tt.status, tt.want)
		}
	}
	if got, err := admin.Policies(t.Context()); err != nil || cmp.Diff(kept, got.Layers) != "" {
		t.Errorf("after refusals the policies are %+v, %v", got, err)
	}
	if err := admin.DeletePolicies(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := admin.Policies(t.Context())
	if err != nil || len(got.Layers) != 0 || len(got.File) != 1 {
		t.Errorf("after DeletePolicies() they are %+v, %v; want those of the file alone", got, err)
	}
	a := w.do(t, "GET", "/v1/policies", "", "Authorization", "Bearer "+adminToken)
	if !json.Valid(a.body) || !strings.Contains(string(a.body), `"layers":[]`) {
		t.Errorf("GET /v1/policies = %s, want layers as an empty list", a.body)
	}
}
