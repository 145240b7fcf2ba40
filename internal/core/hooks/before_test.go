package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// TestRequest has a hook see the whole call, signed.
func TestRequest(t *testing.T) {
	r := receive(t, says(nil))
	s := set(t, web("a", `, headers: {Authorization: "Bearer ${env:KEY}"}, timeout: 3000`), r.URL, nil)
	c := call()
	v := before(t, s, c)
	if v.Decision != contracts.HookAllow || v.Arguments != nil || len(v.Runs) != 1 || v.Runs[0].Hook != "a" || v.Runs[0].Decision != contracts.HookAllow || v.Runs[0].Micros <= 0 {
		t.Errorf("Before = %+v, want allow by a", v)
	}
	want := contracts.HookRequest{
		Protocol: 1, Type: "before_tool_call", Tenant: tenant, Run: c.Run, Labels: c.Labels, CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments,
	}
	if diff := cmp.Diff([]contracts.HookRequest{want}, r.requests()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(r.bodies[0]), string(c.Arguments)) {
		t.Errorf("the body %s has the arguments otherwise than %s", r.bodies[0], c.Arguments)
	}
	h := r.header[0]
	if h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer "+secret {
		t.Errorf("headers = %v", h)
	}
	var ms int
	if n, err := fmt.Sscan(h.Get("Toolcrib-Timeout-Ms"), &ms); n != 1 || err != nil || ms < 1 || ms > 3000 {
		t.Errorf("the time limit told is %q, want up to 3000", h.Get("Toolcrib-Timeout-Ms"))
	}
	key, _ := contracts.ParseHookKey(secret)
	if err := contracts.VerifyHook(key, h, r.bodies[0], time.Now()); err != nil {
		t.Errorf("VerifyHook: %v", err)
	}
	if err := contracts.VerifyHook(key, h, r.bodies[0], time.Now().Add(contracts.HookReplay+time.Minute)); err == nil {
		t.Error("a request is taken that was recorded")
	}
	before(t, s, c)
	if a, b := r.header[0].Get("webhook-id"), r.header[1].Get("webhook-id"); a == b || a == "" {
		t.Errorf("two requests have the ids %q and %q", a, b)
	}
}

// TestRotation has a request signed with each of several keys.
func TestRotation(t *testing.T) {
	r := receive(t, says(nil))
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	s := set(t, `      a: {url: "${env:URL}", signingKey: "${env:KEY}"}`, r.URL, func(c *Config) {
		c.Refs.Lookup = func(k string) (string, bool) {
			return map[string]string{"URL": r.URL, "KEY": other + " " + secret}[k], true
		}
	})
	before(t, s, call())
	for _, k := range []string{other, secret} {
		key, err := contracts.ParseHookKey(k)
		if err == nil {
			err = contracts.VerifyHook(key, r.header[0], r.bodies[0], time.Now())
		}
		if err != nil {
			t.Errorf("with %s: %v", k, err)
		}
	}
}

// TestOrder has hooks be asked by priority and then name, those alone whose globs match, and each see what those before it rewrote.
func TestOrder(t *testing.T) {
	r := receive(t, func(path string, q contracts.HookRequest) string {
		if path == "/d" {
			return `{"decision":"rewrite","arguments":` + string(q.Arguments) + `}`
		}
		if path == "/f" {
			return `{"decision":"allow"}`
		}
		return `{"decision":"rewrite","arguments":{"by":"` + path + `", "was":` + string(q.Arguments) + `}}`
	})
	s := set(t, web("c", "")+web("b", ", priority: 5")+web("a", ", priority: 5, tools: [\"mcp:files:*\"]")+web("e", ", tools: [\"mcp:other:*\"]")+
		web("d", ", priority: 6")+web("z", ", priority: -1")+web("f", ", priority: 7")+web("off", ", disabled: true")+web("g", ", events: [after_tool_call]"), r.URL, nil)
	c := call()
	c.Arguments = json.RawMessage(`{"x": 1}`)
	v := before(t, s, c)
	if want := []string{"/z", "/c", "/a", "/b", "/d", "/f"}; !slices.Equal(r.paths, want) {
		t.Errorf("asked were %v, want %v", r.paths, want)
	}
	const last = `{"by":"/b","was":{"by":"/a","was":{"by":"/c","was":{"by":"/z","was":{"x":1}}}}}`
	if v.Decision != contracts.HookAllow || string(v.Arguments) != last || !slices.Equal(v.Rewrote, []string{"z", "c", "a", "b"}) {
		t.Errorf("Before = %s by %v, want %s", v.Arguments, v.Rewrote, last)
	}
	if got := r.requests(); string(got[5].Arguments) != last || string(got[0].Arguments) != `{"x":1}` {
		t.Errorf("the last hook saw %s, the first %s", got[5].Arguments, got[0].Arguments)
	}
	if string(c.Arguments) != `{"x": 1}` {
		t.Errorf("the caller's arguments became %s", c.Arguments)
	}
}

func TestBlock(t *testing.T) {
	r := receive(t, says(map[string]string{
		"/a": `{"decision":"rewrite","arguments":{}}`, "/b": `{"decision":"approve"}`, "/c": "{\"decision\":\"block\",\"reason\":\"no\\n\\u200b\\u001b[31mway\"}",
	}))
	s := set(t, web("a", "")+web("b", "")+web("c", "")+web("d", ""), r.URL, nil)
	v := before(t, s, call())
	runs := v.Runs
	v.Runs = nil
	if diff := cmp.Diff(Verdict{Decision: contracts.HookBlock, Hook: "c", Reason: "no [31mway"}, v); diff != "" {
		t.Errorf("Before (-want +got):\n%s", diff)
	}
	if len(runs) != 3 || runs[2].Decision != contracts.HookBlock || len(r.requests()) != 3 {
		t.Errorf("ran %+v, want a, b, c", runs)
	}
	r2 := receive(t, says(map[string]string{"/a": `{"decision":"block"}`}))
	if v := before(t, set(t, web("a", ""), r2.URL, nil), call()); v.Reason != noReason || v.Failed {
		t.Errorf("a block without a reason has %q, failed %v", v.Reason, v.Failed)
	}
}

func TestApprove(t *testing.T) {
	r := receive(t, says(map[string]string{
		"/a": `{"decision":"approve","reason":null,"approval":{"title":"A\u202e","deciders":["ada","bob"],"expiresIn":60}}`,
		"/b": `{"decision":"approve","arguments":{"n":1},"approval":{"title":"B","severity":"critical","deciders":["bob","eve"]}}`,
		"/c": `{"decision":"approve"}`,
		"/d": `{"decision":"approve","approval":{"deciders":["eve"]}}`,
	}))
	s := set(t, web("a", "")+web("b", "")+web("c", ""), r.URL, nil)
	v := before(t, s, call())
	want := contracts.ApprovalTerms{Title: "B", Severity: "critical", Deciders: []string{"bob"}, ExpiresIn: 60}
	if v.Decision != contracts.HookApprove || v.Approval == nil || !slices.Equal(v.Asked, []string{"a", "b", "c"}) || string(v.Arguments) != `{"n":1}` {
		t.Fatalf("Before = %+v, want an approval", v)
	}
	if diff := cmp.Diff(want, *v.Approval); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
	v = before(t, set(t, web("a", "")+web("d", ""), r.URL, nil), call())
	if v.Decision != contracts.HookBlock || v.Hook != "d" || v.Reason != nobody || v.Approval != nil {
		t.Errorf("two approvals that nobody can give: %+v, want a block", v)
	}
}

// TestAdvisory has an advisory hook be asked and have no say, whatever it answers.
func TestAdvisory(t *testing.T) {
	for _, answer := range []string{
		`{"decision":"block"}`, `{"decision":"rewrite","arguments":{}}`, `{"decision":"approve"}`, `nonsense`, `{"decision":"allow"}`,
	} {
		r := receive(t, says(map[string]string{"/a": answer}))
		v := before(t, set(t, web("a", ", advisory: true")+web("b", ""), r.URL, nil), call())
		if v.Decision != contracts.HookAllow || v.Arguments != nil || v.Approval != nil || len(v.Runs) != 2 || !v.Runs[0].Advisory {
			t.Errorf("%s: %+v, want allow", answer, v)
		}
		if want := strings.Contains(answer, "nonsense"); (v.Runs[0].Decision == contracts.HookFailed) != want || (v.Runs[0].Problem != "") != want {
			t.Errorf("%s: the run is %+v", answer, v.Runs[0])
		}
	}
}

// TestResponder has hooks on the bus take part as webhooks do.
func TestResponder(t *testing.T) {
	b := natstest.Open(t)
	ids := make(chan string, 10)
	respond(t, b.Conn, "guard", func(m *nats.Msg) string {
		ids <- m.Header.Get("webhook-id") + m.Header.Get(contracts.HookIDHeader)
		var q contracts.HookRequest
		if err := json.Unmarshal(m.Data, &q); err != nil || q.Tenant != tenant || m.Header.Get(contracts.HookTimeoutHeader) == "" {
			return err.Error()
		}
		return `{"decision":"rewrite","arguments":{"was":` + string(q.Arguments) + `}}`
	})
	r := receive(t, says(nil))
	s := set(t, "      a: {bus: guard}\n"+web("b", ""), r.URL, func(c *Config) { c.Conn = b.Conn })
	v := before(t, s, call())
	want := `{"was":` + string(call().Arguments) + `}`
	if v.Decision != contracts.HookAllow || string(v.Arguments) != want || string(r.requests()[0].Arguments) != want {
		t.Errorf("Before = %+v, want %s", v, want)
	}
	if id := <-ids; id == "" {
		t.Error("a responder is told no id")
	}
	other, err := New(Config{Tenant: "globex", Hooks: s.cfg.Hooks[:1], Conn: b.Conn})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if v := before(t, other, call()); v.Decision != contracts.HookBlock || len(ids) != 0 {
		t.Errorf("the hook of another tenant answered: %+v", v)
	}
}

// TestContext has the end of the caller's context be an error, and no fault of the hook.
func TestContext(t *testing.T) {
	asked, free := make(chan struct{}, 10), make(chan struct{})
	r := receive(t, func(string, contracts.HookRequest) string {
		asked <- struct{}{}
		<-free
		return `{"decision":"allow"}`
	})
	defer close(free)
	s := set(t, web("a", ", timeout: 10000"), r.URL, nil)
	for range silences + 1 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		v, err := s.Before(ctx, call())
		if !errors.Is(err, context.Canceled) || v.Decision == contracts.HookAllow {
			t.Fatalf("Before = %+v, %v, want %v", v, err, context.Canceled)
		}
	}
	if s.before[0].breaker.silent != 0 {
		t.Error("callers who left count against the hook")
	}
}

func TestNew(t *testing.T) {
	s := set(t, web("a", ""), "http://127.0.0.1:1", nil)
	hooks := slices.Clone(s.cfg.Hooks)
	hooks[0].Tools = []string{"["}
	if _, err := New(Config{Hooks: hooks}); err == nil || !strings.Contains(err.Error(), "hook a: tools: glob") {
		t.Errorf("New with a glob that is none: %v", err)
	}
	var none *Set
	none.After(t.Context(), call(), contracts.Outcome{})
	none.Close()
	if v := before(t, none, call()); v.Decision != contracts.HookAllow {
		t.Errorf("Before of no hooks = %+v", v)
	}
	if (Verdict{}).Decision == contracts.HookAllow {
		t.Error("the zero Verdict lets calls pass")
	}
}

func BenchmarkBefore(b *testing.B) {
	none := set(b, "      {}", "", nil)
	r := receiveFast(b)
	other := set(b, web("a", `, tools: ["mcp:other:*", "plugin:*"]`), r, nil)
	one := set(b, web("a", ""), r, nil)
	nc := natstest.Open(b)
	respond(b, nc.Conn, "guard", func(*nats.Msg) string { return `{"decision":"allow"}` })
	bus := set(b, "      a: {bus: guard}\n", "", func(c *Config) { c.Conn = nc.Conn })
	for name, s := range map[string]*Set{"nil": nil, "none": none, "other tools": other, "webhook": one, "bus": bus} {
		b.Run(name, func(b *testing.B) {
			c := call()
			b.ReportAllocs()
			for b.Loop() {
				if v, err := s.Before(b.Context(), c); err != nil || v.Decision != contracts.HookAllow {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// receiveFast starts a server that allows everything and keeps nothing.
func receiveFast(b *testing.B) string {
	b.Helper()
	srv := newServer(b, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"decision":"allow"}`)) })
	return srv.URL
}

// TestNothingForNothing has no hooks cost no allocation.
func TestNothingForNothing(t *testing.T) {
	c, o := call(), contracts.Outcome{}
	for name, s := range map[string]*Set{"nil": nil, "none": set(t, "      {}", "", nil), "other": set(t, web("a", `, tools: ["mcp:other:*"]`), "", nil)} {
		if n := testing.AllocsPerRun(100, func() {
			v, err := s.Before(t.Context(), c)
			if v.Decision != contracts.HookAllow || err != nil {
				t.Error(v, err)
			}
			s.After(t.Context(), c, o)
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
