package planner

import (
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestCouldShow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		layers []contracts.PolicyLayer
		want   bool
	}{
		{"no policy", nil, true},
		{"denied whole", []contracts.PolicyLayer{deny("mcp:vault:*")}, false},
		{"denied with its kind", []contracts.PolicyLayer{deny("mcp:*")}, false},
		{"everything denied", []contracts.PolicyLayer{deny("*")}, false},
		{"denied by a class", []contracts.PolicyLayer{deny("mcp:[a-z]ault:*")}, false},
		{"another denied", []contracts.PolicyLayer{deny("mcp:calendar:*", "mcp:vault2:*", "plugin:vault:*")}, true},
		{"some tools denied", []contracts.PolicyLayer{deny("mcp:vault:delete_*", "*:x", "mcp:vault:[a-m]*")}, true},
		{"allowed whole", []contracts.PolicyLayer{allow("mcp:vault:*")}, true},
		{"another allowed", []contracts.PolicyLayer{allow("mcp:calendar:*")}, false},
		{"one tool allowed", []contracts.PolicyLayer{allow("mcp:calendar:*", "mcp:vault:read_secret")}, true},
		{"some names allowed everywhere", []contracts.PolicyLayer{allow("*:read_*")}, true},
		{"some names allowed in a kind", []contracts.PolicyLayer{allow("mcp:*:read_?[0-9][!a]")}, true},
		{"an escaped name allowed", []contracts.PolicyLayer{allow(`mcp:vault:\*star[\]]`)}, true},
		{"some names allowed elsewhere", []contracts.PolicyLayer{allow("mcp:calendar:read_*")}, false},
		{"a name allowed that is denied", []contracts.PolicyLayer{allow("mcp:vault:read_secret"), deny("*secret")}, false},
		{"allowed whole and denied whole", []contracts.PolicyLayer{allow("mcp:vault:*"), deny("mcp:v*")}, false},
		{"allowed by two layers", []contracts.PolicyLayer{allow("mcp:*"), {Level: "global", Allow: []string{"*:vault:read_*"}}}, true},
		{"allowed by one of two layers", []contracts.PolicyLayer{allow("mcp:vault:*"), {Level: "global", Allow: []string{"plugin:*"}}}, false},
		{"the prefix alone", []contracts.PolicyLayer{allow("mcp:vault:")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := policy.Compile(tt.layers)
			if err != nil {
				t.Fatal(err)
			}
			got := couldShow(p.For(contracts.Labels{}), contracts.SourceID{Kind: contracts.SourceMCP, Owner: "vault"})
			if got != tt.want {
				t.Errorf("couldShow() = %v, want %v", got, tt.want)
			}
		})
	}
}
