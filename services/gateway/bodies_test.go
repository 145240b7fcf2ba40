package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// exec runs a body and returns the answer with its status.
func (w *world) exec(t *testing.T, run contracts.RunID, code string, headers ...string) (int, client.CallAnswer) {
	t.Helper()
	return w.callIn(t, run, `{"name":"tool_search_code","arguments":`+jsonOf(map[string]string{"code": code})+`}`, headers...)
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// resultOf returns what came of a body, which must stand in the text and in the structured content alike.
func resultOf(t *testing.T, a client.CallAnswer) contracts.BodyResult {
	t.Helper()
	var r contracts.BodyResult
	if a.Result == nil {
		t.Fatalf("%s has no result: %+v", a.Status, a)
	}
	if got := text(a.Result); got != string(a.Result.StructuredContent) || strings.Contains(got, `\u003c`) {
		t.Errorf("the text %s and the structured content %s differ, or are escaped", got, a.Result.StructuredContent)
	}
	if err := json.Unmarshal(a.Result.StructuredContent, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBody(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for _, tt := range []struct {
		code    string
		status  contracts.Status
		err     string // code and message
		effects contracts.SideEffects
	}{
		{"return 1", contracts.StatusOK, "", contracts.SideEffectsNone},
		{"act", contracts.StatusOK, "", ""},
		{"throw", contracts.StatusError, "body_failed: exception: x is <not> a function (line 2, column 7)", contracts.SideEffectsNone},
		{"act and throw", contracts.StatusError, "body_failed: timeout: longer than 10 s", contracts.SideEffectsUnknown},
		{"image", contracts.StatusOK, "", contracts.SideEffectsNone},
		{"busy", contracts.StatusRateLimited, "rate_limited: too many bodies", contracts.SideEffectsNone},
		{"no engine", contracts.StatusUnavailable, "unavailable: the sandbox has no engine", contracts.SideEffectsNone},
	} {
		status, a := w.exec(t, run, tt.code)
		got := ""
		if a.Error != nil {
			got = a.Error.Error()
		}
		if status != 200 || a.Status != tt.status || got != tt.err || a.SideEffects != tt.effects || len(a.Repaired) > 0 {
			t.Errorf("body %q = %d %s %q, side effects %q, repaired %q; want %s %q, %q", tt.code, status, a.Status, got, a.SideEffects, a.Repaired, tt.status, tt.err, tt.effects)
		}
		want := &contracts.ToolRef{ID: "platform:toolcrib:tool_search_code", Name: "tool_search_code", Source: "platform"}
		if d := cmp.Diff(want, a.Tool); d != "" || a.CallID == "" {
			t.Errorf("body %q: tool (-want +got):\n%s", tt.code, d)
		}
		rec, err := w.bodies.Get(t.Context(), contracts.BodyKey("local", run, contracts.BodyOf(a.CallID)))
		if err != nil || rec.Code != tt.code {
			t.Errorf("body %q has the record %+v, %v", tt.code, rec, err)
		}
		switch tt.status {
		case contracts.StatusOK, contracts.StatusError:
			r := resultOf(t, a)
			if r.OK != (tt.status == contracts.StatusOK) || a.Result.IsError == r.OK || len(r.Logs) != 1 || r.OK && !strings.Contains(string(r.Value), `"timeoutMs":7000`) {
				t.Errorf("body %q: result %+v, isError %v", tt.code, r, a.Result.IsError)
			}
		default:
			if a.Result != nil || tt.code == "busy" && a.RetryAfter != 2000 {
				t.Errorf("body %q that was not run has the result %+v, retryAfter %d", tt.code, a.Result, a.RetryAfter)
			}
		}
		if tt.code == "image" && (len(a.Result.Content) != 2 || !strings.Contains(string(a.Result.Content[1]), "image/png")) {
			t.Errorf("the content is %s, want text and image", a.Result.Content)
		}
	}
}

func TestBodyArguments(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	large := strings.Repeat(" ", contracts.LongestBody-1) + "1"
	for _, tt := range []struct {
		name, args string
		code       string // that is run, or what the error says
		repaired   int    // -1 where it is refused
	}{
		{"tool_search_code", `{"code":"return 1"}`, "return 1", 0},
		{"tool_search_code", `{"code":"  return 1\n"}`, "  return 1\n", 0},
		{"tool_search_code", jsonOf(map[string]string{"code": large}), large, 0},
		{"tool_search_code", `"{\"code\":\"return 1\"}"`, "return 1", 1},
		{"tool_search_code", `{"javascript":"return 1"}`, "return 1", 1},
		{"tool_search_code", `{"js":"return 1"}`, "return 1", 1},
		{"tool_search_code", `{"script":"return 1"}`, "return 1", 1},
		{"tool_search_code", `{"body":"return 1"}`, "return 1", 1},
		{"tool_search_code", "{\"code\":\"```js\\nreturn 1\\n```\"}", "return 1\n", 1},
		{"tool_search_code", "{\"code\":\" ```\\r\\nreturn 1```\\n\"}", "return 1", 1},
		{"tool_search_code", "{\"code\":\"```js\\na\\n```\\nand\\n```js\\nb\\n```\"}", "```js\na\n```\nand\n```js\nb\n```", 0},
		{"tool_search_code", "{\"code\":\"```a.b()\\n```\"}", "```a.b()\n```", 0},
		{"tool_call", `{"id":"tool_search_code","args":{"code":"return 1"}}`, "return 1", 1},
		{"tool_call", "{\"id\":\"tool_search_code\",\"js\":\"```typescript\\nreturn 1\\n```\"}", "return 1\n", 4},
		{"tool_search_code", ``, "code: empty; want the inside of an async function", -1},
		{"tool_search_code", `{"code":" \n"}`, "code: empty", -1},
		{"tool_search_code", "{\"code\":\"```js\\n```\"}", "code: empty", -1},
		{"tool_search_code", `{"code":7}`, "code: want a text", -1},
		{"tool_search_code", `{"code":"a","js":"b"}`, "js: unknown; tool_search_code takes code", -1},
		{"tool_search_code", `{"js":"a","timeout":1}`, "timeout: unknown", -1},
		{"tool_search_code", `["return 1"]`, "want an object", -1},
	} {
		body := fmt.Sprintf(`{"name":%q`, tt.name)
		if tt.args != "" {
			body += `,"arguments":` + tt.args
		}
		_, a := w.callIn(t, run, body+"}")
		if tt.repaired < 0 {
			if a.Status != contracts.StatusInvalidArgs || !strings.Contains(a.Error.Message, tt.code) || a.SideEffects != contracts.SideEffectsNone {
				t.Errorf("%.100s = %s %v, want invalid_args with %q", tt.args, a.Status, a.Error, tt.code)
			}
			continue
		}
		var v struct{ Code string }
		if json.Unmarshal(resultOf(t, a).Value, &v); v.Code != tt.code || len(a.Repaired) != tt.repaired {
			t.Errorf("%.100s ran %.100q repaired %q, want %.100q with %d repairs", tt.args, v.Code, a.Repaired, tt.code, tt.repaired)
		}
	}
}

func TestBodyThatFailsAgain(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for n := 1; n <= 4; n++ {
		_, a := w.exec(t, run, "throw")
		blocks := string(jsonOf(a.Result.Content))
		if told := strings.HasPrefix(a.Error.Message, "Stop: "); told != (n >= 3) || strings.Contains(blocks, "Stop: ") != told {
			t.Errorf("the same failure for the %d. time says %q and %s", n, a.Error.Message, blocks)
		}
		if r := resultOf(t, a); r.Error.Line != 2 {
			t.Errorf("the result is %+v", r)
		}
	}
	w.exec(t, run, "return 1")
	if _, a := w.exec(t, run, "throw"); strings.HasPrefix(a.Error.Message, "Stop: ") {
		t.Errorf("after a good body it says %q", a.Error.Message)
	}
}

func TestBodyThatTakesLong(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	begin := func() (href string, id contracts.CallID) {
		t.Helper()
		status, a := w.exec(t, run, "slow", "Prefer", "wait=0")
		if href = "/v1/runs/" + string(run) + "/calls/" + string(a.CallID); status != 202 || a.Status != contracts.StatusWaiting || a.Href != href || a.Tool.Name != "tool_search_code" {
			t.Fatalf("a body that takes long = %d %+v, want 202 waiting with the href %s", status, a, href)
		}
		return href, a.CallID
	}
	href, _ := begin()
	if a := w.do(t, "GET", href, ""); a.status != 202 || decode[client.CallAnswer](t, a).Status != contracts.StatusWaiting {
		t.Errorf("GET %s = %d %s, want 202 waiting", href, a.status, a.body)
	}
	a := w.do(t, "POST", href+"/result", `{"content":[]}`)
	if p := a.problem(t); a.status != 409 || p.Code != contracts.CodeConflict {
		t.Errorf("a result for a body = %d %s, want 409 conflict", a.status, a.body)
	}
	done := make(chan answer)
	go func() { done <- w.do(t, "GET", href, "", "Prefer", "wait=60") }()
	w.release <- struct{}{}
	if a := <-done; a.status != 200 || decode[client.CallAnswer](t, a).Status != contracts.StatusOK {
		t.Errorf("GET %s that waits = %d %s, want 200 ok", href, a.status, a.body)
	}
	if a := w.do(t, "DELETE", href, ""); a.status != 202 || decode[client.CallAnswer](t, a).Status != contracts.StatusOK {
		t.Errorf("DELETE of an ended body = %d %s, want 202 ok", a.status, a.body)
	}

	href, id := begin()
	if a := w.do(t, "DELETE", href, ""); a.status != 202 {
		t.Errorf("DELETE %s = %d %s, want 202", href, a.status, a.body)
	}
	end, err := w.client.Await(t.Context(), run, id)
	if err != nil || end.Status != contracts.StatusCancelled || end.Error.Code != contracts.CodeCancelled || end.SideEffects != contracts.SideEffectsUnknown || resultOf(t, *end).OK {
		t.Errorf("cancelled body = %+v, %v", end, err)
	}

	other := w.openRun(t, client.RunOptions{}).ID
	if a := w.do(t, "GET", "/v1/runs/"+string(other)+"/calls/"+string(id), ""); a.status != 404 {
		t.Errorf("a body in another run = %d %s, want 404", a.status, a.body)
	}
}

func TestBodyThatCallsClientTools(t *testing.T) {
	w := open(t, gateway.Config{})
	schema := json.RawMessage(`{"type":"object"}`)
	run := w.openRun(t, client.RunOptions{ClientTools: []client.ClientTool{{Name: "one", InputSchema: schema}, {Name: "two", InputSchema: schema}}}).ID
	a, err := w.client.Call(t.Context(), run, client.CallRequest{Name: "tool_search_code", Arguments: json.RawMessage(`{"code":"ask one two"}`)})
	if err != nil || a.Status != contracts.StatusRequiresAction || a.Final() || a.Href == "" || a.ClientCall != nil {
		t.Fatalf("body that calls client tools = %+v, %v; want requires_action", a, err)
	}
	want := []client.ClientCall{
		{CallID: contracts.BodyCallID(run, contracts.BodyOf(a.CallID), 1), Tool: "one", Args: json.RawMessage(`{"n":"one"}`)},
		{CallID: contracts.BodyCallID(run, contracts.BodyOf(a.CallID), 2), Tool: "two", Args: json.RawMessage(`{"n":"two"}`)},
	}
	if d := cmp.Diff(want, a.ClientCalls); d != "" {
		t.Errorf("clientCalls (-want +got):\n%s", d)
	}
	post := func(i int, s string) {
		t.Helper()
		if _, err := w.client.Result(t.Context(), run, a.ClientCalls[i].CallID, client.ClientResult{Content: contracts.TextResult(s, nil).Content}); err != nil {
			t.Fatal(err)
		}
	}
	post(0, "first")
	if next, err := w.client.Await(t.Context(), run, a.CallID); err != nil || cmp.Diff(want[1:], next.ClientCalls) != "" {
		t.Errorf("after one result the body waits for %+v, %v; want the other", next, err)
	}
	post(1, "second")
	end, err := w.client.Await(t.Context(), run, a.CallID)
	if err != nil || end.Status != contracts.StatusOK || string(resultOf(t, *end).Value) != `{"one":"first","two":"second"}` {
		t.Errorf("the body ends with %+v, %v", end, err)
	}
}

func TestBodyIdempotency(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	_, first := w.exec(t, run, "return 1", "Idempotency-Key", "k1")
	_, again := w.exec(t, run, "return 1", "Idempotency-Key", "k1")
	if d := cmp.Diff(first, again); d != "" || first.CallID != contracts.KeyedCallID(run, "local", "k1") {
		t.Errorf("equal keys are two bodies:\n%s", d)
	}
	w.callIn(t, run, `{"name":"create_event"}`, "Idempotency-Key", "k2")
	for _, tt := range []struct{ key, body string }{
		{"k1", `{"name":"tool_search_code","arguments":{"code":"return 2"}}`},
		{"k1", `{"name":"create_event"}`},
		{"k2", `{"name":"tool_search_code","arguments":{"code":"return 1"}}`},
	} {
		a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", tt.body, "Idempotency-Key", tt.key)
		if p := a.problem(t); a.status != 409 || p.Code != contracts.CodeConflict || !strings.Contains(p.Detail, "Idempotency-Key") {
			t.Errorf("%s with the key of another call = %d %s, want 409 that names Idempotency-Key", tt.body, a.status, a.body)
		}
	}
}

func TestDeniedBody(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	if _, err := client.New(w.base, adminToken).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"*:tool_search_code"}}}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"name":"tool_search_code","arguments":{"code":"return 1"}}`, `{"name":"tool_call","arguments":{"id":"tool_search_code","args":{"code":"return 1"}}}`} {
		await(t, "tool_search_code does not exist where it is denied", func() bool {
			_, a := w.callIn(t, run, body)
			return a.Error != nil && a.Error.Code == contracts.CodeUnknownTool
		})
	}
}

func TestBodyOfTooMuchText(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	_, a := w.callIn(t, run, `{"name":"tool_search_code","arguments":`+jsonOf(map[string]string{"code": strings.Repeat(" ", contracts.LongestBody) + "1"})+`}`)
	var res contracts.BodyResult
	if a.Result == nil || json.Unmarshal(a.Result.StructuredContent, &res) != nil || a.Status != contracts.StatusError ||
		a.Error.Code != contracts.CodeBodyFailed || res.Error == nil || res.Error.Code != contracts.BodyTooLarge || a.CallID == "" || a.SideEffects != contracts.SideEffectsNone {
		t.Errorf("answer %+v, result %+v; want it to say %s", a, res, contracts.BodyTooLarge)
	}
}

func TestMCPBody(t *testing.T) {
	w := open(t, gateway.Config{})
	s := w.connect(t, "/mcp", nil)
	run := w.newest(t).ID
	body := func(code string) *mcp.CallToolResult {
		t.Helper()
		return mcpCall(t, s, "tool_search_code", jsonOf(map[string]string{"code": code}))
	}
	for _, code := range []string{"image", "throw"} { // a success forgets failures
		ok := code == "image"
		r := body(code)
		structured := jsonOf(r.StructuredContent)
		var got, want any
		json.Unmarshal([]byte(mcpText(r)), &got)
		json.Unmarshal([]byte(structured), &want)
		if d := cmp.Diff(want, got); d != "" || r.IsError == ok || !strings.Contains(structured, fmt.Sprintf(`"ok":%v`, ok)) || !strings.Contains(structured, "began") {
			t.Errorf("body %q = %v, %s %s", code, r.IsError, mcpText(r), structured)
		}
		if _, image := r.Content[len(r.Content)-1].(*mcp.ImageContent); image != ok {
			t.Errorf("body %q has the content %s", code, jsonOf(r.Content))
		}
	}
	if r := body("busy"); !r.IsError || !strings.Contains(mcpText(r), `"rate_limited"`) || !strings.Contains(mcpText(r), `"retryAfter":2000`) {
		t.Errorf("a body that was not run = %v %s", r.IsError, mcpText(r))
	}
	body("throw")
	if r := body("throw"); !strings.Contains(jsonOf(r.Content), "Stop: ") {
		t.Errorf("the same failure for the third time = %s, want a statement to stop", jsonOf(r.Content))
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "tool_search_code", Arguments: map[string]any{"code": "slow"}})
		done <- err
	}()
	var id contracts.BodyID
	await(t, "the body runs", func() bool {
		log, err := w.log(t.Context(), "local", contracts.LogRequest{Run: run})
		for after := uint64(0); err == nil && len(log.Lines) > 0; log, err = w.log(t.Context(), "local", contracts.LogRequest{Run: run, After: after}) {
			for _, l := range log.Lines {
				var e contracts.BodyRequested
				if after = l.Seq; l.Type == "body.requested" && json.Unmarshal(l.Event, &e) == nil {
					id = e.Body
				}
			}
		}
		rec, err := w.bodies.Get(t.Context(), contracts.BodyKey("local", run, id))
		return err == nil && rec.Code == "slow" && rec.State == contracts.BodyStateRunning
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("CallTool() that was cancelled = nil, want an error")
	}
	await(t, "the body has ended", func() bool {
		rec, err := w.bodies.Get(t.Context(), contracts.BodyKey("local", run, id))
		return err == nil && rec.State == contracts.BodyStateFinished && rec.Ended.Result.Error.Code == contracts.BodyCancelled
	})
}
