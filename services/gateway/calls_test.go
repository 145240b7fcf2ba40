package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// callIn calls in a run and returns the answer with its status.
func (w *world) callIn(t *testing.T, run contracts.RunID, body string, headers ...string) (int, client.CallAnswer) {
	t.Helper()
	a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", body, headers...)
	if a.status != 200 && a.status != 202 {
		t.Fatalf("POST …/calls %s = %d %s", body, a.status, a.body)
	}
	return a.status, decode[client.CallAnswer](t, a)
}

func TestDirectCall(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for _, tt := range []struct {
		name, args string
		status     contracts.Status
		code       contracts.Code
		text       string // in the result
		repaired   int
	}{
		{"calendar__create_event", `{"text":"x"}`, contracts.StatusOK, "", `called with {"text":"x"}`, 0},
		{"mcp:calendar:create_event", ``, contracts.StatusOK, "", "called with {}", 0},
		{"create_event", `null`, contracts.StatusOK, "", "called with {}", 0},
		{"create_event", `"{\"text\":\"x\"}"`, contracts.StatusOK, "", `called with {"text":"x"}`, 1},
		{"create_event", `[1]`, contracts.StatusInvalidArgs, contracts.CodeInvalidArgs, "", 0},
		{"create_event", `"x"`, contracts.StatusInvalidArgs, contracts.CodeInvalidArgs, "", 0},
		{"broken", `{}`, contracts.StatusError, contracts.CodeToolError, "it is broken", 0},
		{"create_evnt", `{}`, contracts.StatusError, contracts.CodeUnknownTool, "", 0},
	} {
		body := fmt.Sprintf(`{"id":"toolu_1","name":%q`, tt.name)
		if tt.args != "" {
			body += `,"arguments":` + tt.args
		}
		status, a := w.callIn(t, run, body+"}")
		var code contracts.Code
		if a.Error != nil {
			code = a.Error.Code
		}
		if status != 200 || a.Status != tt.status || code != tt.code || len(a.Repaired) != tt.repaired || a.CallID == "" || a.ID != "toolu_1" {
			t.Errorf("call of %s %s = %d %+v, want %s %s with %d repairs", tt.name, tt.args, status, a, tt.status, tt.code, tt.repaired)
		}
		if got := text(a.Result); got != tt.text {
			t.Errorf("call of %s %s: result %q, want %q", tt.name, tt.args, got, tt.text)
		}
	}
	for _, body := range []string{`{}`, `{"name":""}`, `{"name":7}`, `{"name":"x","args":{}}`} {
		a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", body)
		if p := a.problem(t); a.status != 422 || p.Code != contracts.CodeInvalid {
			t.Errorf("POST …/calls %s = %d %s, want 422 invalid", body, a.status, a.body)
		}
	}
}

// text returns the text of a result's first block.
func text(r *contracts.Result) string {
	if r == nil || len(r.Content) == 0 {
		return ""
	}
	var b struct{ Text string }
	json.Unmarshal(r.Content[0], &b)
	return b.Text
}

func TestControlTools(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for _, tt := range []struct {
		name, args string
		status     contracts.Status
		want       string // in the result's text, or in the error's message
	}{
		{"tool_search", `{"query":"calendar"}`, contracts.StatusOK, `"id":"mcp:calendar:create_event"`},
		{"tool_search", `{"query":"calendar","limit":3}`, contracts.StatusOK, `"limit":3`},
		{"tool_search", `{"query":"calendar","limit":1e9}`, contracts.StatusOK, `"limit":1048576`},
		{"tool_search", `"{\"query\":\"calendar\"}"`, contracts.StatusOK, `"hits":[{`},
		{"tool_search", `{"queries":["calendar","failed"]}`, contracts.StatusOK, `{"results":[{`},
		{"tool_search", ``, contracts.StatusInvalidArgs, "query: empty; write"},
		{"tool_search", `{"query":"  "}`, contracts.StatusInvalidArgs, "query: empty; write"},
		{"tool_search", `{"query":7}`, contracts.StatusInvalidArgs, "query: want a text"},
		{"tool_search", `{"query":"x","limit":0}`, contracts.StatusInvalidArgs, "limit: is 0; want a positive integer"},
		{"tool_search", `{"query":"x","limit":-2}`, contracts.StatusInvalidArgs, "positive integer"},
		{"tool_search", `{"query":"x","limit":1.5}`, contracts.StatusInvalidArgs, "positive integer"},
		{"tool_search", `{"query":"x","limit":"many"}`, contracts.StatusInvalidArgs, "positive integer"},
		{"tool_search", `{"query":"x","limit":null}`, contracts.StatusInvalidArgs, "positive integer"},
		{"tool_search", `{"query":"x","queries":["y"]}`, contracts.StatusInvalidArgs, "queries: stands beside query"},
		{"tool_search", `{"queries":[]}`, contracts.StatusInvalidArgs, "1 to 16"},
		{"tool_search", `{"queries":["a",""]}`, contracts.StatusInvalidArgs, "queries/1: empty"},
		{"tool_search", `{"queries":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, contracts.StatusInvalidArgs, "1 to 16"},
		{"tool_search", `{"q":"x"}`, contracts.StatusInvalidArgs, "q: unknown; tool_search takes query, limit and queries"},
		{"tool_search", `[]`, contracts.StatusInvalidArgs, "want an object"},
		{"tool_describe", `{"id":"create_event"}`, contracts.StatusOK, `"inputSchema":{"type":"object"`},
		{"tool_describe", `{}`, contracts.StatusInvalidArgs, "id: empty"},
		{"tool_describe", `{"id":["x"]}`, contracts.StatusInvalidArgs, "id: want a text"},
		{"tool_describe", `{"id":"mcp:calendar:create_evnt"}`, contracts.StatusError, "did you mean mcp:calendar:create_event"},
		{"tool_call", `{"id":"mcp:calendar:create_event","args":{"text":"x"}}`, contracts.StatusOK, `called with {"text":"x"}`},
		{"tool_call", `{"id":"create_event"}`, contracts.StatusOK, "called with {}"},
		{"tool_call", `{"id":"create_event","args":null}`, contracts.StatusOK, "called with {}"},
		{"tool_call", `{"args":{}}`, contracts.StatusInvalidArgs, "id: empty"},
		{"tool_call", `{"id":"create_event","args":[]}`, contracts.StatusInvalidArgs, "args: is []; want an object"},
		{"tool_call", `{"id":"create_event","args":{"text":"x"},"why":"so"}`, contracts.StatusInvalidArgs, "why: unknown; tool_call takes id and args"},
		{"tool_call", `{"id":"nothing_like_it"}`, contracts.StatusError, "there is no tool"},
	} {
		body := fmt.Sprintf(`{"name":%q`, tt.name)
		if tt.args != "" {
			body += `,"arguments":` + tt.args
		}
		status, a := w.callIn(t, run, body+"}")
		got := text(a.Result)
		if a.Error != nil {
			got = a.Error.Message
		}
		if status != 200 || a.Status != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s = %d %s %q, want %s with %q", tt.name, tt.args, status, a.Status, got, tt.status, tt.want)
		}
		if a.CallID == "" || a.Error != nil && a.Error.Code == "" {
			t.Errorf("%s %s: outcome %+v has no call id or code", tt.name, tt.args, a)
		}
		if tt.name == "tool_call" || tt.status != contracts.StatusOK {
			continue
		}
		if d := cmp.Diff(&contracts.ToolRef{ID: contracts.ToolID("platform:toolcrib:" + tt.name), Name: tt.name, Source: "platform"}, a.Tool); d != "" {
			t.Errorf("%s: tool (-want +got):\n%s", tt.name, d)
		}
		if len(a.Result.Content) != 1 || string(a.Result.StructuredContent) != got {
			t.Errorf("%s: structured content %s differs from the text %s", tt.name, a.Result.StructuredContent, got)
		}
	}
}

func TestToolCallIsMended(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for _, tt := range []struct {
		args, want string
		repaired   int
	}{
		{`{"id":"create_event","text":"x"}`, `called with {"text":"x"}`, 1},
		{`{"id":"create_event","args":{},"text":"x"}`, `called with {"text":"x"}`, 1},
		{`{"id":"create_event","args":"{\"text\":\"x\"}"}`, `called with {"text":"x"}`, 1},
		{`"{\"id\":\"create_event\",\"args\":{}}"`, "called with {}", 1},
		{`{"id":"create_event","args":{"args":{"text":"x"}}}`, `called with {"text":"x"}`, 1},
		{`{"id":"tool_call","args":{"id":"create_event","args":{"text":"x"}}}`, `called with {"text":"x"}`, 1},
		{`{"id":"tool_call","args":{"id":"tool_call","args":"{\"id\":\"create_event\",\"text\":\"x\"}"}}`, `called with {"text":"x"}`, 4},
		{`{"id":"tool_search","args":{"query":"failed"}}`, `"id":"mcp:calendar:broken"`, 1},
	} {
		_, a := w.callIn(t, run, `{"name":"tool_call","arguments":`+tt.args+`}`)
		if got := text(a.Result); a.Status != contracts.StatusOK || !strings.Contains(got, tt.want) || len(a.Repaired) != tt.repaired {
			t.Errorf("tool_call %s = %s %q repaired %q (%v), want %q with %d repairs", tt.args, a.Status, got, a.Repaired, a.Error, tt.want, tt.repaired)
		}
	}
	deep := `{"id":"create_event"}`
	for range 6 {
		deep = `{"id":"tool_call","args":` + deep + `}`
	}
	if _, a := w.callIn(t, run, `{"name":"tool_call","arguments":`+deep+`}`); a.Status != contracts.StatusInvalidArgs {
		t.Errorf("tool_call nested 6 times = %s, want invalid_args", a.Status)
	}
}

func TestSameFailureAgain(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	bad := []string{
		`{"name":"tool_search","arguments":{}}`,
		`{"name":"tool_describe","arguments":{"id":"no_such"}}`,
		`{"name":"tool_call","arguments":{"id":"no_such"}}`,
	}
	for _, body := range bad {
		for n := 1; n <= 4; n++ {
			_, a := w.callIn(t, run, body)
			if told := strings.HasPrefix(a.Error.Message, "Stop: "); told != (n >= 3) {
				t.Errorf("%s for the %d. time says %q", body, n, a.Error.Message)
			}
		}
		w.callIn(t, run, `{"name":"tool_search","arguments":{"query":"x"}}`)
		if _, a := w.callIn(t, run, body); strings.HasPrefix(a.Error.Message, "Stop: ") {
			t.Errorf("%s after a good call says %q", body, a.Error.Message)
		}
	}
}

func TestDeniedControlTool(t *testing.T) {
	w := open(t, gateway.Config{})
	admin := client.New(w.base, adminToken)
	v := w.openRun(t, client.RunOptions{Agent: "a"})
	set := func(l contracts.PolicyLayer) {
		if _, err := admin.SetPolicies(t.Context(), []contracts.PolicyLayer{l}); err != nil {
			t.Fatal(err)
		}
	}
	search := func() contracts.Code {
		_, a := w.callIn(t, v.ID, `{"name":"tool_search","arguments":{"query":"x"}}`)
		if a.Error == nil {
			return ""
		}
		return a.Error.Code
	}
	set(contracts.PolicyLayer{Level: "agent", Name: "a", Deny: []string{"platform:toolcrib:*"}})
	await(t, "tool_search does not exist where it is denied", func() bool { return search() == contracts.CodeUnknownTool })
	set(contracts.PolicyLayer{Level: "agent", Name: "other", Deny: []string{"*"}})
	await(t, "another agent's denial is not ours", func() bool { return search() == "" })
	set(contracts.PolicyLayer{Level: "tenant", Allow: []string{"mcp:*"}})
	if got := search(); got != "" {
		t.Errorf("tool_search under an allow list that does not mention it: %s, want it allowed", got)
	}
}

func TestWaitingCall(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	path := "/v1/runs/" + string(run) + "/calls"
	begun := time.Now()
	a := w.do(t, "POST", path, `{"name":"slow"}`, "Prefer", "respond-async, wait=1")
	got := decode[client.CallAnswer](t, a)
	href := path + "/" + string(got.CallID)
	if a.status != 202 || got.Status != contracts.StatusWaiting || got.Href != href || a.header.Get("Location") != href || got.Final() {
		t.Fatalf("call that takes longer = %d %s, want 202 waiting with href and Location %s", a.status, a.body, href)
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("the answer came after %v, want after the 1 s that was preferred", took)
	}
	if a := w.do(t, "GET", href, ""); a.status != 202 || decode[client.CallAnswer](t, a).Status != contracts.StatusWaiting {
		t.Errorf("GET %s = %d %s, want 202 waiting", href, a.status, a.body)
	}
	done := make(chan answer)
	go func() { done <- w.do(t, "GET", href, "", "Prefer", "wait=60") }()
	w.release <- struct{}{}
	if a := <-done; a.status != 200 || decode[client.CallAnswer](t, a).Status != contracts.StatusOK {
		t.Errorf("GET %s that waits = %d %s, want 200 ok", href, a.status, a.body)
	}
	for _, prefer := range []string{"wait=x", "wait=-1", "wait="} {
		a := w.do(t, "POST", path, `{"name":"create_event"}`, "Prefer", prefer)
		if p := a.problem(t); a.status != 400 || !strings.Contains(p.Detail, "Prefer") {
			t.Errorf("Prefer: %s = %d %s, want 400 that names it", prefer, a.status, a.body)
		}
	}
}

func TestCancelCall(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	_, a := w.callIn(t, run, `{"name":"slow"}`, "Prefer", "wait=0")
	href := "/v1/runs/" + string(run) + "/calls/" + string(a.CallID)
	await(t, "the tool runs", func() bool {
		c, err := w.calls.Get(t.Context(), contracts.CallKey("local", run, a.CallID))
		return err == nil && c.State == contracts.CallStateRunning
	})
	if a := w.do(t, "DELETE", href, ""); a.status != 202 {
		t.Errorf("DELETE %s = %d %s, want 202", href, a.status, a.body)
	}
	end, err := w.client.Await(t.Context(), run, a.CallID)
	if err != nil || end.Status != contracts.StatusCancelled {
		t.Errorf("cancelled call = %+v, %v", end, err)
	}
	if a := w.do(t, "DELETE", href, ""); a.status != 202 || decode[client.CallAnswer](t, a).Status != contracts.StatusCancelled {
		t.Errorf("DELETE of an ended call = %d %s, want 202 cancelled", a.status, a.body)
	}
	for _, id := range []string{string(contracts.NewCallID()), "nonsense", "*"} {
		for _, r := range []string{"GET", "DELETE", "POST"} {
			path, body := "/v1/runs/"+string(run)+"/calls/"+id, ""
			if r == "POST" {
				path, body = path+"/result", `{"content":[]}`
			}
			a := w.do(t, r, path, body)
			if p := a.problem(t); a.status != 404 || p.Code != contracts.CodeNotFound {
				t.Errorf("%s %s = %d %s, want 404 not_found", r, path, a.status, a.body)
			}
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	other := w.openRun(t, client.RunOptions{}).ID
	body := `{"name":"create_event","arguments":{"text":"once"}}`
	_, first := w.callIn(t, run, body, "Idempotency-Key", "k1")
	_, again := w.callIn(t, run, body, "Idempotency-Key", "k1")
	if d := cmp.Diff(first, again); d != "" || first.CallID != contracts.KeyedCallID(run, "local", "k1") {
		t.Errorf("equal keys are two calls:\n%s", d)
	}
	if _, a := w.callIn(t, other, body, "Idempotency-Key", "k1"); a.CallID == first.CallID {
		t.Error("equal keys of two runs are one call")
	}
	if _, a := w.callIn(t, run, body); a.CallID == first.CallID {
		t.Error("a call without a key is one with a key")
	}
	if _, a := w.callIn(t, other, body, "Idempotency-Key", "k1", "Authorization", "Bearer "+adminToken); a.CallID != contracts.KeyedCallID(other, "admin", "k1") {
		t.Error("the key of somebody else is not a key of their own")
	}
	a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", `{"name":"create_event","arguments":{"text":"other"}}`, "Idempotency-Key", "k1")
	if p := a.problem(t); a.status != 409 || p.Code != contracts.CodeConflict || !strings.Contains(p.Detail, "Idempotency-Key") {
		t.Errorf("the key of another call = %d %s, want 409 that names Idempotency-Key", a.status, a.body)
	}
	_, viaTool := w.callIn(t, run, `{"name":"tool_call","arguments":{"id":"create_event"}}`, "Idempotency-Key", "k2")
	if viaTool.CallID != contracts.KeyedCallID(run, "local", "k2") {
		t.Errorf("tool_call with a key has the id %s, want that of the key", viaTool.CallID)
	}
	n := 0
	table, err := store.OpenTable[contracts.Call](t.Context(), w.bus, contracts.BucketCalls)
	if err != nil {
		t.Fatal(err)
	}
	table.List(t.Context(), "local."+string(run)+".>", func(contracts.Key, *contracts.Call) error { n++; return nil })
	if n != 3 {
		t.Errorf("there are %d calls, want 3", n)
	}
}

// However often and wherever a call with a key is asked for, before its end and after, it is one call.
func TestAKeyIsOneCallEverywhere(t *testing.T) {
	w := open(t, gateway.Config{})
	doors := []*world{w, openOn(t, w.bus, w.standIns, gateway.Config{})}
	run := w.openRun(t, client.RunOptions{}).ID
	const body = `{"name":"calendar__slow"}`
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			a := doors[i%2].do(t, "POST", "/v1/runs/"+string(run)+"/calls", body, "Idempotency-Key", "k", "Prefer", "wait=0")
			if got := decode[client.CallAnswer](t, a); a.status != 202 || got.CallID != contracts.KeyedCallID(run, "local", "k") {
				t.Errorf("asked for again: %d %s, want 202 and the one call", a.status, a.body)
			}
		})
	}
	wg.Wait()
	calls := 0
	w.calls.List(t.Context(), "local."+string(run)+".>", func(contracts.Key, *contracts.Call) error { calls++; return nil })
	if calls != 1 {
		t.Errorf("there are %d calls, want 1", calls)
	}
	id := contracts.KeyedCallID(run, "local", "k")
	w.do(t, "DELETE", "/v1/runs/"+string(run)+"/calls/"+string(id), "")
	end, err := w.client.Await(t.Context(), run, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, door := range doors {
		a := door.do(t, "POST", "/v1/runs/"+string(run)+"/calls", body, "Idempotency-Key", "k")
		got := decode[client.CallAnswer](t, a)
		if d := cmp.Diff(end, &got); a.status != 200 || d != "" {
			t.Errorf("asked for after its end: %d, %s", a.status, d)
		}
	}
}

func TestClientTool(t *testing.T) {
	w := open(t, gateway.Config{CallTimeout: 30 * time.Second})
	run := w.openRun(t, client.RunOptions{ClientTools: []client.ClientTool{{Name: "open file", Description: "Open", InputSchema: json.RawMessage(`{"type":"object"}`)}}}).ID
	a, err := w.client.Call(t.Context(), run, client.CallRequest{Name: "client:client:open file", Arguments: json.RawMessage(`{"path":"/a"}`)})
	if err != nil || a.Status != contracts.StatusRequiresAction || a.Final() {
		t.Fatalf("call of a client tool = %+v, %v; want requires_action", a, err)
	}
	if d := cmp.Diff(&client.ClientCall{Tool: "open file", Args: json.RawMessage(`{"path":"/a"}`)}, a.ClientCall); d != "" {
		t.Errorf("clientCall (-want +got):\n%s", d)
	}
	rec, err := w.calls.Get(t.Context(), contracts.CallKey("local", run, a.CallID))
	if left := time.Until(rec.Deadline); err != nil || left > 30*time.Second || left < 20*time.Second {
		t.Errorf("the call's deadline is in %v, want the configured 30 s", left)
	}
	href := "/v1/runs/" + string(run) + "/calls/" + string(a.CallID)
	if got := w.do(t, "GET", href, "", "Prefer", "wait=60"); got.status != 202 || decode[client.CallAnswer](t, got).Status != contracts.StatusRequiresAction {
		t.Errorf("GET %s = %d %s, want 202 requires_action at once", href, got.status, got.body)
	}
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{`{}`, "", 422},
		{`{"content":"x"}`, "/content", 422},
		{`{"content":["x"]}`, "/content/0", 400},
		{`{"content":[{"type":"text","text":"x"},{"text":"x"}]}`, "/content/1", 400},
		{`{"content":[{"type":7}]}`, "/content/0", 400},
		{`{"content":[],"structuredContent":[]}`, "/structuredContent", 400},
		{`{"content":[],"isError":"yes"}`, "/isError", 422},
		{`{"content":[],"error":true}`, "/error", 422},
	} {
		got := w.do(t, "POST", href+"/result", tt.body)
		p := got.problem(t)
		if got.status != tt.status || len(p.Fields) == 0 || p.Fields[0].Field != tt.field {
			t.Errorf("result %s = %d %s, want %d that names %s", tt.body, got.status, got.body, tt.status, tt.field)
		}
	}
	block := json.RawMessage(`{"type":"text","text":"opened"}`)
	end, err := w.client.Result(t.Context(), run, a.CallID, client.ClientResult{Content: []json.RawMessage{block}, StructuredContent: json.RawMessage(`{"ok":true}`)})
	if err != nil || end.Status != contracts.StatusOK || text(end.Result) != "opened" || string(end.Result.StructuredContent) != `{"ok":true}` {
		t.Errorf("Result() = %+v, %v", end, err)
	}
	_, err = w.client.Result(t.Context(), run, a.CallID, client.ClientResult{})
	if contracts.CodeOf(err) != contracts.CodeConflict {
		t.Errorf("a second Result() = %v, want conflict", err)
	}
	a, _ = w.client.Call(t.Context(), run, client.CallRequest{Name: "open file"})
	end, err = w.client.Result(t.Context(), run, a.CallID, client.ClientResult{IsError: true})
	if err != nil || end.Status != contracts.StatusError || end.Error.Code != contracts.CodeToolError {
		t.Errorf("Result() of a failure = %+v, %v", end, err)
	}
}

func TestLargeArguments(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{ClientTools: []client.ClientTool{{Name: "mine", InputSchema: json.RawMessage(`{"type":"object"}`)}}}).ID
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", 3<<20) + `"}`)
	a, err := w.client.Call(t.Context(), run, client.CallRequest{Name: "mine", Arguments: large})
	if err != nil || string(a.ClientCall.Args) != string(large) {
		t.Errorf("arguments of 3 MiB do not come back whole: %v", err)
	}
}

// Who sends a key believes that the call is made once: what is none, or two, is refused.
func TestKeysThatAreNone(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	for name, keys := range map[string][]string{"empty": {""}, "two": {"a", "b"}, "bytes": {"\xff\xfe"}, "a tab": {"a\tb"}, "too long": {strings.Repeat("k", 256)}} {
		var headers []string
		for _, key := range keys {
			headers = append(headers, "Idempotency-Key", key)
		}
		a := w.do(t, "POST", "/v1/runs/"+string(run)+"/calls", `{"name":"create_event","arguments":{"text":"x"}}`, headers...)
		if a.status/100 != 4 || !strings.Contains(string(a.body), "Idempotency-Key") {
			t.Errorf("%s: %d %s, want a refusal that names the header", name, a.status, a.body)
		}
	}
}
