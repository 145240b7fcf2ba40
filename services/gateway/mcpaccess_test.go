package gateway_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolcrib/toolcrib/internal/core/issuer/issuertest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

// rpc posts an MCP message; "" for no credential, or for no session.
func (w *world) rpc(t *testing.T, credential, session, message string) answer {
	t.Helper()
	return w.mcp(t, "POST", credential, session, message)
}

func (w *world) mcp(t *testing.T, method, credential, session, message string) answer {
	t.Helper()
	headers := []string{"Accept", "application/json, text/event-stream"}
	if credential != "" {
		headers = append(headers, "Authorization", "Bearer "+credential)
	}
	if session != "" {
		headers = append(headers, "Mcp-Session-Id", session)
	}
	return w.do(t, method, "/mcp", message, headers...)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// initialize opens an MCP session and returns its id.
func (w *world) initialize(t *testing.T, credential string) string {
	t.Helper()
	a := w.rpc(t, credential, "", initialize)
	id := a.header.Get("Mcp-Session-Id")
	if a.status != 200 || id == "" {
		t.Fatalf("initialize = %d %s", a.status, a.body)
	}
	if a := w.rpc(t, credential, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != 202 {
		t.Fatalf("initialized = %d %s", a.status, a.body)
	}
	return id
}

// messages are one of each kind that a client can send in a session, and the methods of HTTP without one.
func messages() map[string][2]string {
	out := map[string][2]string{"GET": {"GET", ""}, "DELETE": {"DELETE", ""}, "nonsense": {"POST", "["}}
	for method, params := range map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`,
		"ping":       "", "tools/list": "", "tools/call": `{"name":"create_event","arguments":{}}`,
		"resources/list": "", "resources/templates/list": "", "resources/read": `{"uri":"x:y"}`, "resources/subscribe": `{"uri":"x:y"}`,
		"prompts/list": "", "prompts/get": `{"name":"x"}`, "logging/setLevel": `{"level":"info"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`, "no/such": "",
		"notifications/cancelled": `{"requestId":9}`, "notifications/progress": `{"progressToken":1,"progress":1}`, "notifications/roots/list_changed": "", "notifications/none": "",
	} {
		m := `{"jsonrpc":"2.0","method":"` + method + `"`
		if !strings.HasPrefix(method, "notifications/") {
			m += `,"id":7`
		}
		if params != "" {
			m += `,"params":` + params
		}
		out[method] = [2]string{"POST", m + "}"}
	}
	return out
}

// TestAccessOfMCP sends every kind of message in a session with every kind of credential. None but the one whose session it is gets further
// than with a session that does not exist.
func TestAccessOfMCP(t *testing.T) {
	acme, bell := issuertest.Start(t), issuertest.Start(t)
	cfg := byTokens(acme, bell)
	cfg.Tenants["acme"] = gateway.Tenant{OIDC: cfg.Tenants["acme"].OIDC, Keys: keys("runs", "approve", "admin", "read").Keys}
	w := open(t, cfg)
	session := w.initialize(t, "key-runs")
	ofAnn := w.initialize(t, acme.Token(t, "ann", audience, scope("runs")))
	const nowhere = "0123456789ABCDEFGHIJKLMNOP"
	others := map[string]string{
		"another principal of the tenant": acme.Token(t, "bob", audience, scope("runs")),
		"another tenant":                  bell.Token(t, "ann", audience, scope("runs approve admin read")),
	}
	expired := acme.Token(t, "ann", audience, issuertest.Claims{"scope": "runs", "exp": 1})
	for name, m := range messages() {
		for _, id := range []string{session, nowhere, ""} {
			for credential, want := range map[string]int{"": 401, "nonsense": 401, expired: 401, "key-approve": 403, "key-admin": 403, "key-read": 403} {
				a := w.mcp(t, m[0], credential, id, m[1])
				if a.problem(t); a.status != want || (a.header.Get("WWW-Authenticate") == "") {
					t.Errorf("%s with %.12q = %d %s, want %d", name, credential, a.status, a.body, want)
				}
			}
		}
		for who, credential := range others {
			for _, id := range []string{session, ofAnn} {
				got, want := w.mcp(t, m[0], credential, id, m[1]), w.mcp(t, m[0], credential, nowhere, m[1])
				if got.status != want.status || string(got.body) != string(want.body) {
					t.Errorf("%s of %s in a session that is not theirs = %d %s\nin none it is %d %s", name, who, got.status, got.body, want.status, want.body)
				}
				if slices.Contains([]string{"initialize", "tools/list", "tools/call", "ping", "GET", "DELETE"}, name) && got.status != 404 {
					t.Errorf("%s of %s in a session that is not theirs = %d %s, want 404", name, who, got.status, got.body)
				}
			}
		}
	}
	// The sessions have taken no harm, and their owners can use them, with another token too.
	for id, credential := range map[string]string{session: "key-runs", ofAnn: acme.Token(t, "ann", audience, scope("runs read"))} {
		if a := w.rpc(t, credential, id, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); a.status != 200 || !strings.Contains(string(a.body), "tool_search") {
			t.Errorf("tools/list of the owner = %d %s", a.status, a.body)
		}
		if a := w.mcp(t, "DELETE", credential, id, ""); a.status > 204 {
			t.Errorf("DELETE of the owner = %d %s", a.status, a.body)
		}
	}
	// A token that has lost its scope no longer opens the session of its principal.
	third := w.initialize(t, acme.Token(t, "ann", audience, scope("runs")))
	if a := w.rpc(t, acme.Token(t, "ann", audience, scope("read")), third, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); a.status != 403 {
		t.Errorf("tools/list without the scope = %d %s, want 403", a.status, a.body)
	}
}

// Where no credential is asked for, one can still be shown: it is of somebody else, whose session is not the other's.
func TestSessionsOfThisMachine(t *testing.T) {
	w := open(t, gateway.Config{})
	session := w.initialize(t, "")
	list := `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`
	if a := w.rpc(t, "", session, list); a.status != 200 {
		t.Errorf("tools/list = %d %s", a.status, a.body)
	}
	if a := w.rpc(t, adminToken, session, list); a.status != 404 {
		t.Errorf("tools/list with the admin token in a session without = %d %s, want 404", a.status, a.body)
	}
	if a := w.do(t, "POST", "/mcp", initialize, "Origin", "http://evil.example"); a.status != 403 || contracts.Code(a.problem(t).Code) != contracts.CodeForbidden {
		t.Errorf("initialize for a web page of another's = %d %s, want 403", a.status, a.body)
	}
}
