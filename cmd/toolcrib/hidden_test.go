package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

var (
	policies = flag.Int("policies", 12, "random policies of TestHiddenToolsNeverExisted")
	seed     = flag.Uint64("seed", 1, "of its first policy")
)

// hideable are the tools of the sources that policies hide some of. Their words are their own, so that a trace of one is one.
var hideable = map[string][]string{
	"bank":  {"list_accounts: Accounts with their balance.", "send: Send money, a wire transfer.", "transfer: Move money between accounts."},
	"files": {"delete_file: Delete a file for ever.", "list: List the folder.", "read_file: Read a file.", "write_file: Write a file."},
	"mail":  {"delete_mail: Delete a letter.", "list: List letters of the mailbox.", "search_mail: Search letters by word.", "send: Send a letter to somebody."},
}

// hideableByCaller are tools of the caller.
var hideableByCaller = []string{"open_window: Open a window.", "send: Send what is on the screen."}

// The annotations of the tools of bank are believed, and these are them.
func readOnly(tool string) bool {
	return strings.HasPrefix(tool, "list") || strings.HasPrefix(tool, "read")
}

// A stage is a deployment with a tenant that has every tool and a policy, and a tenant for each subset of the sources, whose tools are set.
type stage struct {
	*testing.T
	*server
	mu    sync.Mutex
	tools map[string]map[string][]string // by tenant and source
	all   map[contracts.ToolID]policy.Tool
}

// full is the tenant that has every tool.
const full = "full"

// bare is the tenant that has just the tools: of each source none, some or all.
func bare(tools map[string][]string) string {
	name := "bare"
	for _, owner := range owners {
		switch len(tools[owner]) {
		case 0:
		case len(hideable[owner]):
			name += "-all-" + owner
		default:
			name += "-" + owner
		}
	}
	return name
}

var owners = []string{"bank", "files", "mail"}

func newStage(t *testing.T) *stage {
	s := &stage{T: t, tools: map[string]map[string][]string{}}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(s.mcp, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	tenants := map[string]any{}
	add := func(tenant string, sources []string, more map[string]any) {
		servers := map[string]any{}
		for _, owner := range sources {
			servers[owner] = map[string]any{"url": web.URL + "/" + tenant + "/" + owner, "trustAnnotations": owner == "bank"}
		}
		for owner, s := range more {
			servers[owner] = s
		}
		tenants[tenant] = map[string]any{
			"keys":    []any{keyOf("caller-"+tenant, "caller", "runs"), keyOf("admin-"+tenant, "admin", "admin", "read")},
			"sources": servers,
		}
	}
	for i := range 27 {
		tools, sources := map[string][]string{}, []string{}
		for _, owner := range owners {
			if i%3 > 0 {
				sources = append(sources, owner)
				tools[owner] = hideable[owner][:[]int{0, 1, len(hideable[owner])}[i%3]]
			}
			i /= 3
		}
		s.tools[bare(tools)] = tools
		add(bare(tools), sources, nil)
	}
	s.tools[full] = hideable
	add(full, owners, map[string]any{"vault": map[string]any{"command": "no-such-vault-program"}})
	file := filepath.Join(t.TempDir(), "toolcrib.json")
	write(t, file, string(asJSON(t, map[string]any{"toolSearch": map[string]any{"codeTimeoutMs": 60_000}, "tenants": tenants})))
	s.server = start(t, t.TempDir(), "--config", file)
	for owner := range hideable {
		s.refresh(full, owner)
	}
	s.learn()
	return s
}

// mcp returns the server that the path of the request names, as it is now.
func (s *stage) mcp(r *http.Request) *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, path, _ := strings.Cut(r.URL.Path, "/")
	tenant, owner, _ := strings.Cut(path, "/")
	var o mcp.ServerOptions
	if len(s.tools[tenant][owner]) == len(hideable[owner]) { // what a server says of its tools is shown where all of them are
		o.Instructions = "Handle " + owner + " with care."
	}
	out := mcp.NewServer(&mcp.Implementation{Name: owner, Version: "1"}, &o)
	for _, tool := range s.tools[tenant][owner] {
		name, text, _ := strings.Cut(tool, ": ")
		out.AddTool(&mcp.Tool{
			Name: name, Description: text, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: readOnly(name)},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"` + name + `_note":{"type":"string"}}}`),
		}, func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %s %s", owner, name, q.Params.Arguments)}}}, nil
		})
	}
	return out
}

func (s *stage) refresh(tenant, owner string) {
	s.Helper()
	src, err := client.New(s.url, "admin-"+tenant).RefreshSource(s.Context(), contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner})
	if err != nil || src.State != contracts.SourceStateReady {
		s.Fatalf("refresh %s of %s: %+v, %v", owner, tenant, src, err)
	}
}

// keyOf returns what a configuration has of an API key.
func keyOf(key, name string, scopes ...string) map[string]any {
	sum := sha256.Sum256([]byte(key))
	return map[string]any{"name": name, "hash": hex.EncodeToString(sum[:]), "scopes": scopes}
}

// A draw makes random policies.
type draw struct{ *rand.Rand }

func (d draw) pick(list ...string) string { return list[d.IntN(len(list))] }

func (d draw) globs(most int) (list []string) {
	for range d.IntN(most + 1) {
		list = append(list, d.pick("mcp:*", "mcp:mail:*", "mcp:bank:*", "mcp:files:*", "client:*", "*:send", "*:list*", "*:delete_*", "mcp:*:[a-l]*", "mcp:bank:transfer",
			"mcp:mail:search_mail", "mcp:?a*:*", "client:client:open_window", "platform:core:*", "platform:core:now", "*_file"))
	}
	return list
}

// layers returns a policy. With atCall it has rules over arguments and such as ask for approval.
func (d draw) layers(atCall bool) []contracts.PolicyLayer {
	layers := []contracts.PolicyLayer{{Level: "tenant", Deny: []string{"mcp:vault:*"}}}
	for range 1 + d.IntN(3) {
		l := contracts.PolicyLayer{Level: d.pick("tenant", "tenant", "agent", "profile", "session")}
		if l.Level != "tenant" {
			l.Name = d.pick("one", "two")
		}
		if l.Deny = d.globs(2); d.IntN(3) == 0 {
			l.Allow = append(d.globs(3), "platform:*")
		}
		for i := range d.IntN(4) {
			r := contracts.PolicyRule{Name: fmt.Sprintf("rule-%d", i), Effect: contracts.PolicyEffect(d.pick("deny", "deny", "allow")), Tools: d.globs(3)}
			r.When = d.pick("", `tool.name.startsWith("s")`, `tool.source == "mcp:mail"`, `tool.trusted && !tool.annotations.readOnly`, `tool.annotations.readOnly`,
				`run.agent == "one" && tool.name == "list"`, `run.labels["team"] == "x"`, `run.principal != "caller"`, `tool.hash > "sha256:8"`)
			if atCall && d.IntN(2) == 0 {
				r.Effect = contracts.PolicyEffect(d.pick("deny", "allow"))
				r.When = d.pick("", "args.n > 3", "has(args.n)", `tool.name.contains("l") && args.size() > 0`)
			}
			if atCall && d.IntN(8) == 0 { // few, as each call that asks takes the second that nobody decides in
				r.Effect, r.Tools, r.When = contracts.PolicyApprove, []string{"mcp:bank:transfer", "mcp:mail:send"}, "args.n > 3"
				r.Approval = &contracts.ApprovalTerms{ExpiresIn: 1}
			}
			l.Rules = append(l.Rules, r)
		}
		layers = append(layers, l)
	}
	return layers
}

// A story is what a run's caller is told, step by step, with what differs between any two runs made equal.
type story struct {
	*stage
	tenant string
	run    string
	lines  []string
	names  map[string]string
}

var (
	given = regexp.MustCompile(`,"clientTools":"[0-9a-f]*"`) // the request, which is the caller's own
	ids   = regexp.MustCompile(`(run|call|body|appr|srch)_[a-z0-9]{26}`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]*Z?|(\\*"(?:durationMs|ms|micros|cpuMicros|valueBytes|seq)\\*":)[0-9.]+`)
)

func (s *story) tell(step string, body []byte) {
	text := times.ReplaceAllString(given.ReplaceAllString(string(body), ""), "${1}0")
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		if s.names[id] == "" {
			s.names[id] = fmt.Sprintf("%.4s %d", id, len(s.names))
		}
		return s.names[id]
	})
	if strings.HasSuffix(step, "/log: 200") { // when a catalogue is ready is a matter of chance
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "\n")
	}
	s.lines = append(s.lines, step+" → "+text)
}

// send makes a request of the run's caller and tells of its answer.
func (s *story) send(method, path string, body any) []byte {
	s.Helper()
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(asJSON(s.T, body))
	}
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, in)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer caller-"+s.tenant)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	s.tell(fmt.Sprintf("%s %s %s: %d", method, asJSON(s.T, body), strings.ReplaceAll(path, s.run, "RUN"), res.StatusCode), out)
	return out
}

func (s *story) call(name string, args any) {
	s.Helper()
	s.send("POST", "/v1/runs/"+s.run+"/calls", map[string]any{"name": name, "arguments": args})
}

// everything is a body that asks for all there could be.
const everything = `const out = [];
const note = async (what, f) => { try { out.push([what, await f()]); } catch (e) { out.push([what, e.name, e.message, e.status, e.outcome && {...e.outcome, durationMs: 0}]); } };
for (const q of QUERIES) await note(q, async () => { const hits = await tools.search(q, {limit: 20}); return {...hits, total: hits.total, limit: hits.limit, nearest: hits.nearest, pending: hits.pending, failed: hits.failed}; });
for (const id of IDS) await note("describe " + id, () => tools.describe(id));
for (const id of IDS) await note("call " + id, () => tools.call(id, {n: 1}, {outcome: true}));
return out;`

// tellAll opens a run and does all that its caller can do to learn of tools.
func tellAll(s *stage, tenant, surface string, labels client.RunOptions, tools []client.ClientTool, queries, ids []string) []string {
	s.Helper()
	st := &story{stage: s, tenant: tenant, names: map[string]string{}}
	labels.Mode, labels.ClientTools, labels.WaitForSources = surface, tools, 60_000
	var run client.RunView
	if err := json.Unmarshal(st.send("POST", "/v1/runs", labels), &run); err != nil || run.ID == "" {
		s.Fatalf("open a run: %v %v", err, st.lines)
	}
	st.run = string(run.ID)
	st.lines[0] = strings.ReplaceAll(st.lines[0], st.run, "RUN")
	st.send("GET", "/v1/runs/"+st.run, nil)
	st.call("tool_search", map[string]any{"queries": queries, "limit": 20})
	st.call("tool_search", map[string]any{"query": "select:" + strings.Join(ids, ",")})
	for _, id := range ids {
		st.call("tool_describe", map[string]any{"id": id})
		st.call("tool_call", map[string]any{"id": id, "args": map[string]any{"n": 5}})
		st.call(id, map[string]any{"n": "five"})
	}
	code := strings.NewReplacer("QUERIES", string(asJSON(s.T, queries)), "IDS", string(asJSON(s.T, ids))).Replace(everything)
	st.call("tool_search_code", map[string]any{"code": code})
	for _, part := range []string{"discovered", "report", "log"} {
		st.send("GET", "/v1/runs/"+st.run+"/"+part, nil)
	}
	st.send("DELETE", "/v1/runs/"+st.run, nil)
	if labels.Labels == nil {
		st.tellMCP(surface, queries, ids)
	}
	return st.lines
}

// tellMCP opens an MCP session and does the same there.
func (s *story) tellMCP(surface string, queries, ids []string) {
	s.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp?mode=" + surface, HTTPClient: &http.Client{Transport: bearer("caller-" + s.tenant)}, DisableStandaloneSSE: true}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(s.Context(), transport, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer session.Close()
	tell := func(step string, answer any, err error) {
		s.tell("MCP "+step, asJSON(s.T, []any{answer, fmt.Sprint(err)}))
	}
	tell("instructions", session.InitializeResult().Instructions, nil)
	list, err := session.ListTools(s.Context(), nil)
	tell("tools/list", list, err)
	for _, id := range ids {
		a, err := session.CallTool(s.Context(), &mcp.CallToolParams{Name: id, Arguments: map[string]any{"n": 1}})
		tell("tools/call "+id, a, err)
	}
	for _, q := range []struct {
		name string
		args map[string]any
	}{{"tool_search", map[string]any{"queries": queries}}, {"tool_describe", map[string]any{"id": ids[len(ids)-1]}}, {"tool_call", map[string]any{"id": ids[len(ids)-2], "args": map[string]any{}}}} {
		a, err := session.CallTool(s.Context(), &mcp.CallToolParams{Name: q.name, Arguments: q.args})
		tell(fmt.Sprint("tools/call ", q), a, err)
	}
}

// bearer adds the token to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A run whose policy hides tools is told, in every answer there is, exactly what one is told for which they never existed.
func TestHiddenToolsNeverExisted(t *testing.T) {
	s := newStage(t)
	for i := range *policies {
		seed := *seed + uint64(i)
		d := draw{rand.New(rand.NewPCG(seed, 0))}
		atCall := d.IntN(2) == 0
		layers := d.layers(atCall)
		o := client.RunOptions{Agent: d.pick("", "one", "two"), Profile: d.pick("", "one"), Session: d.pick("", "two"), Labels: map[string]string{"team": d.pick("x", "y")}}
		surface := d.pick("code", "tools", "directory", "direct")
		if d.IntN(4) == 0 { // as an MCP session is
			o = client.RunOptions{}
		}
		compareWithBare(s, layers, atCall, o, surface, d)
		if t.Failed() {
			t.Fatalf("with -seed %d: surface %s, labels %+v, policy %s", seed, surface, o, asJSON(t, layers))
		}
	}
}

func compareWithBare(s *stage, layers []contracts.PolicyLayer, atCall bool, o client.RunOptions, surface string, d draw) {
	s.Helper()
	if _, err := client.New(s.url, "admin-"+full).SetPolicies(s.Context(), layers); err != nil {
		s.Fatal(err)
	}
	p, err := policy.Compile(layers)
	if err != nil {
		s.Fatal(err)
	}
	e := p.For(contracts.Labels{Agent: o.Agent, Profile: o.Profile, Session: o.Session, Labels: o.Labels}).As("caller")
	shown := func(id string) bool { return !e.See(s.all[contracts.ToolID(id)]).Denied() }
	rest := map[string][]string{}
	var names []string
	for owner, tools := range hideable {
		for _, tool := range tools {
			name, _, _ := strings.Cut(tool, ":")
			if names = append(names, "mcp:"+owner+":"+name); shown("mcp:" + owner + ":" + name) {
				rest[owner] = append(rest[owner], tool)
			}
		}
	}
	slices.Sort(names)
	tenant := bare(rest)
	s.mu.Lock()
	s.tools[tenant] = rest
	s.mu.Unlock()
	for owner := range rest {
		s.refresh(tenant, owner)
	}
	var left []contracts.PolicyLayer
	if atCall {
		left = layers
	} else { // those of the platform exist for every tenant
		var denied []string
		for _, name := range platformTools {
			if id := "platform:core:" + name; !shown(id) {
				denied = append(denied, id)
			}
		}
		for _, name := range []string{control.Search, control.Describe, control.Call, control.Code} {
			if id := control.ID(name); e.Forbids(id) {
				denied = append(denied, string(id))
			}
		}
		if len(denied) > 0 {
			left = []contracts.PolicyLayer{{Level: "tenant", Deny: denied}}
		}
	}
	if _, err := client.New(s.url, "admin-"+tenant).SetPolicies(s.Context(), left); err != nil {
		s.Fatal(err)
	}
	var own, ownLeft []client.ClientTool
	for _, tool := range hideableByCaller {
		if o.Labels == nil {
			break // an MCP client has none
		}
		name, text, _ := strings.Cut(tool, ": ")
		c := client.ClientTool{Name: name, Description: text, InputSchema: json.RawMessage(`{"type":"object"}`)}
		if own = append(own, c); shown("client:client:" + name) {
			ownLeft = append(ownLeft, c)
		}
	}
	queries := []string{"send money", "delete", "letters of the mailbox", "+send", "list", "transfer between accounts", "vault", "what time is it", "zzz", "mcp:bank:transfer", "window", "raed file"}
	ids := []string{"platform:core:now", "vault.open", d.pick("send", "list", "transfer"), d.pick("bank__send", "mcp__mail__send", "mail.send", "MCP:MAIL:SEND"), d.pick("mcp:bank:trasnfer", "mcp:files:reed_file", "delete_male")}
	for range 4 {
		ids = append(ids, d.pick(names...))
	}
	if !atCall { // calls of the caller's tools are left with the caller
		queries = append(queries, "select:open_window")
	}
	got := tellAll(s, full, surface, o, own, queries, ids)
	want := tellAll(s, tenant, surface, o, ownLeft, queries, ids)
	got[0], want[0] = afterArrow(got[0]), afterArrow(want[0]) // the requests differ by the caller's own tools
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			from := max(0, len(commonPrefix(got[i], want[i]))-300)
			s.Fatalf("%d of %d tools are hidden. Answer %d, %s\ntells\n%.900s\nwhere they never existed\n%.900s", len(names)-count(rest), len(names), i, clip(got[i], 200), got[i][from:], want[i][min(from, len(want[i])):])
		}
	}
}

func commonPrefix(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[:i]
		}
	}
	return a[:min(len(a), len(b))]
}

func clip(s string, most int) string { return s[:min(len(s), most)] }

func afterArrow(line string) string {
	_, text, _ := strings.Cut(line, " → ")
	return text
}

func count(tools map[string][]string) (n int) {
	for _, list := range tools {
		n += len(list)
	}
	return n
}

// platformTools exist for every tenant; policy takes them away alike.
var platformTools = []string{"date_add", "now", "read_result", "uuid", "wait"}

// learn notes what policy may read of every tool of the tenant that has all.
func (s *stage) learn() {
	s.Helper()
	c := client.New(s.url, "caller-"+full)
	var own []client.ClientTool
	for _, tool := range hideableByCaller {
		name, text, _ := strings.Cut(tool, ": ")
		own = append(own, client.ClientTool{Name: name, Description: text, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	run := openStageRun(s, c, own)
	ids := []string{}
	for owner, tools := range hideable {
		for _, tool := range tools {
			name, _, _ := strings.Cut(tool, ":")
			ids = append(ids, "mcp:"+owner+":"+name)
		}
	}
	for _, name := range platformTools {
		ids = append(ids, "platform:core:"+name)
	}
	for _, tool := range own {
		ids = append(ids, "client:client:"+tool.Name)
	}
	s.all = map[contracts.ToolID]policy.Tool{}
	for _, id := range ids {
		var d contracts.DescribeAnswer
		a := call(s.T, c, run, "tool_describe", fmt.Sprintf(`{"id":%q}`, id))
		if a.Status != contracts.StatusOK || json.Unmarshal(a.Result.StructuredContent, &d) != nil {
			s.Fatalf("describe %s: %+v", id, a)
		}
		trusted := strings.HasPrefix(id, "mcp:bank:") || strings.HasPrefix(id, "platform:")
		s.all[d.ID] = policy.Tool{ID: d.ID, Hash: d.Hash, Trusted: trusted, Annotations: d.Annotations}
	}
}

func openStageRun(s *stage, c *client.Client, own []client.ClientTool) contracts.RunID {
	s.Helper()
	r, err := c.OpenRun(s.Context(), client.RunOptions{Mode: "tools", ClientTools: own, WaitForSources: 60_000})
	if err != nil {
		s.Fatal(err)
	}
	return r.ID
}

// Which rule stopped a call stands in the story of its run for operators, and for nobody else.
func TestOnlyOperatorsLearnTheRule(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	_, err := s.admin(t).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "tenant", Rules: []contracts.PolicyRule{
		{Name: "not-so-far", Effect: contracts.PolicyDeny, Tools: []string{"platform:core:date_add"}, When: "args.days > 3"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	run := openRun(t, s.client(), client.RunOptions{Mode: "tools"}).ID
	if a := call(t, s.client(), run, "platform:core:date_add", `{"date":"2026-02-28","days":4}`); a.Status != contracts.StatusBlocked {
		t.Fatalf("the call ended with %s, want blocked", a.Status)
	}
	told := func(c *client.Client) (texts []string) {
		eventually(t, "the end of the call is in the log", func() bool {
			texts = nil
			for l, err := range c.Log(t.Context(), run) {
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, string(l.Event))
			}
			return strings.Contains(strings.Join(texts, ""), `"blocked"`)
		})
		for e, err := range c.Events(t.Context(), run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if texts = append(texts, string(e.Data)); e.Type == "call.finished" {
				break
			}
		}
		return texts
	}
	secrets := []string{"not-so-far", `"policy":"`, `"catalogueBlob":"`}
	for _, secret := range secrets {
		if text := strings.ReplaceAll(strings.Join(told(s.client()), "\n"), `":""`, ""); strings.Contains(text, secret) {
			t.Errorf("the run's caller is told %s:\n%s", secret, text)
		}
		if text := strings.Join(told(s.admin(t)), "\n"); strings.Count(text, secret) < 2 {
			t.Errorf("the operator is not told %s in the log and in the event stream:\n%s", secret, text)
		}
	}
}

// Operators can ask what policy makes of a tool in a run, also of one that it hides.
func TestExplainPolicy(t *testing.T) {
	s := up(t, t.TempDir(), nil)
	_, err := s.admin(t).SetPolicies(t.Context(), []contracts.PolicyLayer{{Level: "agent", Name: "night", Deny: []string{"platform:core:uuid"}, Rules: []contracts.PolicyRule{
		{Name: "not-so-far", Effect: contracts.PolicyDeny, Tools: []string{"platform:core:date_add"}, When: "args.days > 3"},
		{Name: "ask", Effect: contracts.PolicyApprove, Tools: []string{"platform:core:now"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	run := string(openRun(t, s.client(), client.RunOptions{Agent: "night", Mode: "tools"}).ID)
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"platform:core:date_add"}, []string{"effect   allow", "visible  yes", "known    yes"}},
		{[]string{"platform:core:date_add", "--args", `{"days": 4}`}, []string{"effect   deny", "visible  yes", "agent night", "not-so-far"}},
		{[]string{"platform:core:date_add", "--args", `{}`}, []string{"effect   deny", "cannot be evaluated"}},
		{[]string{"platform:core:uuid"}, []string{"effect   deny", "visible  no", "platform:core:uuid"}},
		{[]string{"platform:core:now"}, []string{"effect   approve", "ask"}},
		{[]string{"mcp:nobody:nothing"}, []string{"known    no"}},
	} {
		out, err := operate(t, s, append([]string{"explain", run, "--tool"}, tt.args...)...)
		for _, want := range tt.want {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("explain %v: %v\n%s\nwant %q", tt.args, err, out, want)
			}
		}
	}
	for _, tt := range []struct{ args, want string }{
		{"explain --tool platform:core:now", "give the run"},
		{"explain " + run + " --tool now", "want a whole tool id"},
		{"explain " + run + " --tool platform:core:now --args [1]", "want an object"},
	} {
		if out, err := operate(t, s, strings.Fields(tt.args)...); err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v\n%s\nwant %q", tt.args, err, out, tt.want)
		}
	}
	if _, err := s.client().Ruling(t.Context(), contracts.RunID(run), client.RulingRequest{Tool: "platform:core:uuid"}); contracts.CodeOf(err) != contracts.CodeUnauthenticated {
		t.Errorf("without a credential: %v", err)
	}
}
