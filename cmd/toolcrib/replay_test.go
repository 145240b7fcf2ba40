package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A stored listing is what a real MCP server answered to initialize and tools/list.
type stored struct {
	Initialize json.RawMessage   `json:"initialize"`
	Tools      []json.RawMessage `json:"tools"`
}

// replay is an MCP server on standard input and output that answers as the stored
// listing does, byte for byte, and echoes the arguments of calls.
func replay(ctx context.Context, file string) error {
	conn, err := (&mcp.StdioTransport{}).Connect(ctx)
	if err != nil {
		return err
	}
	for {
		m, err := conn.Read(ctx)
		if err != nil {
			return nil
		}
		r, ok := m.(*jsonrpc.Request)
		if !ok || !r.IsCall() {
			continue
		}
		answer := &jsonrpc.Response{ID: r.ID}
		switch r.Method {
		case "initialize", "tools/list":
			s, err := readStored(file) // which may have changed
			if err != nil {
				return err
			}
			if answer.Result = s.Initialize; r.Method == "tools/list" {
				answer.Result, _ = json.Marshal(map[string]any{"tools": s.Tools})
			}
		case "tools/call":
			answer.Result, _ = json.Marshal(contracts.TextResult("called with "+string(r.Params), nil))
		default:
			answer.Result = json.RawMessage("{}")
		}
		if err := conn.Write(ctx, answer); err != nil {
			return err
		}
	}
}

func readStored(file string) (s stored, _ error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// listings returns the stored listings of real servers that lie beside the project. Where they do not, it makes
// as many of the same shapes: the project carries no listings of others.
func listings(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("TOOLCRIB_MCP_LISTINGS")
	if dir == "" {
		dir = "../../../shared/mcp-tools"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		abs, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			files[i] = filepath.Join(abs, filepath.Base(f))
		}
		t.Logf("%d listings of real servers", len(files))
		return files
	}
	t.Log("no listings of real servers beside the project (TOOLCRIB_MCP_LISTINGS names others): 66 made ones take their place")
	return madeListings(t, 66)
}

// madeListings writes n listings with the oddities of real ones.
func madeListings(t *testing.T, n int) (files []string) {
	t.Helper()
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	schemas := []string{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"$schema":"http://json-schema.org/draft-07/schema#"}`,
		`{}`, `{"type":"object"}`, `{"anyOf":[{"type":"object"},{"type":"null"}]}`,
		`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`,
		`{"type":"object","properties":{"p":{"type":"string","pattern":"^(?!x)\\p{L}+$","format":"google-datetime"}}}`,
	}
	for i := range n {
		var s stored
		s.Initialize = fmt.Appendf(nil, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"made-%d","version":"1"}}`, i)
		for j := range 1 + rnd.IntN(80) {
			description, _ := json.Marshal(strings.Repeat("a tool for testing ", rnd.IntN(200)))
			s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":"make_thing_%d","description":%s,"inputSchema":%s}`, j, description, schemas[rnd.IntN(len(schemas))]))
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("made-%d.json", i))
		write(t, path, string(data))
		files = append(files, path)
	}
	return files
}

// All real listings in one run: it opens, every tool is there or named with a reason, and what is there is found, described and called.
func TestRealListings(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]any{}
	offered := 0
	for _, f := range listings(t) {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		servers[name] = map[string]any{"command": self, "env": map[string]string{replayEnv: f}, "timeout": 120_000}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var s stored
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		offered += len(s.Tools)
	}
	s := up(t, t.TempDir(), servers)
	c := s.client()
	run := openRun(t, c, client.RunOptions{Mode: "tools"})
	sources, err := s.admin(t).Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, skipped, ready := 0, 0, 0
	for _, src := range sources {
		if src.Source.Kind != contracts.SourceMCP {
			continue
		}
		if src.State != contracts.SourceStateReady {
			t.Errorf("%s is %s: %s", src.Source, src.State, src.Reason)
		}
		ready++
		taken += src.Tools
		for _, x := range src.Skipped {
			t.Logf("%s: %s set aside: %s", src.Source, x.Name, x.Reason)
			if x.Reason == "" {
				t.Errorf("%s: %s is set aside without a reason", src.Source, x.Name)
			}
			skipped++
		}
	}
	if ready != len(servers) || taken+skipped != offered || skipped > offered/100 {
		t.Errorf("%d of %d sources ready; of %d tools %d taken and %d set aside; want all sources, all tools, and at most one in a hundred set aside",
			ready, len(servers), offered, taken, skipped)
	}
	if n := run.Catalogue.Sources[contracts.SourceMCP]; n != taken {
		t.Errorf("the catalogue holds %d MCP tools, want %d", n, taken)
	}
	if size := bytesOf(t, run.Tools) + len(run.Prompt); size > 24_000 {
		t.Errorf("the model is sent %d bytes for %d tools", size, taken)
	}
	direct := openRun(t, c, client.RunOptions{Mode: "direct"})
	if len(direct.Tools) != direct.Catalogue.Size {
		t.Errorf("the surface direct has %d tools of %d", len(direct.Tools), direct.Catalogue.Size)
	}
	names := map[string]bool{}
	for _, tool := range direct.Tools {
		if names[tool.Name] {
			t.Errorf("two tools have the name %s", tool.Name)
		}
		names[tool.Name] = true
	}
	probe(t, c, run.ID)
}

// probe finds, describes and calls one tool.
func probe(t *testing.T, c *client.Client, run contracts.RunID) {
	t.Helper()
	var found contracts.SearchAnswer
	o := call(t, c, run, "tool_search", `{"query":"make a thing, create a branch or list files"}`)
	if o.Status != contracts.StatusOK {
		t.Fatalf("search = %+v", o)
	}
	if err := json.Unmarshal(o.Result.StructuredContent, &found); err != nil || len(found.Hits) == 0 {
		t.Fatalf("search found %d, %v", len(found.Hits), err)
	}
	id := string(found.Hits[0].ID)
	if o := call(t, c, run, "tool_describe", fmt.Sprintf(`{"id":%q}`, id)); o.Status != contracts.StatusOK {
		t.Errorf("describe %s = %+v", id, o)
	}
	if o := call(t, c, run, "tool_call", fmt.Sprintf(`{"id":%q,"args":{}}`, id)); o.Status != contracts.StatusOK && o.Status != contracts.StatusInvalidArgs {
		t.Errorf("call %s = %+v", id, o)
	}
}

func bytesOf(t *testing.T, v any) int {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}
