package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// headers adds headers to each request of a client.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h {
		r.Header.Set(k, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) dial(path string, h headers) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "the-test", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: w.base + path, HTTPClient: &http.Client{Transport: h}, MaxRetries: -1,
	}, nil)
}

// connect opens an MCP session.
func (w *world) connect(t *testing.T, path string, h headers) *mcp.ClientSession {
	t.Helper()
	s, err := w.dial(path, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newest returns the newest run's record.
func (w *world) newest(t *testing.T) *contracts.Run {
	t.Helper()
	runs, err := w.client.Runs(t.Context(), "", 1)
	if err != nil || len(runs) != 1 {
		t.Fatalf("Runs() = %v, %v", runs, err)
	}
	r, err := w.runs.Get(t.Context(), contracts.RunKey("local", runs[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mcpCall(t *testing.T, s *mcp.ClientSession, name, args string) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("CallTool(%s %s) = %v", name, args, err)
	}
	return r
}

func mcpText(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	c, _ := r.Content[0].(*mcp.TextContent)
	if c == nil {
		return ""
	}
	return c.Text
}

func TestMCPSessionIsARun(t *testing.T) {
	w := open(t, gateway.Config{Version: "1.2.3"})
	s := w.connect(t, "/mcp/night?mode=auto:7", headers{"Toolcrib-Agent": "planner", "Toolcrib-Session": "s1", "Toolcrib-Mode": "code"})
	init := s.InitializeResult()
	if init.Instructions != "Search before you call." || init.ServerInfo.Name != "toolcrib" || init.ServerInfo.Version != "1.2.3" || init.Capabilities.Tools == nil || init.Capabilities.Tools.ListChanged {
		t.Errorf("initialize = %+v", init)
	}
	r := w.newest(t)
	want := contracts.RunRequest{
		Labels:     contracts.Labels{Agent: "planner", Profile: "night", Session: "s1", Runtime: "the-test"},
		ToolSearch: json.RawMessage(`"auto:7"`),
	}
	if d := cmp.Diff(want, r.Request); d != "" {
		t.Errorf("the run's request (-want +got):\n%s", d)
	}
	for range 2 {
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if d := cmp.Diff([]string{"tool_search", "tool_describe", "tool_call", "another"}, names); d != "" || list.NextCursor != "" {
			t.Errorf("tools/list (-want +got):\n%s", d)
		}
		if got := list.Tools[2].Description; got != "Call <it>" {
			t.Errorf("description = %q", got)
		}
	}

	found := mcpCall(t, s, "tool_search", `{"query":"calendar"}`)
	var hits struct{ Hits []struct{ ID string } }
	if err := json.Unmarshal([]byte(mcpText(found)), &hits); err != nil || found.IsError || len(hits.Hits) != 1 || found.StructuredContent == nil {
		t.Fatalf("tool_search = %s, %v", mcpText(found), err)
	}
	described := mcpCall(t, s, "tool_describe", `{"id":"`+hits.Hits[0].ID+`"}`)
	if described.IsError || !strings.Contains(mcpText(described), "inputSchema") {
		t.Errorf("tool_describe = %s", mcpText(described))
	}
	called := mcpCall(t, s, "tool_call", `{"id":"`+hits.Hits[0].ID+`","args":{"text":"x"}}`)
	if called.IsError || mcpText(called) != `called with {"text":"x"}` || fmt.Sprint(called.StructuredContent) != "map[got:map[text:x]]" {
		t.Errorf("tool_call = %+v %s", called, mcpText(called))
	}
	direct := mcpCall(t, s, "calendar__create_event", `{"text":"y"}`)
	if direct.IsError || mcpText(direct) != `called with {"text":"y"}` {
		t.Errorf("direct call of a tool that is not listed = %+v", direct)
	}
	broken := mcpCall(t, s, "broken", `{}`)
	if !broken.IsError || mcpText(broken) != "it is broken" {
		t.Errorf("call of a tool that fails = %v %q, want its own words", broken.IsError, mcpText(broken))
	}
	for name, code := range map[string]contracts.Code{"no_such_tool": contracts.CodeUnknownTool, "tool_search": contracts.CodeInvalidArgs} {
		bad := mcpCall(t, s, name, `{}`)
		var o contracts.Outcome
		if err := json.Unmarshal([]byte(mcpText(bad)), &o); err != nil || !bad.IsError || o.Error == nil || o.Error.Code != code || o.CallID == "" {
			t.Errorf("%s = %v %q, want isError and an outcome of %s", name, bad.IsError, mcpText(bad), code)
		}
	}
}

func TestMCPPassesContentAsItIs(t *testing.T) {
	w := open(t, gateway.Config{})
	s := newRawSession(t, w)
	got := s.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"odd_content","arguments":{}}}`)
	want := `"result":{"content":[{"type":"hologram","extra":{"a":1}}]}`
	if !strings.Contains(got, want) {
		t.Errorf("tools/call = %s, want %s in it", got, want)
	}
	list := s.send(t, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if again := s.send(t, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); list != again {
		t.Errorf("tools/list changes:\n%s\n%s", list, again)
	}
}

// A rawSession is an MCP session without the SDK.
type rawSession struct {
	w  *world
	id string
}

const rawInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

func newRawSession(t *testing.T, w *world) *rawSession {
	t.Helper()
	s := &rawSession{w: w}
	a := s.post(t, rawInitialize)
	if s.id = a.header.Get("Mcp-Session-Id"); s.id == "" {
		t.Fatalf("initialize = %d %s", a.status, a.body)
	}
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *rawSession) post(t *testing.T, body string) answer {
	t.Helper()
	h := []string{"Accept", "application/json, text/event-stream"}
	if s.id != "" {
		h = append(h, "Mcp-Session-Id", s.id, "Mcp-Protocol-Version", "2025-06-18")
	}
	return s.w.do(t, "POST", "/mcp", body, h...)
}

// send posts a request and returns the message that answers it.
func (s *rawSession) send(t *testing.T, body string) string {
	t.Helper()
	a := s.post(t, body)
	for line := range strings.Lines(string(a.body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"id"`) {
			return strings.TrimSpace(data)
		}
	}
	t.Fatalf("POST /mcp %s = %d %s", body, a.status, a.body)
	return ""
}

func TestMCPRefusals(t *testing.T) {
	w := open(t, gateway.Config{})
	_, err := w.dial("/mcp", headers{"Toolcrib-Agent": "unplannable"})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32602 || !strings.Contains(e.Message, "has the name of") {
		t.Errorf("initialize of a run that cannot be planned = %v, want its reason with -32602", err)
	}
	for _, tt := range []struct {
		path string
		h    headers
		want string
	}{
		{"/mcp?mode=sideways", nil, "mode"},
		{"/mcp", headers{"Toolcrib-Mode": "sideways"}, "mode"},
		{"/mcp", headers{"Toolcrib-Agent": strings.Repeat("x", 300)}, "Toolcrib-Agent"},
		{"/mcp/" + strings.Repeat("p", 300), nil, "profile"},
	} {
		_, err := w.dial(tt.path, tt.h)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32602 || !strings.Contains(e.Message, tt.want) {
			t.Errorf("initialize at %.40s with %.60v = %v, want -32602 that names %s", tt.path, tt.h, err, tt.want)
		}
	}
	if runs, _ := w.client.Runs(t.Context(), contracts.RunStatePlanned, 0); len(runs) != 0 {
		t.Errorf("after refusals there are %d open runs", len(runs))
	}
	s := newRawSession(t, w)
	if got := s.send(t, rawInitialize); !strings.Contains(got, `"error"`) {
		t.Errorf("initialize in a session = %s, want an error", got)
	}
	if runs, _ := w.client.Runs(t.Context(), contracts.RunStatePlanned, 0); len(runs) != 1 {
		t.Errorf("a session that was initialized twice has %d runs", len(runs))
	}
	if err := w.client.CloseRun(t.Context(), w.newest(t).ID); err != nil {
		t.Fatal(err)
	}
	if got := s.send(t, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool_search","arguments":{"query":"x"}}}`); !strings.Contains(got, `"run_closed"`) || !strings.Contains(got, `"error"`) {
		t.Errorf("a call in a session whose run was closed = %s, want an error with run_closed", got)
	}
}

func TestMCPSessionsAreApart(t *testing.T) {
	w := open(t, gateway.Config{})
	one, two := w.connect(t, "/mcp", nil), w.connect(t, "/mcp", nil)
	runs, err := w.client.Runs(t.Context(), contracts.RunStatePlanned, 0)
	if err != nil || len(runs) != 2 || one.ID() == two.ID() {
		t.Fatalf("two sessions are %d runs, %v", len(runs), err)
	}
	first := runs[1].ID
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the run of the session that ended is closed", func() bool { return w.runState(t, "local", first) == contracts.RunStateClosed })
	if got := mcpText(mcpCall(t, two, "create_event", `{}`)); got != "called with {}" {
		t.Errorf("a call in the other session = %q", got)
	}
	if got := w.runState(t, "local", runs[0].ID); got != contracts.RunStatePlanned {
		t.Errorf("the other session's run is %s", got)
	}
}

func TestMCPCancellation(t *testing.T) {
	w := open(t, gateway.Config{})
	for _, how := range []string{"cancelled", "session ended"} {
		s := w.connect(t, "/mcp", nil)
		run := w.newest(t).ID
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{}})
			done <- err
		}()
		var rec *contracts.Call
		state := func() contracts.CallState {
			rec = nil
			w.calls.List(t.Context(), "local."+string(run)+".>", func(_ contracts.Key, c *contracts.Call) error { rec = c; return nil })
			if rec == nil {
				return ""
			}
			return rec.State
		}
		await(t, "the tool runs", func() bool { return state() == contracts.CallStateRunning })
		if how == "cancelled" {
			cancel()
		} else {
			req, _ := http.NewRequest("DELETE", w.base+"/mcp", nil)
			req.Header.Set("Mcp-Session-Id", s.ID())
			begun := time.Now()
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != 204 || time.Since(begun) > 5*time.Second {
				t.Fatalf("DELETE /mcp after %v = %v, %v; want 204 soon", time.Since(begun), res, err)
			}
			res.Body.Close()
			await(t, "the run is closed", func() bool { return w.runState(t, "local", run) == contracts.RunStateClosed })
		}
		if err := <-done; err == nil {
			t.Errorf("%s: CallTool() = nil, want an error", how)
		}
		await(t, "the call has ended", func() bool { return state() == contracts.CallStateFinished })
		if rec.Outcome.Status != contracts.StatusCancelled {
			t.Errorf("%s: the call's outcome is %s, want cancelled", how, rec.Outcome.Status)
		}
		cancel()
	}
}

func TestMCPSessionEnds(t *testing.T) {
	w := open(t, gateway.Config{SessionIdle: 300 * time.Millisecond})
	w.connect(t, "/mcp", nil)
	run := w.newest(t).ID
	await(t, "the run of an idle session is closed", func() bool { return w.runState(t, "local", run) == contracts.RunStateClosed })
}

func TestMCPSessionsAreBounded(t *testing.T) {
	tenant := func(name string) gateway.Tenant {
		return gateway.Tenant{Keys: []gateway.Key{{Name: "k", Hash: contracts.HashOf([]byte(name)), Scopes: []string{"runs"}}}}
	}
	w := open(t, gateway.Config{MaxSessions: 3, Tenants: map[contracts.TenantID]gateway.Tenant{"acme": tenant("a"), "bell": tenant("b")}})
	acme, bell := headers{"Authorization": "Bearer a"}, headers{"Authorization": "Bearer b"}
	first := w.connect(t, "/mcp", bell)
	var ours []*mcp.ClientSession
	for range 4 {
		ours = append(ours, w.connect(t, "/mcp", acme))
	}
	for i, s := range ours {
		_, err := s.ListTools(t.Context(), nil)
		if open := i >= 2; open != (err == nil) {
			t.Errorf("session %d of the tenant that has the most: ListTools() = %v, want it open: %v", i, err, open)
		}
	}
	if _, err := first.ListTools(t.Context(), nil); err != nil {
		t.Errorf("the session of the other tenant was ended: %v", err)
	}
	runs, err := client.New(w.base, "a").Runs(t.Context(), contracts.RunStatePlanned, 0)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the runs of the ended sessions are closed", func() bool {
		runs, err = client.New(w.base, "a").Runs(t.Context(), contracts.RunStatePlanned, 0)
		return err != nil || len(runs) == 2
	})
	// A session of one tenant cannot be used by another.
	a := w.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Mcp-Session-Id", first.ID(), "Authorization", "Bearer a", "Accept", "application/json, text/event-stream")
	if a.status != 404 {
		t.Errorf("another tenant's session = %d %s, want 404", a.status, a.body)
	}
}

func TestMCPManyAtOnce(t *testing.T) {
	w := open(t, gateway.Config{MaxSessions: 4})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s, err := w.dial("/mcp", nil)
			if err != nil {
				return // another took its place
			}
			defer s.Close()
			for range 3 {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_event", Arguments: map[string]any{"text": fmt.Sprint(i)}})
				if err != nil {
					return
				}
				if got, want := mcpText(r), fmt.Sprintf(`called with {"text":"%d"}`, i); got != want {
					t.Errorf("session %d: %q, want %q", i, got, want)
				}
			}
		})
	}
	all.Wait()
	await(t, "all runs are closed", func() bool {
		runs, err := w.client.Runs(t.Context(), contracts.RunStatePlanned, 0)
		return err == nil && len(runs) == 0
	})
}
