package policy

import (
	"testing"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestCheckGlob(t *testing.T) {
	for glob, ok := range map[string]bool{
		"*": true, "mcp:*": true, "mcp:files:read": true, "m*": true, "*:files:*": true, "?cp:x:y": true, "[mp]*": true, "p*:core:now": true,
		`\mcp:a:b`: true, "plugin:x:*": true, "platform:core:*": true, "client:client:x": true,
		"files:*": false, "now": false, "MCP:files:*": false, "mcp_files": false, "x*": false, "plug:*": false, "": false, "[": false,
	} {
		if err := CheckGlob(glob); (err == nil) != ok {
			t.Errorf("CheckGlob(%q) = %v, want it taken: %v", glob, err, ok)
		}
	}
}

func TestCheckAim(t *testing.T) {
	layers := []contracts.PolicyLayer{{Level: "tenant", Allow: []string{"mcp:*"}}, {Level: "tenant", Rules: []contracts.PolicyRule{{Name: "a", Effect: contracts.PolicyDeny, Tools: []string{"mcp:a:*", "fiels:*"}}}}}
	e := contracts.AsError(CheckAim(layers))
	if e == nil || e.Code != contracts.CodeInvalid || len(e.Fields) != 1 || e.Fields[0].Field != "/1/rules/0/tools/1" {
		t.Errorf("CheckAim() = %+v, want the glob's place", e)
	}
	if err := CheckAim(layers[:1]); err != nil {
		t.Errorf("CheckAim() = %v", err)
	}
}
