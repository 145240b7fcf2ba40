package gateway_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

func TestOpenRun(t *testing.T) {
	w := open(t, gateway.Config{})
	a := w.do(t, "POST", "/v1/runs", `{"agent":"planner","profile":"p","session":"s","sandbox":"b","channel":"c","runtime":"r","labels":{"k":"v"},
		"mode":"auto:20","provider":"anthropic","model":"m","platform":"vertex","baseUrl":"https://x","harness":"codex","contextWindow":1000,
		"hint":"a meeting","waitForSources":true,"expiresIn":60,
		"clientTools":[{"name":"open_file","title":"Open","description":"Open a file","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},{"name":"beep","inputSchema":{ "type": "object" }}]}`)
	if a.status != http.StatusCreated {
		t.Fatalf("POST /v1/runs = %d %s, want 201", a.status, a.body)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &raw); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"id", "state", "surface", "tools", "prompt", "catalogue", "pending", "failed", "decision", "expires"} {
		if raw[k] == nil || string(raw[k]) == "null" {
			t.Errorf("answer has no %s: %s", k, a.body)
		}
	}
	v := decode[client.RunView](t, a)
	if v.Surface != contracts.SurfaceTools || len(v.Tools) != 4 || v.Prompt == "" || v.Catalogue.Size != 6 || v.Catalogue.Sources[contracts.SourceClient] != 2 ||
		len(v.Pending) != 1 || v.Decision.Winner != "toolSearch" {
		t.Errorf("run = %s", a.body)
	}
	rec, err := w.runs.Get(t.Context(), contracts.RunKey("local", v.ID))
	if err != nil {
		t.Fatal(err)
	}
	want := contracts.RunRequest{
		Labels:     contracts.Labels{Agent: "planner", Profile: "p", Session: "s", Sandbox: "b", Channel: "c", Runtime: "r", Labels: map[string]string{"k": "v"}},
		ToolSearch: json.RawMessage(`"auto:20"`), Provider: "anthropic", Model: "m", Platform: "vertex", BaseURL: "https://x", Harness: "codex",
		ContextWindow: 1000, Hint: "a meeting", WaitForSources: 5000, ExpiresIn: 60, ClientTools: rec.Request.ClientTools,
	}
	if d := cmp.Diff(want, rec.Request); d != "" {
		t.Errorf("record's request (-want +got):\n%s", d)
	}
	if life := rec.Expires.Sub(rec.Created).Seconds(); life != 60 {
		t.Errorf("the run lives %v s, want 60", life)
	}
	listing, err := w.library.Listing(t.Context(), "local", rec.Request.ClientTools)
	if err != nil {
		t.Fatal(err)
	}
	if got := listing.Tools[0].ID; listing.Source.String() != "client:client" || got != "client:client:beep" || len(listing.Tools) != 2 {
		t.Errorf("client tools = %v of %s, want beep and open_file, sorted, of client:client", got, listing.Source)
	}
	for _, tool := range listing.Tools {
		if tool.Hash != tool.ContentHash() || tool.Bytes == 0 || tool.Tokens == 0 {
			t.Errorf("client tool %s has hash %q, %d bytes, %d tokens, want all filled in", tool.ID, tool.Hash, tool.Bytes, tool.Tokens)
		}
	}

	again := w.do(t, "GET", "/v1/runs/"+string(v.ID), "")
	if d := cmp.Diff(string(a.body), string(again.body)); d != "" || again.status != 200 {
		t.Errorf("GET of the run = %d, differs from the answer to POST:\n%s", again.status, d)
	}
}

// TestOpenRunWishesNothing sees that the body can be left out.
func TestOpenRunWishesNothing(t *testing.T) {
	w := open(t, gateway.Config{})
	for _, body := range []string{"", "{}"} {
		a := w.do(t, "POST", "/v1/runs", body)
		if v := decode[client.RunView](t, a); a.status != 201 || v.State != contracts.RunStatePlanned || v.Expires.Sub(v.Created) != 24*time.Hour {
			t.Errorf("POST /v1/runs with body %q = %d %s, want a run of a day", body, a.status, a.body)
		}
	}
}

func TestOpenRunRefuses(t *testing.T) {
	w := open(t, gateway.Config{})
	object := `{"type":"object"}`
	for _, tt := range []struct {
		name, body string
		status     int
		code       contracts.Code
		field      string // one that the problem names
	}{
		{"no JSON", `{`, 400, contracts.CodeInvalid, ""},
		{"a list", `[]`, 422, contracts.CodeInvalid, ""},
		{"unknown field", `{"agnet":"x"}`, 422, contracts.CodeInvalid, "/agnet"},
		{"wrong type", `{"agent":7}`, 422, contracts.CodeInvalid, "/agent"},
		{"too long", `{"agent":"` + strings.Repeat("x", 300) + `"}`, 422, contracts.CodeInvalid, "/agent"},
		{"platform", `{"platform":"moon"}`, 422, contracts.CodeInvalid, "/platform"},
		{"window", `{"contextWindow":-1}`, 422, contracts.CodeInvalid, "/contextWindow"},
		{"fraction", `{"contextWindow":1.5}`, 422, contracts.CodeInvalid, "/contextWindow"},
		{"expiry", `{"expiresIn":99999999}`, 422, contracts.CodeInvalid, "/expiresIn"},
		{"label", `{"labels":{"a":1}}`, 422, contracts.CodeInvalid, "/labels/a"},
		{"empty label", `{"labels":{"":"x"}}`, 400, contracts.CodeInvalid, "/labels"},
		{"mode", `{"mode":"sideways"}`, 400, contracts.CodeInvalid, "/mode"},
		{"percent", `{"toolSearch":"auto:101"}`, 400, contracts.CodeInvalid, "/toolSearch"},
		{"setting", `{"toolSearch":{"mode":"tools","maxSearchLimit":99}}`, 400, contracts.CodeInvalid, "/toolSearch/maxSearchLimit"},
		{"both modes", `{"toolSearch":true,"mode":"code"}`, 400, contracts.CodeInvalid, "/mode"},
		{"wait", `{"waitForSources":-5}`, 400, contracts.CodeInvalid, "/waitForSources"},
		{"wait as text", `{"waitForSources":"5"}`, 400, contracts.CodeInvalid, "/waitForSources"},
		{"tool without name", `{"clientTools":[{"inputSchema":` + object + `}]}`, 422, contracts.CodeInvalid, "/clientTools/0"},
		{"tool without schema", `{"clientTools":[{"name":"a"}]}`, 422, contracts.CodeInvalid, "/clientTools/0"},
		{"empty name", `{"clientTools":[{"name":"","inputSchema":` + object + `}]}`, 400, contracts.CodeInvalid, "/clientTools/0/name"},
		{"long name", `{"clientTools":[{"name":"` + strings.Repeat("é", 129) + `","inputSchema":` + object + `}]}`, 400, contracts.CodeInvalid, "/clientTools/0/name"},
		{"hidden character", `{"clientTools":[{"name":"a\u200bb","inputSchema":` + object + `}]}`, 400, contracts.CodeInvalid, "/clientTools/0/name"},
		{"name like an id", `{"clientTools":[{"name":"mcp:a:b","inputSchema":` + object + `}]}`, 400, contracts.CodeInvalid, "/clientTools/0/name"},
		{"escape in a label", `{"agent":"a\u001b[31m"}`, 400, contracts.CodeInvalid, ""},
		{"name twice", `{"clientTools":[{"name":"a","inputSchema":` + object + `},{"name":"a","inputSchema":` + object + `}]}`, 400, contracts.CodeInvalid, "/clientTools/1/name"},
		{"schema is a list", `{"clientTools":[{"name":"a","inputSchema":[]}]}`, 400, contracts.CodeInvalid, "/clientTools/0/inputSchema"},
		{"schema of a text", `{"clientTools":[{"name":"a","inputSchema":{"type":"string"}}]}`, 400, contracts.CodeInvalid, "/clientTools/0/inputSchema"},
		{"schema of no meaning", `{"clientTools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"strnig"}}}}]}`, 400, contracts.CodeInvalid, "/clientTools/0/inputSchema"},
		{"output schema of no meaning", `{"clientTools":[{"name":"a","inputSchema":` + object + `,"outputSchema":{"required":7}}]}`, 400, contracts.CodeInvalid, "/clientTools/0/outputSchema"},
		{"output schema", `{"clientTools":[{"name":"a","inputSchema":` + object + `,"outputSchema":7}]}`, 400, contracts.CodeInvalid, "/clientTools/0/outputSchema"},
		{"unplannable", `{"agent":"unplannable"}`, 422, contracts.CodeNameCollision, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do(t, "POST", "/v1/runs", tt.body)
			p := a.problem(t)
			if a.status != tt.status || p.Code != tt.code {
				t.Errorf("POST /v1/runs %s = %d %s, want %d %s", tt.body, a.status, a.body, tt.status, tt.code)
			}
			named := tt.field == ""
			for _, f := range p.Fields {
				named = named || f.Field == tt.field && f.Message != ""
			}
			if !named {
				t.Errorf("problem %s names no field %s", a.body, tt.field)
			}
			if last := tt.field[strings.LastIndex(tt.field, "/")+1:]; !strings.Contains(p.Detail, last) {
				t.Errorf("detail %q does not name %q", p.Detail, last)
			}
		})
	}
	large := w.do(t, "POST", "/v1/runs", `{"hint":"`+strings.Repeat("x", 9<<20)+`"}`)
	if p := large.problem(t); large.status != 413 || p.Code != contracts.CodeTooLarge {
		t.Errorf("a body of 9 MiB = %d %s, want 413 too_large", large.status, p.Code)
	}
	runs, err := w.client.Runs(t.Context(), contracts.RunStatePlanned, 0)
	if err != nil || len(runs) != 0 {
		t.Errorf("after refusals there are %d runs, %v; want none", len(runs), err)
	}
}

func TestListRuns(t *testing.T) {
	w := open(t, gateway.Config{})
	var ids []contracts.RunID
	for i := range 5 {
		ids = append(ids, w.openRun(t, client.RunOptions{Agent: "agent-" + strconv.Itoa(i)}).ID)
	}
	if err := w.client.CloseRun(t.Context(), ids[3]); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		state contracts.RunState
		limit int
		want  []contracts.RunID
	}{
		{"", 0, []contracts.RunID{ids[4], ids[3], ids[2], ids[1], ids[0]}},
		{"", 2, []contracts.RunID{ids[4], ids[3]}},
		{contracts.RunStatePlanned, 2, []contracts.RunID{ids[4], ids[2]}},
		{contracts.RunStateClosed, 0, []contracts.RunID{ids[3]}},
		{contracts.RunStateFailed, 0, nil},
	} {
		runs, err := w.client.Runs(t.Context(), tt.state, tt.limit)
		var got []contracts.RunID
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("Runs(%q, %d), %v (-want +got):\n%s", tt.state, tt.limit, err, d)
		}
	}
	runs, _ := w.client.Runs(t.Context(), "", 1)
	if r := runs[0]; r.Agent != "agent-4" || r.Surface != contracts.SurfaceTools || r.Catalogue.Size != 4 || r.Expires.IsZero() {
		t.Errorf("summary = %+v", r)
	}
	for _, q := range []string{"limit=0", "limit=201", "limit=x", "state=asleep", "limt=5"} {
		a := w.do(t, "GET", "/v1/runs?"+q, "")
		name, _, _ := strings.Cut(q, "=")
		if p := a.problem(t); a.status != 422 || p.Code != contracts.CodeInvalid || !strings.Contains(p.Detail, name) {
			t.Errorf("GET /v1/runs?%s = %d %s, want 422 invalid that names %s", q, a.status, a.body, name)
		}
	}
}

func TestCloseRun(t *testing.T) {
	w := open(t, gateway.Config{})
	v := w.openRun(t, client.RunOptions{})
	path := "/v1/runs/" + string(v.ID)
	for range 2 { // the second finds it closed
		if a := w.do(t, "DELETE", path, ""); a.status != 204 || len(a.body) > 0 {
			t.Fatalf("DELETE %s = %d %s, want 204", path, a.status, a.body)
		}
	}
	got, err := w.client.Run(t.Context(), v.ID)
	if err != nil || got.State != contracts.RunStateClosed || got.Ending != contracts.EndingClosed || got.Ended.IsZero() {
		t.Errorf("closed run = %+v, %v", got, err)
	}
	a := w.do(t, "POST", path+"/calls", `{"name":"tool_search","arguments":{"query":"x"}}`)
	if p := a.problem(t); a.status != 409 || p.Code != contracts.CodeRunClosed {
		t.Errorf("call of a closed run = %d %s, want 409 run_closed", a.status, a.body)
	}
}

func TestNoSuchRun(t *testing.T) {
	w := open(t, gateway.Config{})
	id := string(contracts.NewRunID())
	for _, run := range []string{id, "nonsense", "run_..%2f", "run_*"} {
		for _, r := range []string{
			"GET ", "DELETE ", "POST /calls", "GET /calls/" + string(contracts.NewCallID()), "DELETE /calls/" + string(contracts.NewCallID()),
			"POST /calls/" + string(contracts.NewCallID()) + "/result", "GET /events", "GET /report", "GET /log", "GET /discovered",
		} {
			method, rest, _ := strings.Cut(r, " ")
			body := ""
			if method == "POST" {
				body = `{"name":"x","arguments":{}}`
				if strings.HasSuffix(rest, "result") {
					body = `{"content":[]}`
				}
			}
			a := w.do(t, method, "/v1/runs/"+run+rest, body)
			if p := a.problem(t); a.status != 404 || p.Code != contracts.CodeNotFound {
				t.Errorf("%s of run %q = %d %s, want 404 not_found", r, run, a.status, a.body)
			}
		}
	}
}
