package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// What stands around arguments goes only where the tool does not know it and takes what is within. The caller's own tools show what they are given.
func TestArgumentsAreUnwrapped(t *testing.T) {
	w := open(t, gateway.Config{})
	var own []client.ClientTool
	for name, schema := range map[string]string{
		"strict":   `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`,
		"loose":    `{"type":"object","properties":{"text":{"type":"string"}}}`,
		"envelope": `{"type":"object","properties":{"args":{"type":"object"}},"required":["args"]}`,
		"lid":      `{"type":"object","properties":{"input":{"type":"object"},"text":{"type":"string"}}}`,
		"open":     `{"type":"object"}`,
		"pattern":  `{"type":"object","properties":{"text":{"type":"string"}},"patternProperties":{"^a":{"type":"object"}}}`,
	} {
		own = append(own, client.ClientTool{Name: name, Description: name, InputSchema: json.RawMessage(schema)})
	}
	run := w.openRun(t, client.RunOptions{ClientTools: own}).ID
	for _, tt := range []struct {
		tool, args, want string
		repaired         string // "" for not
	}{
		{"strict", `{"args":{"text":"x"}}`, `{"text":"x"}`, "the arguments stood in args"},
		{"strict", `{"arguments":{"text":"x"}}`, `{"text":"x"}`, "the arguments stood in arguments"},
		{"strict", `{"input":"{\"text\":\"x\"}"}`, `{"text":"x"}`, "the arguments stood in input"},
		{"strict", `{"text":"x"}`, `{"text":"x"}`, ""},
		{"strict", `{"args":{"text":1}}`, `{"args":{"text":1}}`, ""},                           // would not fit either
		{"strict", `{"args":{"text":"x"},"why":"so"}`, `{"args":{"text":"x"},"why":"so"}`, ""}, // not all of it
		{"strict", `{"args":["x"]}`, `{"args":["x"]}`, ""},
		{"loose", `{"args":{"text":"x"}}`, `{"text":"x"}`, "the arguments stood in args"},
		{"envelope", `{"args":{"text":"x"}}`, `{"args":{"text":"x"}}`, ""},
		{"envelope", `{"args":{"args":{"text":"x"}}}`, `{"args":{"args":{"text":"x"}}}`, ""},
		{"envelope", `{"arguments":{"args":{"text":"x"}}}`, `{"args":{"text":"x"}}`, "the arguments stood in arguments"},
		{"lid", `{"input":{"text":"x"}}`, `{"input":{"text":"x"}}`, ""},
		{"open", `{"args":{"text":"x"}}`, `{"args":{"text":"x"}}`, ""},
		{"pattern", `{"args":{"text":"x"}}`, `{"args":{"text":"x"}}`, ""},
	} {
		for _, name := range []string{"client:client:" + tt.tool, "tool_call"} {
			args := tt.args
			if name == "tool_call" {
				args = fmt.Sprintf(`{"id":"client:client:%s","args":%s}`, tt.tool, tt.args)
			}
			_, a := w.callIn(t, run, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args), "Prefer", "wait=5")
			if a.ClientCall == nil || string(a.ClientCall.Args) != tt.want || strings.Join(a.Repaired, "; ") != tt.repaired {
				t.Errorf("%s %s = %s, %+v repaired %q, want %s repaired %q", name, args, a.Status, a.ClientCall, a.Repaired, tt.want, tt.repaired)
			}
		}
	}
}

// Over MCP what was mended stands beside the tool's own result.
func TestRepairsAreToldOverMCP(t *testing.T) {
	w := open(t, gateway.Config{})
	s := newRawSession(t, w)
	for args, repaired := range map[string]string{
		`{"name":"tool_call","arguments":{"id":"create_event","text":"x"}}`:                                    `"toolcrib/repaired":["arguments stood beside id"]`,
		`{"name":"tool_call","arguments":{"id":"create_event","args":"{\"text\":\"x\"}"}}`:                     `"toolcrib/repaired":["args was a text with an object in it"]`,
		`{"name":"tool_call","arguments":{"id":"create_event","args":{"args":{"text":"x"}}}}`:                  `"toolcrib/repaired":["the arguments stood in args"]`,
		`{"name":"tool_call","arguments":{"id":"tool_call","args":{"id":"create_event","args":{"text":"x"}}}}`: `"toolcrib/repaired":["tool_call was called through itself"]`,
		`{"name":"mcp:calendar:create_event","arguments":{"args":{"text":"x"}}}`:                               `"toolcrib/repaired":["the arguments stood in args"]`,
		`{"name":"tool_call","arguments":{"id":"create_event","args":{"text":"x"}}}`:                           ``,
	} {
		got := s.send(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+args+`}`)
		if !strings.Contains(got, `called with {\"text\":\"x\"}`) || !strings.Contains(got, repaired) || (repaired == "") == strings.Contains(got, "toolcrib/repaired") {
			t.Errorf("%s = %s, want what the tool answered, and %s", args, got, repaired)
		}
	}
	const bad = `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"tool_describe","arguments":{"id":"no_such"}}}`
	for n := 1; n <= 4; n++ {
		if got := s.send(t, bad); strings.Contains(got, "Stop: ") != (n >= 3) {
			t.Errorf("the same failure for the %d. time: %s", n, got)
		}
	}
}

// A failure is the same however its arguments are written, and is another where they mean something else, or where only its answer was asked for again.
func TestWhatIsTheSameFailure(t *testing.T) {
	w := open(t, gateway.Config{})
	told := func(run contracts.RunID, body string, headers ...string) bool {
		_, a := w.callIn(t, run, body, headers...)
		if a.Error == nil {
			t.Fatalf("%s = %+v, want a failure", body, a)
		}
		return strings.HasPrefix(a.Error.Message, "Stop: ")
	}
	const one, other = `{"name":"tool_describe","arguments":{"id":"no_such"}}`, `{"name":"tool_describe","arguments":{"id":"no_other"}}`
	for _, tt := range []struct {
		what  string
		calls []string
		want  bool // of the last
	}{
		{"written otherwise", []string{one, `{"name":"tool_describe","arguments":{ "id" : "no_such" }}`, one}, true},
		{"other arguments between", []string{one, one, other, one}, false},
		{"another tool", []string{one, one, `{"name":"tool_call","arguments":{"id":"no_such"}}`}, false},
	} {
		run := w.openRun(t, client.RunOptions{}).ID
		got := false
		for _, body := range tt.calls {
			got = told(run, body)
		}
		if got != tt.want {
			t.Errorf("%s: told to stop: %v, want %v", tt.what, got, tt.want)
		}
	}
	run := w.openRun(t, client.RunOptions{}).ID
	const call = `{"name":"tool_call","arguments":{"id":"no_such"}}`
	for range 4 {
		if told(run, call, "Idempotency-Key", "k") {
			t.Error("one call is told to stop, whose answer was asked for again")
		}
	}
	if told(run, call) || !told(run, call) {
		t.Error("the third call is not told to stop, or the second is")
	}
}
