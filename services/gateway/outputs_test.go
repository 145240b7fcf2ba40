package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// TestClientResultsAreAsThoseOfOtherTools has what a caller posts held against its tool's output schema, and cut.
func TestClientResultsAreAsThoseOfOtherTools(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{ClientTools: []client.ClientTool{{
		Name: "count", InputSchema: json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"lines":{"type":"array"}},"required":["n"]}`),
	}}}).ID
	lines := `{"n":1,"lines":[` + strings.TrimSuffix(strings.Repeat(`"a line of text",`, 20_000), ",") + `]}`
	for name, tt := range map[string]struct {
		structured string
		isError    bool
		status     contracts.Status
		code       contracts.Code
	}{
		"right":   {`{"n":1}`, false, contracts.StatusOK, ""},
		"wrong":   {`{"n":"one"}`, false, contracts.StatusError, contracts.CodeInvalidOutput},
		"missing": {``, false, contracts.StatusError, contracts.CodeInvalidOutput},
		"failed":  {``, true, contracts.StatusError, contracts.CodeToolError},
		"large":   {lines, false, contracts.StatusOK, ""},
	} {
		a, err := w.client.Call(t.Context(), run, client.CallRequest{Name: "count"})
		if err != nil || a.Status != contracts.StatusRequiresAction {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		block := contracts.TextResult("said", nil).Content[0]
		end, err := w.client.Result(t.Context(), run, a.CallID, client.ClientResult{Content: []json.RawMessage{block}, StructuredContent: json.RawMessage(tt.structured), IsError: tt.isError})
		if err != nil || end.Status != tt.status || end.Error == nil && tt.code != "" || end.Error != nil && (end.Error.Code != tt.code || end.SideEffects != contracts.SideEffectsDone) {
			t.Errorf("%s: %v, %+v, want %s %s", name, err, end, tt.status, tt.code)
			continue
		}
		if name != "large" {
			continue
		}
		if end.Result.More == nil || len(end.Result.StructuredContent) > 100_000 || !json.Valid(end.Result.StructuredContent) {
			t.Fatalf("a large result came as %d bytes with %+v", len(end.Result.StructuredContent), end.Result.More)
		}
		shelf, err := outputs.Open(t.Context(), w.bus)
		if err != nil {
			t.Fatal(err)
		}
		at := outputs.Place{Tenant: contracts.LocalTenant, Run: run}
		whole, err := shelf.Value(t.Context(), at, end.Result.More.Handle, "/structuredContent", 1<<20)
		if err != nil || string(whole) != lines {
			t.Errorf("kept are %d of %d bytes, %v", len(whole), len(lines), err)
		}
	}
}
