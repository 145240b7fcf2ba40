package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// codeRun opens a run in the surface code with a limit of its bodies.
func codeRun(t *testing.T, c *client.Client, limit time.Duration, tools ...client.ClientTool) *client.RunView {
	t.Helper()
	r := openRun(t, c, client.RunOptions{
		ToolSearch: json.RawMessage(fmt.Sprintf(`{"mode":"code","codeTimeoutMs":%d}`, limit.Milliseconds())), ClientTools: tools,
	})
	if r.Surface != contracts.SurfaceCode {
		t.Fatalf("surface %s, want code: %v", r.Surface, r.Decision.Conditions)
	}
	return r
}

// execBody has a body run and returns its answer and, where it ran, its result.
func execBody(t *testing.T, c *client.Client, run contracts.RunID, code string) (*client.CallAnswer, *contracts.BodyResult) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	o := call(t, c, run, "tool_search_code", string(args))
	return o, bodyResult(t, o)
}

func bodyResult(t *testing.T, o *client.CallAnswer) *contracts.BodyResult {
	t.Helper()
	res := &contracts.BodyResult{}
	if o.Result != nil {
		if err := json.Unmarshal(o.Result.StructuredContent, res); err != nil {
			t.Fatal(err)
		}
	}
	return res
}

func TestCodeSurface(t *testing.T) {
	servers := publicServers(t, realDir(t))
	servers["desk"] = exampleServer("convert,tickets")
	s := up(t, t.TempDir(), servers)
	c := s.client()
	r := codeRun(t, c, 10*time.Second)
	for name, tt := range map[string]struct {
		code, value string // the value as JSON; "" where the body fails
		error       contracts.BodyCode
		says        string
	}{
		"value":     {code: `return 1`, value: `1`},
		"nothing":   {code: `const x = 1`, value: `null`},
		"search":    {code: `const hits = await tools.search("add two numbers", {limit: 3}); return [hits.length <= 3, hits[0].id, Array.isArray(hits), typeof hits.total]`, value: `[true,"mcp:everything:get-sum",true,"number"]`},
		"batch":     {code: `const {results} = await tools.search(["add two numbers", "convert currency"]); return results.map(r => r[0].id)`, value: `["mcp:everything:get-sum","mcp:desk:convert_currency"]`},
		"describe":  {code: `return Object.keys((await tools.describe("mcp:everything:get-sum")).inputSchema.properties).sort()`, value: `["a","b"]`},
		"call":      {code: `const o = await tools.call("mcp:everything:get-sum", {a: 40, b: 2}); return [o.status, o.tool.id, o.result.content[0].text.includes("42")]`, value: `["ok","mcp:everything:get-sum",true]`},
		"bare name": {code: `return (await openclaw.tools.call("get-sum", {a: 1, b: 1})).tool.source`, value: `"mcp"`},
		"outcome":   {code: `const o = await tools.call("mcp:everything:get-sum", {a: "x"}, {outcome: true}); return [o.status, o.error.fields.length > 0]`, value: `["invalid_args",true]`},
		"thrown": {
			code:  `try { await tools.call("mcp:everything:get-sum", {a: "x"}); return "no" } catch (e) { return [e instanceof Error, e.status, typeof e.callId, e.outcome.status] }`,
			value: `[true,"invalid_args","string","invalid_args"]`,
		},
		"not caught":     {code: "\n  await tools.call('mcp:everything:get-sum', {a: 'x'})", error: contracts.BodyException, says: "invalid_args"},
		"unknown tool":   {code: `await tools.call("mcp:everything:get-sun", {})`, error: contracts.BodyException, says: "mcp:everything:get-sum"},
		"control tool":   {code: `await tools.call("tool_search", {query: "x"})`, error: contracts.BodyException, says: "tools.search"},
		"empty query":    {code: `await tools.search("")`, error: contracts.BodyException, says: "create a calendar event"},
		"zero limit":     {code: `await tools.search("x", {limit: 0})`, error: contracts.BodyException, says: "positive integer"},
		"args no object": {code: `await tools.call("mcp:everything:get-sum", [1, 2])`, error: contracts.BodyException, says: "object"},
		"typescript":     {code: `interface A { b: number } const a: A = {b: 2} as const; return a.b!`, value: `2`},
		"no such thing":  {code: `return await fetch("http://127.0.0.1")`, error: contracts.BodyException, says: "tools.search"},
		"not awaited":    {code: `tools.call("mcp:everything:echo", {message: "late"}); return "early"`, value: `"early"`},
	} {
		t.Run(name, func(t *testing.T) {
			o, res := execBody(t, c, r.ID, tt.code)
			switch {
			case tt.error == "" && (o.Status != contracts.StatusOK || !res.OK || string(res.Value) != tt.value):
				t.Errorf("status %s, value %s, error %+v; want %s", o.Status, res.Value, res.Error, tt.value)
			case tt.error != "" && (o.Status != contracts.StatusError || res.OK || res.Error == nil || res.Error.Code != tt.error || !strings.Contains(res.Error.Message, tt.says)):
				t.Errorf("status %s, error %+v; want %s that says %q", o.Status, res.Error, tt.error, tt.says)
			}
			if name == "not caught" && (res.Error.Line != 2 || len(res.Calls) != 1 || res.Calls[0].Status != contracts.StatusInvalidArgs) {
				t.Errorf("error %+v, calls %+v; want line 2 and the failed call", res.Error, res.Calls)
			}
			if name == "not awaited" && (len(res.Calls) != 1 || res.Calls[0].Status != contracts.StatusOK || len(res.Logs) != 1 || res.Logs[0].Level != "warn") {
				t.Errorf("calls %+v, logs %+v; want the call made, and a warning", res.Calls, res.Logs)
			}
			if res.Telemetry.CatalogSize != r.Catalogue.Size {
				t.Errorf("telemetry %+v, want a catalogue of %d", res.Telemetry, r.Catalogue.Size)
			}
		})
	}
	t.Run("image", func(t *testing.T) {
		o, res := execBody(t, c, r.ID, `const o = await tools.call("mcp:everything:get-tiny-image", {}); return o.result.content.find(b => b.type === "image")`)
		if !res.OK || strings.Contains(string(res.Value), "iVBOR") || !strings.Contains(string(res.Value), "content:") {
			t.Errorf("value %.300s, error %+v; want a handle in place of the data", res.Value, res.Error)
		}
		if n := len(o.Result.Content); n != 2 || !strings.Contains(string(o.Result.Content[1]), "iVBOR") {
			t.Errorf("the outcome has %d content blocks, want the text and the image itself", n)
		}
	})
	t.Run("cut value", func(t *testing.T) {
		_, res := execBody(t, c, r.ID, `return Array.from({length: 60000}, (_, i) => ({i}))`)
		var items []struct{ I int }
		if err := json.Unmarshal(res.Value, &items); err != nil || len(items) == 0 || len(items) >= 60000 || res.Truncated == "" || len(res.Value) > 256<<10 {
			t.Errorf("%d bytes, %d items, truncated %q, %v; want whole items and a word on the rest", len(res.Value), len(items), res.Truncated, err)
		}
	})
	t.Run("report", func(t *testing.T) {
		report, err := c.Report(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Calls) == 0 || len(report.Searches) == 0 || len(report.Describes) == 0 {
			t.Errorf("the report has %d calls, %d searches, %d describes; want those of the bodies", len(report.Calls), len(report.Searches), len(report.Describes))
		}
	})
	t.Run("policy", func(t *testing.T) {
		if _, err := s.admin(t).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"mcp:desk:createTicket"}}}); err != nil {
			t.Fatal(err)
		}
		_, res := execBody(t, c, r.ID, `
			const hits = await tools.search("file a ticket about the printer");
			const o = await tools.call("mcp:desk:createTicket", {title: "x"}, {outcome: true});
			return [hits.some(h => h.id === "mcp:desk:createTicket"), o.status]`)
		if string(res.Value) != `[false,"blocked"]` {
			t.Errorf("value %s, error %+v; want the tool hidden and blocked", res.Value, res.Error)
		}
		if _, err := s.admin(t).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"platform:toolcrib:tool_search"}}}); err != nil {
			t.Fatal(err)
		}
		if _, res = execBody(t, c, r.ID, `await tools.search("anything")`); res.Error == nil || !strings.Contains(res.Error.Message, "policy") {
			t.Errorf("search in a body where policy denies it: %+v", res.Error)
		}
	})
}

// A body's clock stands still while its caller runs the caller's own tool.
func TestBodyWaitsForItsCaller(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	c := s.client()
	r := codeRun(t, c, time.Second, client.ClientTool{Name: "ask_user", Description: "Asks the user", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)})
	began := time.Now()
	o, _ := execBody(t, c, r.ID, `
		const [a, b] = await Promise.all([tools.call("ask_user", {q: "one"}), tools.call("ask_user", {q: "two"})]);
		return [a, b].map(o => o.result.content[0].text)`)
	for n := 2; n > 0; n-- {
		eventually(t, "both calls wait for the client", func() bool {
			if len(o.ClientCalls) < n {
				var err error
				if o, err = c.CallState(t.Context(), r.ID, o.CallID); err != nil {
					t.Fatal(err)
				}
			}
			return len(o.ClientCalls) == n
		})
		if o.Status != contracts.StatusRequiresAction || o.ClientCalls[0].Tool != "ask_user" {
			t.Fatalf("answer %+v, want what the client is to do", o)
		}
		awaitPast(began.Add(1500 * time.Millisecond)) // longer than the body may take
		call := o.ClientCalls[0]
		result := contracts.TextResult("answer to "+string(call.Args), nil)
		if _, err := c.Result(t.Context(), r.ID, call.CallID, client.ClientResult{Content: result.Content}); err != nil {
			t.Fatal(err)
		}
		var err error
		if o, err = c.CallState(t.Context(), r.ID, o.CallID); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Final() {
		var err error
		if o, err = c.Await(t.Context(), r.ID, o.CallID); err != nil {
			t.Fatal(err)
		}
	}
	if res := bodyResult(t, o); string(res.Value) != `["answer to {\"q\":\"one\"}","answer to {\"q\":\"two\"}"]` {
		t.Errorf("status %s, value %s, error %+v", o.Status, res.Value, res.Error)
	}
}

// awaitPast waits until a moment is over.
func awaitPast(moment time.Time) { time.Sleep(time.Until(moment)) }

func TestBodyIsCancelled(t *testing.T) {
	s := up(t, t.TempDir(), map[string]any{"desk": exampleServer("convert")})
	c := s.client()
	r := codeRun(t, c, time.Minute)
	answers := make(chan *client.CallAnswer, 1)
	const key = "the-body"
	go func() {
		o, err := c.Call(t.Context(), r.ID, client.CallRequest{Name: "tool_search_code", Key: key, Arguments: json.RawMessage(`{"code":"console.log('begun'); await new Promise(r => setTimeout(r, 50000))"}`)})
		if err != nil {
			t.Error(err)
		}
		answers <- o
	}()
	id := contracts.KeyedCallID(r.ID, "local", key)
	eventually(t, "the body is there", func() bool { return c.CancelCall(t.Context(), r.ID, id) == nil })
	o := <-answers
	if o.CallID != id || o.Status != contracts.StatusCancelled {
		t.Fatalf("answer %+v, want the cancelled body", o)
	}
	again, err := c.Call(t.Context(), r.ID, client.CallRequest{Name: "tool_search_code", Key: key, Arguments: json.RawMessage(`{"code":"console.log('begun'); await new Promise(r => setTimeout(r, 50000))"}`)})
	if err != nil || again.Status != contracts.StatusCancelled || again.CallID != id {
		t.Errorf("the same key once more: %+v, %v; want the same end", again, err)
	}
}

// Whatever becomes of a body's sandbox, the body ends, and what it called happened once.
func TestBodyOutlivesItsSandbox(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "counter")
	servers := map[string]any{"ops": exampleServer("ops", "--counter-file", file)}
	s := up(t, data, servers)
	c := s.client()
	r := codeRun(t, c, time.Minute)
	const key = "killed"
	q := client.CallRequest{Name: "tool_search_code", Key: key, Arguments: json.RawMessage(`{"code":"await tools.call('mcp:ops:increment_counter', {note: 'once'}); await new Promise(r => setTimeout(r, 50000))"}`)}
	go c.Call(t.Context(), r.ID, q) // ends with the server
	eventually(t, "the body has made its call", func() bool {
		report, err := c.Report(t.Context(), r.ID)
		return err == nil && slices.ContainsFunc(report.Calls, func(c contracts.ReportCall) bool { return c.Status == contracts.StatusOK })
	})
	s.kill(t)
	s = up(t, data, servers)
	o, err := s.client().Await(t.Context(), r.ID, contracts.KeyedCallID(r.ID, "local", key))
	if err != nil {
		t.Fatal(err)
	}
	if o.Status != contracts.StatusUnavailable || o.Error == nil || !strings.Contains(o.Error.Message, "sandbox") {
		t.Errorf("answer %+v, want unavailable and why", o)
	}
	if n := executions(t, file, "once"); n != 1 {
		t.Errorf("the call was executed %d times, want 1", n)
	}
}

func TestNoFileIsLeftBehind(t *testing.T) {
	before, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := up(t, t.TempDir(), nil)
	r := codeRun(t, s.client(), time.Second)
	if _, res := execBody(t, s.client(), r.ID, `while (true) {}`); res.Error == nil || res.Error.Code != contracts.BodyTimeout {
		t.Errorf("an endless loop ended with %+v", res.Error)
	}
	s.stop(t)
	after, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range after {
		known := slices.ContainsFunc(before, func(b os.DirEntry) bool { return b.Name() == f.Name() })
		if !known && strings.Contains(f.Name(), "toolcrib") {
			t.Errorf("%s is left in the temporary folder", f.Name())
		}
	}
}

// An MCP session is in the surface code unless it wishes otherwise; the three npm servers are called from one body.
func TestBodyOverMCP(t *testing.T) {
	folder := realDir(t)
	write(t, filepath.Join(folder, "a.txt"), "written by the test")
	s := up(t, t.TempDir(), publicServers(t, folder))
	openRun(t, s.client(), client.RunOptions{}) // so that every source is ready
	ss, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	list, err := ss.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "tool_search_code" {
		t.Fatalf("tools/list = %+v, %v; want tool_search_code alone", list, err)
	}
	exec := func(code string) (*mcp.CallToolResult, contracts.BodyResult) {
		t.Helper()
		r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: "tool_search_code", Arguments: map[string]string{"code": code}})
		if err != nil {
			t.Fatal(err)
		}
		var res contracts.BodyResult
		raw, err := json.Marshal(r.StructuredContent)
		if err == nil {
			err = json.Unmarshal(raw, &res)
		}
		if err != nil {
			t.Fatalf("structured content %s: %v", raw, err)
		}
		return r, res
	}
	r, res := exec(fmt.Sprintf(`
		const { results } = await tools.search(["add two numbers", "read the text of a file", "create entities in the knowledge graph"]);
		const pick = (hits, name) => hits.find(h => h.id.endsWith(name)).id;
		const all = await Promise.all([
			tools.call(pick(results[0], "get-sum"), { a: 40, b: 2 }),
			tools.call(pick(results[1], "read_text_file"), { path: %q }),
			tools.call(pick(results[2], "create_entities"), { entities: [{ name: "Ada", entityType: "person", observations: ["likes tea"] }] }),
		]);
		return all.map(o => o.result.content[0].text).join("|");`, filepath.Join(folder, "a.txt")))
	for _, part := range []string{"42", "written by the test", "likes tea"} {
		if r.IsError || !strings.Contains(string(res.Value), part) {
			t.Errorf("isError %v, value %s, error %+v; want %q in it", r.IsError, res.Value, res.Error, part)
		}
	}
	if r, res = exec("console.log('a');\nnull.x"); !r.IsError || res.Error == nil || res.Error.Line != 2 || len(res.Logs) != 1 {
		t.Errorf("a failing body: isError %v, error %+v, logs %v; want line 2 and the log", r.IsError, res.Error, res.Logs)
	}
}
