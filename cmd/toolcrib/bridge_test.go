package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/pkg/client"
)

// talk runs toolcrib mcp with the lines as its whole input and returns the answers by id.
func talk(t *testing.T, args []string, lines ...string) map[string]json.RawMessage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"mcp"}, args...)...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.Stderr = testWriter{t}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("mcp: %v\n%s", err, out)
	}
	answers := map[string]json.RawMessage{}
	for line := range strings.Lines(string(out)) {
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		answers[string(m.ID)] = json.RawMessage(line)
	}
	return answers
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// One odd message harms nothing but itself, and what was accepted is answered although the input has ended.
func TestBridgeOutlivesOddMessages(t *testing.T) {
	counter := filepath.Join(t.TempDir(), "counter")
	s := up(t, t.TempDir(), map[string]any{"ops": exampleServer("ops", "--counter-file", counter)})
	openRun(t, s.client(), client.RunOptions{})
	got := talk(t, []string{"--url", s.url, "--mode", "tools"}, initialize, initialized,
		`{"jsonrpc":"2.0","method":"notifications/bogus"}`,
		`{"jsonrpc":"2.0","id":2,"method":"nonsense"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`,
		`not json`,
		`5`,
		`{}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool_call","arguments":{"id":"mcp:ops:increment_counter","args":{"note":"last","hold_ms":1500}}}}`,
	)
	for id, want := range map[string]string{"1": "protocolVersion", "2": "-32601", "3": "-32602", "null": "error", "4": "tool_search", "5": `"value"`} {
		if !strings.Contains(string(got[id]), want) {
			t.Errorf("answer to %s = %s, want %q in it", id, got[id], want)
		}
	}
	if n := executions(t, counter, "last"); n != 1 {
		t.Errorf("executed %d times, want 1", n)
	}
}

// A second client of the same machine is served by the toolcrib that has the data directory.
func TestSecondMCPBridgesToTheFirst(t *testing.T) {
	data := t.TempDir()
	s := up(t, data, map[string]any{"office": exampleServer("contacts")})
	openRun(t, s.client(), client.RunOptions{})
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, fmt.Sprintf(`{"mcpServers":{"other":{"command":%q,"args":["workshop"]}}}`, binary))
	got := talk(t, []string{"--mcp-config", file, "--data", data, "--mode", "tools"}, initialize, initialized,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_search","arguments":{"query":"find a person"}}}`)
	if !strings.Contains(string(got["2"]), "mcp:office:") {
		t.Errorf("search = %s, want tools of the first one", got["2"])
	}
}
