package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestFromConfig(t *testing.T) {
	file, err := config.Parse([]byte(`
toolSearch: tools
policies: [{deny: ["*:delete_*"]}]
tenants:
  acme:
    toolSearch: auto:5
    toolSearchManaged: true
    policies: [{allow: ["mcp:*"]}]
    limits: {maxTools: 7}
    profiles:
      coder: {toolSearch: direct, deny: ["mcp:mail:*"]}
  plain: {}
`), "toolcrib.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{ToolSearch: choose(t, `"tools"`), Tenants: map[contracts.TenantID]Tenant{
		"acme": {
			Layers: []contracts.PolicyLayer{
				{Level: "global", Deny: []string{"*:delete_*"}},
				{Level: "tenant", Allow: []string{"mcp:*"}},
				{Level: "profile", Name: "coder", Deny: []string{"mcp:mail:*"}},
			},
			ToolSearch: choose(t, `"auto:5"`), Managed: true, MaxTools: 7,
			Profiles: map[string]config.ToolSearch{"coder": choose(t, `"direct"`)},
		},
		"plain": {
			Layers:   []contracts.PolicyLayer{{Level: "global", Deny: []string{"*:delete_*"}}},
			MaxTools: defaultMaxTools, Profiles: map[string]config.ToolSearch{},
		},
	}}
	if diff := cmp.Diff(want, FromConfig(file)); diff != "" {
		t.Errorf("FromConfig() (-want +got):\n%s", diff)
	}
	none, err := config.Parse(nil, "toolcrib.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := FromConfig(none); len(got.Tenants) != 1 || got.maxTools(contracts.LocalTenant) != defaultMaxTools {
		t.Errorf("FromConfig() of an empty file = %+v, want the tenant local with the default limit", got)
	}
}
