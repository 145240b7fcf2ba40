package hooks

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	tenant = contracts.TenantID("acme")
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// call is one that all hooks of the tests are for.
func call() Call {
	yes := true
	return Call{
		Run: "run_1", ID: "call_1", Labels: contracts.Labels{Agent: "planner"},
		Tool: contracts.HookTool{
			ID: "mcp:files:write", Name: "write", Source: contracts.SourceMCP, Hash: "h1",
			Annotations: &contracts.Annotations{DestructiveHint: &yes}, TrustAnnotations: true,
		},
		Arguments: json.RawMessage(`{"path":"/a","text":"1 < 2","n":12345678901234567890.10}`),
	}
}

// set returns the hooks that a configuration has for tenant acme, with URL and KEY for its references.
func set(t testing.TB, text, url string, change func(*Config)) *Set {
	t.Helper()
	c, err := config.Parse([]byte("tenants:\n  acme:\n    hooks:\n"+text), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"URL": url, "KEY": secret}
	cfg := Config{Tenant: tenant, Hooks: c.HooksOf(tenant), Refs: config.Resolver{Lookup: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// web returns the lines of a webhook of this name, at a path that is its name, with more settings in YAML.
func web(name, more string) string {
	return "      " + name + `: {url: "${env:URL}/` + name + `", signingKey: "${env:KEY}"` + more + "}\n"
}

// A receiver is a server of webhooks.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []contracts.HookRequest
	header []http.Header
	bodies [][]byte
	paths  []string
}

// receive starts a server that answers with what answer returns for the request to a path.
func receive(t testing.TB, answer func(path string, q contracts.HookRequest) string) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var q contracts.HookRequest
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		if err != nil {
			t.Errorf("request: %v", err)
		}
		r.mu.Lock()
		r.got, r.header, r.bodies, r.paths = append(r.got, q), append(r.header, req.Header), append(r.bodies, body), append(r.paths, req.URL.Path)
		r.mu.Unlock()
		io.WriteString(w, answer(req.URL.Path, q))
	}))
	t.Cleanup(r.Close)
	return r
}

// says answers each path with a text of its own, and others with allow.
func says(answers map[string]string) func(string, contracts.HookRequest) string {
	return func(path string, _ contracts.HookRequest) string {
		if a, ok := answers[path]; ok {
			return a
		}
		return `{"decision":"allow"}`
	}
}

func (r *receiver) requests() []contracts.HookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// before is Before without an error.
func before(t testing.TB, s *Set, c Call) Verdict {
	t.Helper()
	v, err := s.Before(t.Context(), c)
	if err != nil {
		t.Fatalf("Before: %v", err)
	}
	return v
}

// respond answers the hook of that name on the bus.
func respond(t testing.TB, conn *nats.Conn, plugin string, answer func(*nats.Msg) string) {
	t.Helper()
	sub, err := conn.QueueSubscribe(contracts.PluginHookSubject(tenant, contracts.PluginID(plugin)), "q", func(m *nats.Msg) { m.Respond([]byte(answer(m))) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Unsubscribe() })
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// told collects what Config.Told hears.
func told(into chan<- contracts.HookRun) func(*Config) {
	return func(c *Config) {
		c.Told = func(_ contracts.RunID, _ contracts.CallID, r contracts.HookRun) { into <- r }
	}
}
