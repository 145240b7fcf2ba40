package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// What weak models do to arguments is mended on the way to a real server, told, and done once.
func TestWeakModels(t *testing.T) {
	counter := filepath.Join(t.TempDir(), "counter")
	s := up(t, t.TempDir(), map[string]any{"ops": exampleServer("ops", "--counter-file", counter)})
	c := s.client()
	run := codeRun(t, c, 10*time.Second).ID
	const tool = "mcp:ops:increment_counter"
	for i, tt := range []struct {
		name, args string // with the note for N
		repaired   int
	}{
		{tool, `{"note":"N"}`, 0},
		{tool, `"{\"note\":\"N\"}"`, 1},
		{tool, `{"args":{"note":"N"}}`, 1},
		{"tool_call", `{"id":"` + tool + `","args":{"note":"N"}}`, 0},
		{"tool_call", `{"id":"` + tool + `","note":"N"}`, 1},
		{"tool_call", `{"id":"` + tool + `","args":"{\"note\":\"N\"}"}`, 1},
		{"tool_call", `{"id":"` + tool + `","args":{"args":{"note":"N"}}}`, 1},
		{"tool_call", `{"id":"` + tool + `","arguments":{"note":"N"}}`, 2},
		{"tool_call", `{"id":"tool_call","args":{"id":"` + tool + `","args":{"note":"N"}}}`, 1},
	} {
		note := fmt.Sprintf("weak-%d", i)
		o := call(t, c, run, tt.name, strings.ReplaceAll(tt.args, "N", note))
		if n := executions(t, counter, note); o.Status != contracts.StatusOK || len(o.Repaired) != tt.repaired || n != 1 {
			t.Errorf("%s %s = %s, %v, repaired %q, executed %d times, want ok with %d repairs, once", tt.name, tt.args, o.Status, o.Error, o.Repaired, n, tt.repaired)
		}
	}
	o, err := c.Call(t.Context(), run, client.CallRequest{Name: "tool_search_code", Arguments: json.RawMessage(
		`{"code":"return (await tools.call('` + tool + `', '{\"note\":\"weak-body\"}')).repaired"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if r := bodyResult(t, o); string(r.Value) != `["args was a text with an object in it"]` || executions(t, counter, "weak-body") != 1 {
		t.Errorf("in a body: %s, %+v", r.Value, r.Error)
	}
}
